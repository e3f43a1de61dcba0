"""How long a store that is busy is asked again: a few times, with growing pauses and jitter.

boto3 repeats a request three times, which an overloaded server may outlast: those that it asked to
send more slowly are repeated for some seconds more. Nothing was done then, so nothing is doubled.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_BUSY = (429, 503)
#: How often such a request is repeated beyond boto3's own tries, for each of those.
_MORE = 2
_SHORTEST, _LONGEST = 0.1, 2.0


def tries(count: int, sleep: Callable[[float], None] = time.sleep) -> Iterator[int]:
    """Yield how many tries are left after this one, pausing before each but the first."""
    for number in range(count):
        if number:
            sleep(_jittered(min(_SHORTEST * 2**number, _LONGEST)))
        yield count - number - 1


def ask_busy_servers_again(client: S3Client, retries: int) -> None:
    """Have a client that repeats requests so often repeat those more often that were too many."""

    def pause(response: Any, attempts: int, **about: Any) -> float | None:
        if response is None or response[0].status_code not in _BUSY:
            return None
        # boto3's own repeats come first: where it still has one, its pause counts.
        return _jittered(_LONGEST) if attempts <= retries * (1 + _MORE) else None

    # What it answers is how long boto3 waits; the stubs know of no answers.
    client.meta.events.register("needs-retry.s3", cast(Callable[..., None], pause))


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.0)
