"""Exports: a table per type from one snapshot; repeated they touch what changed, exactly once."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph_spark as og
from omnigraph_spark.errors import InvalidOptionError, UnsupportedError
from omnigraph_spark.exports import Mark, Step
from omnigraph_spark.session.lakehouse import exporting
from omnigraph_spark.session.lakehouse.delta import DeltaTable
from tests.helpers.golden import unpack
from tests.lakehouse.tables import ages, graph_ages, history, people, same_rows, small_graph


def steps(done: list[og.Exported]) -> dict[str, tuple[str, int]]:
    return {each.type_key: (each.step.value, each.rows) for each in done}


def change_some(graph: og.Graph) -> None:
    """One commit that replaces a row and adds one; one that deletes one with its edge."""
    graph.write(people(ada=37, dee=9), "Person", mode="merge")
    graph.delete("Person", ids=["cy"])


def test_a_repeated_export_touches_only_the_rows_that_changed(
    graph: og.Graph, lake: Path, spark: SparkSession
) -> None:
    first = graph.export("delta", lake)
    assert steps(first) == {
        "edge:Knows": ("full", 2),
        "node:City": ("full", 1),
        "node:Person": ("full", 3),
    }
    assert {step for step, _ in steps(graph.export("delta", lake)).values()} == {"nothing"}
    change_some(graph)
    assert steps(graph.export("delta", lake)) == {
        "edge:Knows": ("changes", 1),
        "node:City": ("nothing", 0),
        "node:Person": ("changes", 3),
    }
    assert (
        ages(spark, lake / "nodes/Person") == graph_ages(graph) == {"ada": 37, "bob": 41, "dee": 9}
    )
    persons = history(spark, lake / "nodes/Person")
    assert [each.operation for each in persons] == ["WRITE", "MERGE"]
    metrics = persons[-1].operationMetrics
    touched = [metrics[f"numTargetRows{what}"] for what in ("Inserted", "Updated", "Deleted")]
    assert touched == ["1", "1", "1"]
    assert len(history(spark, lake / "nodes/City")) == 1
    # Each table says which commit it holds, where everybody can read it.
    mark = Mark.from_json(persons[-1].userMetadata)
    assert mark is not None
    assert mark.commit == graph.history(1)[0].id


def test_compaction_and_a_maintained_table_are_no_change(
    graph: og.Graph, lake: Path, spark: SparkSession
) -> None:
    graph.export("delta", lake)
    graph.optimize()
    spark.sql(f"OPTIMIZE delta.`{lake}/nodes/Person`").collect()
    assert {step for step, _ in steps(graph.export("delta", lake)).values()} == {"nothing"}


@pytest.mark.parametrize("landed", [False, True], ids=["before", "after"])
def test_a_run_killed_in_the_middle_and_repeated_brings_no_row_twice(
    graph: og.Graph,
    lake: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    landed: bool,
) -> None:
    graph.export("delta", lake)
    change_some(graph)
    apply = DeltaTable.apply

    def dying(self: DeltaTable, *rest: object) -> None:
        if "Person" in self.path:
            if landed:
                apply(self, *rest)
            raise KeyboardInterrupt
        apply(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "apply", dying)
        with pytest.raises(KeyboardInterrupt):
            graph.export("delta", lake)
    assert len(history(spark, lake / "edges/Knows")) == 2
    again = steps(graph.export("delta", lake))
    assert again["edge:Knows"] == ("nothing", 0)
    assert again["node:Person"] == (("nothing", 0) if landed else ("changes", 3))
    assert ages(spark, lake / "nodes/Person") == graph_ages(graph)
    assert len(history(spark, lake / "nodes/Person")) == 2


def test_rows_that_somebody_else_changed_are_put_right(
    graph: og.Graph, lake: Path, spark: SparkSession
) -> None:
    graph.export("delta", lake)
    spark.sql(f"DELETE FROM delta.`{lake}/nodes/Person` WHERE id = 'ada'").collect()
    assert steps(graph.export("delta", lake))["node:Person"] == ("full", 3)
    assert ages(spark, lake / "nodes/Person") == graph_ages(graph)


def test_another_branch_in_the_same_place_replaces_what_is_there(
    graph: og.Graph, lake: Path, spark: SparkSession
) -> None:
    graph.create_branch("dev")
    graph.write(people(eve=1), "Person", branch="dev")
    graph.as_branch("dev").export("delta", lake)
    graph.write(people(eve=2), "Person")
    # The head of dev is no commit of main.
    assert steps(graph.export("delta", lake))["node:Person"] == ("full", 4)
    assert ages(spark, lake / "nodes/Person")["eve"] == 2


def test_blobs_are_exported_as_bytes_also_when_they_change(
    graph: og.Graph, lake: Path, spark: SparkSession
) -> None:
    graph.export("delta", lake)
    photo = pa.table({"name": ["ada", "bob"], "photo": pa.array([b"\x00one", b"two"], pa.binary())})
    graph.write(photo, "Person", mode="merge", merge_columns=["photo"])
    assert steps(graph.export("delta", lake))["node:Person"] == ("changes", 2)
    rows = spark.read.format("delta").load(f"{lake}/nodes/Person").collect()
    assert {row.id: row.photo for row in rows} == {"ada": b"\x00one", "bob": b"two", "cy": None}


def test_tables_of_others_are_not_overwritten(
    graph: og.Graph, lake: Path, spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(3).write.format("delta").save(f"{lake}/nodes/City")
    with pytest.raises(UnsupportedError, match="no mark of an export"):
        graph.export("delta", lake)
    other = small_graph(tmp_path / "other", spark)
    other.export("delta", tmp_path / "second")
    with pytest.raises(UnsupportedError, match="of another graph"):
        graph.export("delta", tmp_path / "second")
    with pytest.raises(InvalidOptionError, match="'delta' or 'parquet'"):
        graph.export("csv", lake)


def test_export_and_ingest_give_the_same_graph(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    """Every type of the language, with extremes and nulls, vectors, dates, decimals and blobs."""
    graph = og.open(unpack("rich", tmp_path / "rich"), mode="r", spark=spark)
    graph.export("delta", lake)
    copy = og.create(tmp_path / "copy", graph.schema, spark=spark)
    for key in sorted(graph.entries, key=lambda key: not key.startswith("node")):
        if graph.entries[key].rows:
            copy.ingest_delta(lake / exporting.folder_of(key), key, mode="append")
    same_rows(graph, copy)


# -- Parquet ---------------------------------------------------------------------------------------


def parquet_ages(spark: SparkSession, lake: Path) -> dict[str, int | None]:
    """What a reader of the state file sees."""
    state = json.loads((lake / "_omnigraph.json").read_text())
    rows = spark.read.parquet(str(lake / state["tables"]["node:Person"]["folder"])).collect()
    return {row.id: row.age for row in rows}


def test_parquet_tables_switch_together_and_unchanged_ones_stay(
    graph: og.Graph, lake: Path, spark: SparkSession
) -> None:
    first = {each.type_key: each.path for each in graph.export("parquet", lake)}
    graph.write(people(ada=50), "Person", mode="merge")
    second = {each.type_key: each for each in graph.export("parquet", lake)}
    assert second["node:City"].step is Step.NOTHING
    assert second["node:City"].path == first["node:City"]
    assert second["node:Person"].path != first["node:Person"]
    assert parquet_ages(spark, lake) == graph_ages(graph)
    # Readers of the state before go on; the one before that is gone.
    assert Path(first["node:Person"]).exists()
    graph.write(people(ada=51), "Person", mode="merge")
    graph.export("parquet", lake)
    assert not Path(first["node:Person"]).exists()
    assert Path(second["node:Person"].path).exists()


def test_a_parquet_export_killed_before_its_end_changes_nothing(
    graph: og.Graph, lake: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.export("parquet", lake)
    before = graph_ages(graph)
    graph.write(people(ada=50, eve=3), "Person", mode="merge")
    rows = exporting.Export.rows

    def dying(self: exporting.Export, key: str) -> object:
        if key == "node:Person":
            rows(self, key).write.parquet(str(lake / "nodes/Person/half"))
            raise KeyboardInterrupt
        return rows(self, key)

    with monkeypatch.context() as patch:
        patch.setattr(exporting.Export, "rows", dying)
        with pytest.raises(KeyboardInterrupt):
            graph.export("parquet", lake)
    assert parquet_ages(spark, lake) == before
    graph.export("parquet", lake)
    assert parquet_ages(spark, lake) == graph_ages(graph)
    assert not (lake / "nodes/Person/half").exists()
