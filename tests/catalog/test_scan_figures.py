"""What Spark's interface shows of a scan: fragments, requests, bytes, batches and rows of it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.catalog.catalogs import new_catalog
from tests.helpers.builder import GraphBuilder
from tests.helpers.scans import figures
from tests.helpers.sources import read


@pytest.mark.parametrize("shared", ["true", "false"])
def test_a_scan_says_what_it_read(spark: SparkSession, people: GraphBuilder, shared: str) -> None:
    frame = read(spark, people.root, type="Person", sharedMemory=shared, batchSize=7)
    assert len(frame.where("length(name) = 3").collect()) == 100
    cost = figures(spark)
    assert cost.pop("requests to storage") > 0
    assert cost.pop("bytes read from storage") > 1_000
    in_ring = cost.pop("Arrow batches read in shared memory")
    assert 0 <= in_ring <= (20 if shared == "true" else 0)
    # No batch spans two fragments, of ten rows each.
    expected = {"rows that left Lance": 100, "fragments scanned": 10, "Arrow batches read": 20}
    assert cost == expected


@pytest.mark.parametrize(
    ("query", "rows", "fragments"),
    [
        ("SELECT * FROM {t}.nodes.Person WHERE age < 30", 30, 10),
        ("SELECT name FROM {t}.nodes.Person LIMIT 12", 12, 2),
        # Tasks begin the sum: what leaves Lance is the beginning of each.
        ("SELECT level, sum(age) FROM {t}.nodes.Person GROUP BY level", None, 10),
        ("SELECT photo FROM {t}.nodes.Person WHERE age >= 50", 50, 10),
    ],
)
@pytest.mark.parametrize("blobs", ["descriptor", "bytes"])
def test_what_was_pushed_shows_in_the_figures(
    spark: SparkSession,
    people: GraphBuilder,
    query: str,
    rows: int | None,
    fragments: int,
    blobs: str,
) -> None:
    catalog = new_catalog(spark, people.root, blobs=blobs)
    spark.sql(query.format(t=catalog)).collect()
    cost = figures(spark)
    assert cost["fragments scanned"] == fragments
    assert cost["rows that left Lance"] == rows or (rows is None and cost["rows that left Lance"])
    assert cost["requests to storage"] > 0
