"""The jar itself: made of its sources, against the Spark that is installed, repeatably."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from catalog import build_jar
from omnigraph_spark.session.configure import CATALOG_CLASS


@pytest.mark.smoke
def test_the_jar_is_built_against_this_spark_and_twice_the_same(tmp_path: Path) -> None:
    built = [build_jar.build(tmp_path / name) for name in ("one.jar", "two.jar")]
    assert built[0].read_bytes() == built[1].read_bytes()
    names = zipfile.ZipFile(built[0]).namelist()
    assert f"{CATALOG_CLASS.replace('.', '/')}.class" in names
    # Nothing of anybody else's: it would hide the class of the same name in Spark.
    assert {name.split("/")[0] for name in names} == {"io", "META-INF"}
