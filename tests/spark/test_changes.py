"""The change feed in Spark: the same rows as without it, read by tasks."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.engine.writing import people, write_staffed
from tests.helpers.sources import read


def test_a_feed_is_used_like_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    write_staffed(tmp_path / "g")
    graph = og.open(tmp_path / "g", actor="ann")
    since = graph.snapshot().manifest_version
    graph.write(people(Ann=31, Dan=1), "Person", mode="merge")
    graph.delete("Person", ["Bob"])
    feed = graph.changes(since=since, type="Person")
    names = ["_change_type", "name", "age", "_commit_id", "_commit_timestamp"]
    rows = sorted(map(tuple, feed.select(*names).collect()))
    assert [row[:3] for row in rows] == [
        ("delete", "Bob", 41),
        ("insert", "Dan", 1),
        ("update_postimage", "Ann", 31),
        ("update_preimage", "Ann", 30),
    ]
    options = {"type": "Person", "readChangeFeed": "true", "startingVersion": since + 1}
    assert sorted(map(tuple, read(spark, graph.root, **options).select(*names).collect())) == rows
