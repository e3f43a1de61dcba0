"""The search for secrets in what tests print, log and leave behind: it finds them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_runtest_makereport
from tests.helpers import secrets


def reported(*texts: str) -> Any:
    """What becomes of a report with these texts captured."""
    report = SimpleNamespace(
        passed=True, outcome="passed", longrepr=None, sections=[("captured", t) for t in texts]
    )
    reporting = pytest_runtest_makereport(SimpleNamespace(nodeid="a test"), SimpleNamespace())  # type: ignore[arg-type]
    next(reporting)
    with pytest.raises(StopIteration):
        reporting.send(report)  # type: ignore[arg-type]
    return report


@pytest.mark.parametrize("secret", secrets.ALL)
def test_a_test_that_prints_a_secret_fails_and_does_not_print_it_again(secret: str) -> None:
    report = reported("before", f"SecretAccessKey={secret}&more")
    assert report.outcome == "failed"
    assert secret.partition("-")[0] in report.longrepr
    assert secret not in report.longrepr


def test_a_test_that_prints_none_passes() -> None:
    assert reported("nothing", "to hide").outcome == "passed"


def test_a_secret_in_a_file_is_found_by_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "events").write_bytes(b"\xff\x00" + secrets.TOKEN.encode())
    (tmp_path / "other").write_text("nothing")
    assert secrets.leaked_in(tmp_path) == ["events: token"]
