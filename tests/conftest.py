"""Fixtures every test may ask for: a SparkSession, an S3 server, golden graphs for the engine."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.helpers import engine, golden, secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.helpers.s3 import S3Server

_TESTS = Path(__file__).parent
_WITH_SPARK = ("spark", "catalog", "lakehouse")
#: Warnings in these folders that are not about our code.
_IGNORED = (
    # The JVM is started though Lance is loaded: the child replaces itself at once.
    "ignore:lance is not fork-safe",
    # PySpark 4.1 leaves the socket of each collect() to the garbage collector.
    "ignore:unclosed <socket:ResourceWarning",
)

# A busy machine is no reason to fail: how long one example takes is not what these tests promise.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts Spark, and skip what needs the engine where there is none."""
    for item in items:
        if any(item.path.is_relative_to(_TESTS / folder) for folder in _WITH_SPARK):
            item.add_marker("spark")
            for warning in _IGNORED:
                item.add_marker(pytest.mark.filterwarnings(warning))
        if item.get_closest_marker("engine") and engine.engine_binary() is None:
            item.add_marker(pytest.mark.skip(reason=engine.MISSING))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that printed or logged a secret: the JVM and Spark's workers print here, too."""
    report = yield
    if report.passed and (names := secrets.leaked(text for _, text in report.sections)):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} printed or logged secrets: {', '.join(names)}"
    return report


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for Spark's event log; when its session is over no secret must be in it."""
    folder = tmp_path_factory.mktemp("event-log")
    yield folder
    assert any(folder.iterdir()), "the session wrote no event log"
    assert secrets.leaked_in(folder) == []


@pytest.fixture(scope="session")
def spark(event_log: Path) -> Iterator[SparkSession]:
    """One small SparkSession for the whole run, in UTC."""
    session = small_session(event_log).getOrCreate()
    yield session
    session.stop()


@cache
def _warehouse() -> tempfile.TemporaryDirectory[str]:
    """A folder that is gone when this process ends."""
    return tempfile.TemporaryDirectory(prefix="warehouse-")


def small_session(event_log: Path | None = None) -> SparkSession.Builder:
    """The settings of a session for tests: two cores, no web interface, UTC."""
    from pyspark.sql import SparkSession

    # Workers are started by the JVM: they find this interpreter, and with it the installed package,
    # only through the environment.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder
    if event_log is not None:
        builder = builder.config("spark.eventLog.enabled", "true")
        builder = builder.config("spark.eventLog.dir", event_log.as_uri())
        builder = builder.config("spark.eventLog.compress", "false")
    return (
        builder.master("local[2]")
        .appName("omnigraph-spark tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        # Sessions that run side by side do not meet in the folder they were started in.
        .config("spark.sql.warehouse.dir", _warehouse().name)
    )


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """One S3 server for the whole run; take a bucket of your own with `make_bucket()`."""
    from tests.helpers.s3 import s3_server

    with s3_server() as server:
        yield server


@pytest.fixture
def golden_in_place() -> Iterator[Callable[[str], Path]]:
    """Unpack golden graphs where the engine can open them; they are removed after the test."""
    with ExitStack() as stack:
        yield lambda case: stack.enter_context(golden.in_place(case))
