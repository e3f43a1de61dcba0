"""Keys that expire every few seconds, as a function that every process can import.

The keys are a function of the time alone, so drivers and executors agree without talking.
"""

from __future__ import annotations

import time

from tests.faults.s3proxy import Call, Fault

#: How long keys are good for; they are renewed in the last quarter.
LIFE_SECONDS = 3.0
_NAME = "rotating"


def keys() -> dict[str, str | float]:
    """The keys of now, as AWS spells them."""
    number = int(time.time() / LIFE_SECONDS)
    return {
        "AccessKeyId": f"{_NAME}{number}",
        "SecretAccessKey": "s",
        "Expiration": (number + 1) * LIFE_SECONDS,
    }


def refuse_old(call: Call) -> Fault | None:
    """Refuse keys that ended two lives ago or longer: a busy machine is slow to ask with them."""
    current = int(time.time() / LIFE_SECONDS)
    number = call.access_key.removeprefix(_NAME)
    return None if number.isdecimal() and int(number) >= current - 2 else Fault.EXPIRED
