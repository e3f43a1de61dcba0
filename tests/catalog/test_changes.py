"""Changes by SQL and by option: the same rows as the Python API, whatever names the range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.catalog.catalogs import new_catalog, rows
from tests.engine.writing import people, write_staffed
from tests.helpers.sources import failure, read

COLUMNS = ["_change_type", "name", "age", "_commit_version", "_commit_id"]
has_changes = pytest.mark.skipif(
    pyspark.__version__.startswith("4.1"), reason="CHANGES is new in Spark 4.2: nothing to do"
)


@pytest.fixture
def changed(tmp_path: Path) -> og.Graph:
    """A graph with an update, an insert and a deletion in two commits of its own."""
    write_staffed(tmp_path / "g")
    graph = og.open(tmp_path / "g", actor="ann")
    graph.write(people(Ann=31, Dan=1), "Person", mode="merge")
    graph.delete("Person", ["Bob"])
    return graph


def feed(graph: og.Graph, since: str | int | None, until: str | int | None = None) -> list[Any]:
    table = graph.changes(since=since, until=until, type="Person").batches().read_all()
    return sorted(map(tuple, (row.values() for row in table.select(COLUMNS).to_pylist())))


@has_changes
def test_changes_between_versions_commits_and_times_are_those_of_the_feed(
    spark: SparkSession, changed: og.Graph
) -> None:
    name = new_catalog(spark, changed.root)
    last, merged, before = changed.history(limit=3)

    def found(range_: str) -> list[tuple[Any, ...]]:
        table = f"{name}.nodes.Person CHANGES FROM {range_}"
        return sorted(rows(spark, f"SELECT {', '.join(COLUMNS)} FROM {table}"))

    both, first = feed(changed, before.id), feed(changed, before.id, merged.id)
    assert len(both) == 4
    assert found(f"VERSION {merged.manifest_version}") == both
    assert found(f"VERSION '{merged.id}' TO VERSION '{last.id}'") == both
    assert found(f"VERSION {before.manifest_version} EXCLUSIVE") == both
    versions = f"VERSION {merged.manifest_version} TO VERSION {last.manifest_version}"
    assert found(f"{versions} EXCLUSIVE") == first
    assert found(f"VERSION 1 TO VERSION {merged.manifest_version}") == feed(
        changed, None, merged.id
    )
    assert found("TIMESTAMP '2000-01-01'") == feed(changed, None)
    assert found(f"TIMESTAMP '{merged.created_at:%Y-%m-%d %H:%M:%S.%fZ}'") == both
    # Spark filters and counts what it was given.
    assert rows(
        spark,
        f"SELECT _change_type, count(*) FROM {name}.nodes.Person "
        f"CHANGES FROM VERSION {merged.manifest_version} WHERE age > 30 GROUP BY 1 ORDER BY 1",
    ) == [("delete", 1), ("update_postimage", 1)]


@has_changes
@pytest.mark.parametrize(
    ("table", "condition"),
    [
        ("nodes.Nobody", "TABLE_OR_VIEW_NOT_FOUND"),
        ("system.commits", "TABLE_OR_VIEW_NOT_FOUND"),
        ("nope.nodes.Person", "TABLE_OR_VIEW_NOT_FOUND"),
    ],
)
def test_changes_of_what_is_not_there_have_spark_s_condition(
    spark: SparkSession, table: str, condition: str
) -> None:
    said = failure(lambda: spark.sql(f"SELECT * FROM og.{table} CHANGES FROM VERSION 2"))
    assert said.startswith(f"[{condition}")


@has_changes
def test_a_range_that_no_commit_is_in_is_refused(spark: SparkSession) -> None:
    said = failure(lambda: spark.sql("SELECT * FROM og.nodes.Person CHANGES FROM VERSION 99"))
    assert said.startswith("[OMNIGRAPH_VERSION_NOT_FOUND]")


@pytest.mark.smoke
def test_options_read_the_same_feed_and_it_stays_as_it_was(
    spark: SparkSession, changed: og.Graph
) -> None:
    last, merged, before = changed.history(limit=3)
    expected = feed(changed, before.id)
    options = {"type": "Person", "startingVersion": merged.manifest_version}
    frames = [
        read(spark, changed.root, readChangeFeed="true", **options),
        read(spark, changed.root, table="changes", endingVersion=last.id, **options),
    ]
    changed.write(people(Eve=2), "Person")
    for frame in frames:
        assert sorted(map(tuple, frame.select(*COLUMNS).collect())) == expected
        assert frame.count() == 4
