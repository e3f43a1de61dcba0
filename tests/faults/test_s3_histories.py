"""Seeded histories over a failing network: no row is lost, doubled or torn, whatever happens."""

from __future__ import annotations

import os

import pytest

from tests.engine.object_stores import running
from tests.faults.s3histories import run_histories
from tests.helpers.s3 import S3Server
from tests.helpers.versitygw import gateway_binary

pytestmark = pytest.mark.slow

#: OMNIGRAPH_HISTORIES=200 is the long version.
HISTORIES = int(os.environ.get("OMNIGRAPH_HISTORIES", "20"))


@pytest.mark.parametrize("half", [0, 1])
def test_no_history_over_a_failing_network_breaks_a_law(s3: S3Server, half: int) -> None:
    """RS-61, RS-62, RS-63, RS-64: the ledger is printed with `-s`.

    Half of them on a production gateway, where it is installed.
    """
    seeds = range(half, HISTORIES, 2)
    with running("versitygw" if half and gateway_binary() else "moto", s3) as server:
        ledger = run_histories(server, seeds)
    print(f"\n{ledger}")
    assert ledger.histories == len(seeds)
    assert ledger.faults
    assert ledger.violations == [], str(ledger)
