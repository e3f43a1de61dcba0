"""Spark finds the data source by itself, and finding it costs and breaks nothing."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.helpers.sources import read


@pytest.mark.smoke
def test_the_format_needs_no_registration(spark: SparkSession, people: Path) -> None:
    assert read(spark, people, type="Person", columns="id").count() == 100


@pytest.mark.smoke
def test_the_format_is_found_in_another_session_too(spark: SparkSession, people: Path) -> None:
    assert read(spark.newSession(), people, type="Person", limit=1).count() == 1


@pytest.mark.smoke
def test_the_package_is_where_spark_looks() -> None:
    # Spark lists top-level modules this way; a mapped editable install would be invisible to it.
    found = [module.name for module in pkgutil.iter_modules()]
    assert "pyspark_omnigraph" in found


@pytest.mark.smoke
def test_importing_the_package_loads_nothing_heavy() -> None:
    # Spark imports it in every session, also in those that never read a graph.
    program = (
        "import sys, pyspark_omnigraph\n"
        "heavy = {'lance', 'pyarrow', 'pandas', 'boto3', 'lark', 'omnigraph_spark'}\n"
        "print(sorted(heavy & set(sys.modules)), pyspark_omnigraph.DefaultSource.name())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[] omnigraph", done.stderr
