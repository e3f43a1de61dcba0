"""Imports stay cheap: Spark imports our package in every session, also where it is never used."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from collections.abc import Collection

import pytest

import omnigraph_spark


def loaded_by(module: str, blocked: Collection[str] = ()) -> set[str]:
    """The modules a fresh interpreter holds after one import; blocked ones cannot be imported."""
    code = (
        "import importlib, json, sys\n"
        f"sys.modules.update(dict.fromkeys({list(blocked)!r}))\n"
        f"importlib.import_module({module!r})\n"
        "print(json.dumps([name for name, module in sys.modules.items() if module]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def heavy(loaded: Collection[str], names: Collection[str]) -> set[str]:
    return {name for name in loaded if name in names or name.split(".")[0] in names}


def test_finding_the_data_source_loads_neither_the_engine_nor_what_it_stands_on() -> None:
    loaded = loaded_by("pyspark_omnigraph")
    assert not heavy(loaded, ["lance", "pandas", "pyarrow", "boto3", "omnigraph_spark.graph"])
    assert not heavy(loaded, ["omnigraph_spark"])


def test_finding_the_data_source_loads_nothing_that_spark_does_not() -> None:
    more = loaded_by("pyspark_omnigraph") - loaded_by("pyspark.sql.datasource")
    assert {"pyspark_omnigraph", "pyspark_omnigraph.source"} <= more
    assert {name.split(".")[0] for name in more} == {"pyspark_omnigraph"}
    assert len(more) <= 5


def test_finding_the_data_source_cannot_fail_for_want_of_a_library() -> None:
    missing = ["lance", "pandas", "pyarrow", "boto3", "lark", "click", "omnigraph_spark"]
    assert "pyspark_omnigraph.source" in loaded_by("pyspark_omnigraph", blocked=missing)


@pytest.mark.parametrize("module", ["omnigraph_spark", "omnigraph_spark.cli"])
def test_the_library_loads_neither_spark_nor_lance_nor_boto3_before_they_are_needed(
    module: str,
) -> None:
    loaded = loaded_by(module)
    assert "omnigraph_spark.graph" in loaded
    assert not heavy(loaded, ["pyspark", "py4j", "lance", "boto3", "botocore"])


def test_every_module_but_those_of_the_session_is_imported_without_spark() -> None:
    modules = [
        module.name
        for module in pkgutil.walk_packages(omnigraph_spark.__path__, "omnigraph_spark.")
        if not module.name.startswith("omnigraph_spark.session.")
    ]
    assert "omnigraph_spark.storage.datasets" in modules
    code = f"import importlib, sys; sys.modules['pyspark'] = None\nfor name in {modules}:\n"
    code += "    importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
