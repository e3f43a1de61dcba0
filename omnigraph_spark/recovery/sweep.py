"""Which unfinished writes are recovered when, and by whom.

* Opening a graph for writing and `Graph.recover` deal with every sidecar there is.
* A write first deals with those of its branch: what can be finished is finished; what a dead writer
  of this package left half done is undone; what the engine left half done is not, because nothing
  tells whether that writer is alive.
* A writer whose own landing failed half-way undoes it at once.

**Who is alive.** A writer of this package holds the lock of its branch from before its sidecar is
written until after it is gone, and the kernel takes the lock from a process that ends, however it
ends. Recovery takes that lock first, so a sidecar it then finds belongs to nobody alive. Limits:
object stores have none, so there a sidecar of this package is only finished, not undone, until
`LEASE_SECONDS` have passed; network file systems without locks get no such grace; and the engine
takes no lock, so a sidecar of its own counts as left behind, as it does to the engine itself. Even
then nothing is lost or half visible: a writer that was undone under its feet fails at its next
fenced commit or at its publish, and undoes the rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext

from omnigraph_spark.errors import (
    ConflictError,
    DamagedGraphError,
    ForeignCommitError,
    OmnigraphError,
    RecoveryRequiredError,
)
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.formats.v4.recoveries import RecoveryKind
from omnigraph_spark.formats.v4.sidecar import (
    Sidecar,
    read_sidecar,
    write_sidecar,
)
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.recovery.act import Recovery, carry_out
from omnigraph_spark.recovery.classify import Decision, Verdict, classify
from omnigraph_spark.recovery.observe import (
    LEASE_SECONDS,
    observe,
    pending_operations,
    pending_sidecars,
)
from omnigraph_spark.recovery.schema_files import settle_schema_files
from omnigraph_spark.storage.fence import FenceRefusedError
from omnigraph_spark.storage.locks import WAIT_SECONDS, writer_lock
from omnigraph_spark.storage.objects import objects_at

#: Each look that proves outdated means that somebody else did a part of the work; there are never
#: more than a few parts.
_LOOKS = 5
#: Opening waits this long for a live writer; it then leaves the sidecar to it.
_OPEN_WAIT_SECONDS = 30.0


def recover(
    manifest: Manifest, *, force: bool = False, wait_seconds: float = WAIT_SECONDS
) -> list[Recovery]:
    """Finish or undo every unfinished write, oldest first, and settle staged schema files.

    Raises:
        DamagedGraphError: A sidecar cannot be read, or a dataset is behind what is visible. Nothing
            is touched while a sidecar cannot be read.
        UnsupportedError: A sidecar is of a newer version.
        ForeignCommitError: Undoing would lose somebody else's commit; `force` does so.
        ConflictError: A live writer kept its branch for too long.
    """
    recovered, problems = _sweep(manifest, force, wait_seconds)
    if problems:
        raise problems[0]
    return recovered


def recover_on_open(manifest: Manifest) -> list[Recovery]:
    """Do what `recover` does as far as possible; what is in the way becomes a warning.

    Reading stays possible then, and writing is refused. A live writer is no reason to warn. When
    sidecars cannot even be listed, that is an error.
    """
    recovered, problems = _sweep(manifest, False, _OPEN_WAIT_SECONDS)
    for problem in problems:
        if not isinstance(problem, ConflictError):
            warnings.warn(f"{problem} (reading works, writing may not)", stacklevel=3)
    return recovered


def _sweep(
    manifest: Manifest, force: bool, wait_seconds: float
) -> tuple[list[Recovery], list[OmnigraphError]]:
    """Recover what can be, and say what could not and why."""
    recovered: list[Recovery] = []
    problems: list[OmnigraphError] = []
    operations = pending_operations(manifest)
    try:
        sidecars = list(pending_sidecars(manifest, operations))
    except OmnigraphError as unreadable:
        return [], [unreadable]
    for sidecar in sidecars:
        try:
            with writer_lock(manifest.root, sidecar.branch, manifest.settings, wait_seconds):
                done = _recover_one(manifest, sidecar, force=force)
        except OmnigraphError as problem:
            problems.append(problem)
            continue
        if done is not None:
            recovered.append(done)
    if not problems:
        try:
            settle_schema_files(manifest)
        except OmnigraphError as problem:
            problems.append(problem)
    return recovered, problems


def heal(manifest: Manifest, branch: str, *, held: bool) -> list[Recovery]:
    """Recover the unfinished writes of a branch that a write may recover; refuse on the others.

    `held` says that the caller holds the branch's lock and is about to write; a `ConflictError`
    then says that another writer may be alive. Without it, whoever is alive is left alone.
    """
    pending = pending_sidecars(manifest, pending_operations(manifest))
    own = [sidecar for sidecar in pending if sidecar.branch == branch]
    if not own:
        return []
    try:
        with (
            nullcontext()
            if held
            else writer_lock(manifest.root, branch, manifest.settings, wait_seconds=0)
        ):
            done = [_recover_one(manifest, sidecar, _is_fenced) for sidecar in own]
    except ConflictError:
        if held:
            raise
        return []
    return [recovery for recovery in done if recovery is not None]


def undo(manifest: Manifest, sidecar: Sidecar) -> Commit | None:
    """Undo an operation of the caller, who holds the lock of its branch and gives it up.

    Returns:
        None when it is undone; the commit when it turns out to be visible.

    Raises:
        RecoveryRequiredError: It could not be undone; the sidecar owns it.
    """
    try:
        done = _recover_one(manifest, sidecar, abandon=True)
    except OmnigraphError as error:
        raise RecoveryRequiredError((sidecar.operation_id,), str(error)) from error
    if done is None or done.kind is not RecoveryKind.ROLLED_FORWARD:
        return None
    return done.commit


def _is_fenced(sidecar: Sidecar) -> bool:
    return sidecar.fenced


def _recover_one(
    manifest: Manifest,
    sidecar: Sidecar,
    may_roll_back: Callable[[Sidecar], bool] | None = None,
    *,
    force: bool = False,
    abandon: bool = False,
) -> Recovery | None:
    """Recover one operation, whose branch is locked; None when it was over before.

    With `abandon` it never is: somebody may have taken it for dead before its writer was done.
    """
    store = objects_at(manifest.root, manifest.settings)
    reason = ""
    known = sidecar if abandon else None
    for _ in range(_LOOKS):
        current = read_sidecar(manifest.root, store, sidecar.operation_id)
        if current is None:
            if known is None:
                return None
            # Somebody ended it since, perhaps in another way: what was done here is not explained.
            write_sidecar(manifest.root, store, known)
            current = known
        found = observe(manifest, current)
        verdict = classify(current, found.facts, force=force, abandon=abandon)
        _refuse(manifest, current, verdict)
        rolls_back = verdict.decision is Decision.ROLL_BACK
        known = current if rolls_back or known else None
        if rolls_back and may_roll_back is not None and not may_roll_back(current):
            detail = f"branch {current.branch!r} has a write that must be undone"
            raise RecoveryRequiredError((current.operation_id,), detail)
        try:
            return carry_out(manifest, found, verdict.decision)
        except (ConflictError, FenceRefusedError) as moved:
            reason = str(moved)
    detail = f"{_LOOKS} looks at unfinished write {sidecar.operation_id} each proved outdated"
    raise ConflictError(f"{detail}: {reason}")


def _refuse(manifest: Manifest, sidecar: Sidecar, verdict: Verdict) -> None:
    name = sidecar.operation_id
    match verdict.decision:
        case Decision.REFUSE:
            raise ForeignCommitError((name,), verdict.reason)
        case Decision.ABORT:
            detail = f"unfinished write {name} cannot be judged: {verdict.reason}"
            raise DamagedGraphError(manifest.root, detail)
        case Decision.WAIT:
            detail = f"unfinished write {name} on branch {sidecar.branch!r} may have a live writer"
            raise ConflictError(f"{detail} until {LEASE_SECONDS} s after it began")
        case _:
            return
