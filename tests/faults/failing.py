"""Storage that fails: from some change to a file on, or only at one, no space or no permission.

The process lives, so its error is looked at as well: it has a code, and what it says about the
outcome is true.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator

from tests.faults.judging import Violation, law
from tests.faults.processes import Ended
from tests.faults.shim import Cut, How
from tests.faults.sweep import Line, Place, judged_line
from tests.faults.works import WORKS, recover

#: Errors that leave it open whether the work is done: recovery, or a look, tells.
IN_DOUBT = frozenset({"OMNIGRAPH_RECOVERY_REQUIRED", "OMNIGRAPH_OUTCOME_UNKNOWN"})
FAILURES = [
    (How.FAIL_ON, errno.ENOSPC),
    (How.FAIL_ONCE, errno.ENOSPC),
    (How.FAIL_ON, errno.EACCES),
    (How.FAIL_ONCE, errno.EACCES),
]


def fail_sweep(
    place: Place, cuts: Iterable[int], failures: Iterable[tuple[How, int]] = FAILURES
) -> Iterator[Line]:
    """Let a work fail at each of these changes, in each of these ways, and judge what it left."""
    for how, error in failures:
        for at in cuts:
            name = f"{errno.errorcode[error]}{'' if how is How.FAIL_ON else ' once'} {at}"
            ended = place.run(Cut(how, at, error))
            try:
                check_error(place, ended)
            except Violation as broken:
                yield Line(place.work, name, _durable(ended), "", "?", violation=str(broken))
                continue
            yield judged_line(place, name, ended, with_engine=False)


def check_error(place: Place, ended: Ended) -> None:
    """Success means that it is there, a plain error that it is not, and every error has a code."""
    law(not ended.died, "the process died")
    if ended.error:
        law(ended.code is not None, f"an error without a code: {ended.error} {ended.text}")
        law(ended.text.startswith(f"[{ended.code}] "), f"the text hides its code: {ended.text}")
    if place.pre == place.post:
        return
    seen = place.look()
    if not ended.error:
        law(seen == place.post, "it succeeded, and what it wrote is not there")
    elif ended.code not in IN_DOUBT and WORKS[place.work].run is not recover:
        # A recovery that fails may have made visible what it was to finish; it goes on next time.
        law(seen in place.undone, f"it failed with {ended.text}, and what it wrote is there")


def _durable(ended: Ended) -> str:
    return str(ended.events[-1]) if ended.events else "nothing"
