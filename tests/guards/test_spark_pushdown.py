"""What the installed Spark can offer to a source at all, which README and the jar build on."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyspark

#: Spark's own translation of expressions for sources: what it does not name, no source is offered.
BUILDER = "org/apache/spark/sql/catalyst/util/V2ExpressionBuilder.class"


def test_spark_offers_array_contains_to_no_source() -> None:
    [jar] = (Path(pyspark.__file__).parent / "jars").glob("spark-catalyst_*.jar")
    with zipfile.ZipFile(jar) as archive:
        builder = archive.read(BUILDER)
    assert b"catalyst/expressions/StartsWith" in builder
    assert b"ArrayContains" not in builder
