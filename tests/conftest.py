"""Fixtures every test may ask for: a SparkSession, an S3 server, golden graphs for the engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.helpers import engine, golden

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.helpers.s3 import S3Server

_TESTS = Path(__file__).parent

# A busy machine is no reason to fail: how long one example takes is not what these tests promise.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies below `tests/spark`, and skip what needs the engine where there is none."""
    for item in items:
        if item.path.is_relative_to(_TESTS / "spark"):
            item.add_marker("spark")
        if item.get_closest_marker("engine") and engine.engine_binary() is None:
            item.add_marker(pytest.mark.skip(reason=engine.MISSING))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small SparkSession for the whole run, in UTC."""
    from pyspark.sql import SparkSession

    # Workers are started by the JVM: they find this interpreter, and with it the installed package,
    # only through the environment.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("omnigraph-spark tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    yield session
    session.stop()


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
