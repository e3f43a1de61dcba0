"""The data source without a JVM: options, columns, tasks, pins, and what crosses processes."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from pyspark_omnigraph import DefaultSource
from pyspark_omnigraph.metadata import MetadataReader
from pyspark_omnigraph.reader import TypeReader
from pyspark_omnigraph.source import without_table_properties

from omnigraph_spark.errors import (
    BranchNotFoundError,
    ColumnNotFoundError,
    ConflictingOptionsError,
    GraphNotFoundError,
    InvalidFilterError,
    InvalidOptionError,
    MissingOptionError,
    OmnigraphError,
    SchemaMismatchError,
    TypeAmbiguousError,
    TypeNotFoundError,
    UnknownOptionError,
)
from omnigraph_spark.tables import METADATA_TABLES
from tests.helpers.builder import GraphBuilder
from tests.helpers.sources import read_directly, sent, source

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
node Empty { word: String? }
node Twin { word: String? }
edge Knows: Person -> Person { since: Date? }
edge Twin: Person -> Person
"""


@pytest.fixture(scope="module")
def social(tmp_path_factory: pytest.TempPathFactory) -> GraphBuilder:
    """Two commits on main, one more person on `dev`; ten fragments of persons."""
    graph = GraphBuilder.create(tmp_path_factory.mktemp("graphs") / "social", SCHEMA)
    people = [{"name": f"p{n}", "age": n, "photo": bytes([n])} for n in range(10)]
    graph.write({"node:Person": people}, max_rows_per_file=1)
    graph.write(
        {"edge:Knows": [{"id": "k", "src": "p0", "dst": "p1", "since": dt.date(2020, 1, 2)}]}
    )
    graph.create_branch("dev")
    graph.write({"node:Person": [{"name": "dev", "age": None}]}, branch="dev")
    return graph


def ids(table: pa.Table) -> list[str]:
    return sorted(table.column("id").to_pylist())


PEOPLE = [f"p{n}" for n in range(10)]


@pytest.mark.parametrize("name", ["Person", "node:Person"])
def test_a_type_is_named_bare_or_with_its_kind(social: GraphBuilder, name: str) -> None:
    assert ids(read_directly(source(social.root, type=name))) == PEOPLE


def test_an_edge_has_its_ends(social: GraphBuilder) -> None:
    rows = read_directly(source(social.root, type="edge:Knows")).to_pylist()
    assert rows == [{"id": "k", "src": "p0", "dst": "p1", "since": dt.date(2020, 1, 2)}]


def test_a_type_without_rows_has_a_schema_and_one_task(social: GraphBuilder) -> None:
    empty = source(social.root, type="Empty")
    assert empty.schema().simpleString() == "struct<id:string,word:string>"
    assert len(empty.reader(empty.schema()).partitions()) == 1
    assert read_directly(empty).num_rows == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"branch": "dev"}, ["dev", *PEOPLE]),
        ({"branch": "main"}, PEOPLE),
        ({"version": "3"}, []),
        ({"versionAsOf": "4"}, PEOPLE),
        ({"timestamp": "2100-01-01", "branch": "dev"}, ["dev", *PEOPLE]),
        ({"timestampAsOf": "2100-01-01T00:00:00Z"}, PEOPLE),
        ({"where": "age >= 8"}, ["p8", "p9"]),
        ({"where": "age >= 8", "limit": "1"}, ["p8"]),
        ({"limit": "0"}, []),
        ({"LIMIT": "3"}, ["p0", "p1", "p2"]),
        ({"batchSize": "2"}, PEOPLE),
        ({"splitBytes": "1"}, PEOPLE),
        ({"vectors": "array"}, PEOPLE),
    ],
    ids=str,
)
def test_every_option_chooses_rows(
    social: GraphBuilder, options: dict[str, str], expected: list[str]
) -> None:
    assert ids(read_directly(source(social.root, type="Person", **options))) == expected


def test_a_commit_is_read_by_its_id(social: GraphBuilder) -> None:
    commits = read_directly(source(social.root, table="commits")).to_pylist()
    by_commit = {
        c["id"]: read_directly(source(social.root, type="Person", commit=c["id"])).num_rows
        for c in commits
    }
    assert list(by_commit.values()) == [10, 10, 0]


def test_columns_are_read_in_the_order_asked(social: GraphBuilder) -> None:
    table = read_directly(source(social.root, type="Person", columns=" age, name ", limit="1"))
    assert table.to_pylist() == [{"age": 0, "name": "p0"}]


@pytest.mark.parametrize(
    ("blobs", "expected"),
    [
        ("descriptor", {"kind": "inline", "size": 1, "uri": None}),
        ("bytes", b"\x07"),
        ("BYTES", b"\x07"),
    ],
)
def test_blobs_are_descriptors_or_bytes(social: GraphBuilder, blobs: str, expected: Any) -> None:
    options = {"type": "Person", "where": "name = 'p7'", "blobs": blobs}
    assert read_directly(source(social.root, **options)).column("photo").to_pylist() == [expected]


def test_blobs_can_be_left_out(social: GraphBuilder) -> None:
    without = source(social.root, type="Person", blobs="none")
    assert without.schema().names == ["id", "age", "name"]
    assert read_directly(without).num_rows == 10


@pytest.mark.parametrize("table", list(METADATA_TABLES))
def test_every_table_about_the_graph_is_read(social: GraphBuilder, table: str) -> None:
    rows = read_directly(source(social.root, table=table))
    assert rows.column_names == METADATA_TABLES[table].schema.names
    assert rows.num_rows > 0 or table in {"indexes", "recoveries", "sidecars"}


def test_a_table_about_the_graph_is_of_the_snapshot_asked_for(social: GraphBuilder) -> None:
    def rows(**options: str) -> dict[str, int]:
        table = read_directly(source(social.root, table="entries", **options))
        return dict(zip(table["type_key"].to_pylist(), table["rows"].to_pylist(), strict=True))

    assert rows()["node:Person"] == 10
    assert rows(branch="dev")["node:Person"] == 11
    assert rows(version="3")["node:Person"] == 0


def test_small_splits_are_many_tasks_and_the_same_rows(social: GraphBuilder) -> None:
    many = source(social.root, type="Person", splitBytes="1")
    assert len(many.reader(many.schema()).partitions()) > 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, MissingOptionError),
        ({"type": "Person", "table": "commits"}, ConflictingOptionsError),
        ({"type": "Person", "brnch": "dev"}, UnknownOptionError),
        ({"type": "Person", "branch": "nope"}, BranchNotFoundError),
        ({"type": "Person", "branch": "../x"}, InvalidOptionError),
        ({"type": "Person", "version": "four"}, InvalidOptionError),
        ({"type": "Person", "version": "4", "commit": "x"}, ConflictingOptionsError),
        ({"type": "Person", "version": "4", "versionAsOf": "4"}, ConflictingOptionsError),
        ({"type": "Person", "commit": "nonsense"}, InvalidOptionError),
        ({"type": "Person", "timestamp": "yesterday"}, InvalidOptionError),
        ({"type": "Person", "limit": "-1"}, InvalidOptionError),
        ({"type": "Person", "blobs": "all"}, InvalidOptionError),
        ({"type": "Person", "batchSize": "0"}, InvalidOptionError),
        ({"type": "Persn"}, TypeNotFoundError),
        ({"type": "person"}, TypeNotFoundError),
        ({"type": "Twin"}, TypeAmbiguousError),
        ({"type": "Person`; drop table x"}, TypeNotFoundError),
        ({"type": "node:../../etc"}, TypeNotFoundError),
        ({"table": "comits"}, InvalidOptionError),
        ({"table": "commits", "columns": "id"}, ConflictingOptionsError),
        ({"type": "Person", "columns": "id,agee"}, ColumnNotFoundError),
        ({"type": "Person", "columns": "id,ID"}, ColumnNotFoundError),
        ({"type": "Person", "columns": "id`"}, ColumnNotFoundError),
        ({"type": "Person", "columns": "age*2"}, ColumnNotFoundError),
        ({"type": "Person", "columns": "id,id"}, InvalidOptionError),
        ({"type": "Person", "where": "agee > 1"}, InvalidFilterError),
        ({"type": "Person", "where": "age >"}, InvalidFilterError),
        ({"type": "Person", "where": "age = 1; drop table x"}, InvalidFilterError),
        ({"type": "Person", "where": "age = 1 -- and"}, InvalidFilterError),
        ({"type": "Person", "where": 'name = "p1"'}, InvalidFilterError),
        ({"type": "Person", "where": "name = 'p1' or"}, InvalidFilterError),
        ({"type": "Person", "where": "photo is null"}, InvalidFilterError),
    ],
    ids=str,
)
def test_wrong_options_fail_when_the_schema_is_asked_for(
    social: GraphBuilder, options: dict[str, str], error: type[OmnigraphError]
) -> None:
    with pytest.raises(error) as caught:
        source(social.root, **options).schema()
    assert str(caught.value).startswith(f"[{error.code}] ")


def test_an_unknown_option_names_the_nearest(social: GraphBuilder) -> None:
    with pytest.raises(UnknownOptionError, match="did you mean 'branch'"):
        source(social.root, type="Person", brnch="dev").schema()


def test_a_folder_that_is_no_graph_says_so(tmp_path: Path) -> None:
    with pytest.raises(GraphNotFoundError):
        source(tmp_path, type="Person").schema()


def test_errors_leave_without_the_frames_of_the_engine(social: GraphBuilder) -> None:
    with pytest.raises(TypeNotFoundError) as caught:
        source(social.root, type="Nobody").schema()
    frames = [frame.path.name for frame in caught.traceback]
    assert frames == [Path(__file__).name, "plainly.py"]
    assert caught.value.__cause__ is None


def struct(**fields: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def test_a_user_s_schema_chooses_columns_and_is_what_batches_have(social: GraphBuilder) -> None:
    chosen = struct(age=IntegerType(), id=StringType())
    table = read_directly(source(social.root, type="Person", limit="2"), chosen)
    assert table.to_pylist() == [{"age": 0, "id": "p0"}, {"age": 1, "id": "p1"}]
    assert table.schema.field("id").nullable


def test_a_user_s_schema_chooses_from_the_columns_of_the_options(social: GraphBuilder) -> None:
    with pytest.raises(ColumnNotFoundError):
        read_directly(source(social.root, type="Person", columns="id"), struct(age=IntegerType()))


@pytest.mark.parametrize("subject", [{"type": "Person"}, {"table": "commits"}])
def test_a_user_s_schema_that_does_not_fit_is_refused(
    social: GraphBuilder, subject: dict[str, str]
) -> None:
    with pytest.raises(SchemaMismatchError):
        source(social.root, **subject).reader(struct(id=LongType()))
    with pytest.raises(ColumnNotFoundError):
        source(social.root, **subject).reader(struct(nope=LongType()))


@pytest.mark.parametrize(("subject", "rows"), [({"type": "Person"}, 10), ({"table": "commits"}, 3)])
def test_an_empty_schema_counts_rows(
    social: GraphBuilder, subject: dict[str, str], rows: int
) -> None:
    reader = sent(source(social.root, **subject)).reader(StructType([]))
    counted = [batch.num_rows for part in reader.partitions() for batch in reader.read(part)]
    assert sum(counted) == rows


@pytest.mark.parametrize("partition", [None, InputPartition(None)])
def test_a_partition_spark_made_up_has_no_rows(
    social: GraphBuilder, partition: InputPartition | None
) -> None:
    person = source(social.root, type="Person")
    assert list(person.reader(person.schema()).read(partition)) == []


def test_the_snapshot_is_taken_with_the_schema_and_kept(tmp_path: Path) -> None:
    graph = GraphBuilder.create(tmp_path / "g", SCHEMA)
    graph.write({"node:Person": [{"name": "a"}]})
    before = source(graph.root, type="Person")
    schema = before.schema()
    kept = sent(before)
    graph.write({"node:Person": [{"name": "b"}]})
    graph.compact("node:Person")
    graph.publish()
    assert ids(read_directly(kept, schema)) == ["a"]
    assert ids(read_directly(kept, schema)) == ["a"]
    assert ids(read_directly(source(graph.root, type="Person"))) == ["a", "b"]


def test_all_partitions_belong_to_the_snapshot_of_their_reader(tmp_path: Path) -> None:
    graph = GraphBuilder.create(tmp_path / "g", SCHEMA)
    graph.write({"node:Person": [{"name": name} for name in "abcd"]}, max_rows_per_file=1)
    before = source(graph.root, type="Person", splitBytes="1")
    reader = before.reader(before.schema())
    partitions = reader.partitions()
    graph.delete("node:Person", "name <> 'x'")
    graph.publish()
    batches = [batch for partition in partitions for batch in reader.read(sent(partition))]
    assert ids(pa.Table.from_batches(batches)) == ["a", "b", "c", "d"]


def test_a_type_whose_rows_were_all_deleted_is_empty(tmp_path: Path) -> None:
    graph = GraphBuilder.create(tmp_path / "g", SCHEMA)
    graph.write({"node:Person": [{"name": "a"}, {"name": "b"}]}, max_rows_per_file=1)
    graph.delete("node:Person", "true")
    graph.publish()
    assert read_directly(source(graph.root, type="Person")).num_rows == 0
    assert read_directly(source(graph.root, type="Person", where="age > 1")).num_rows == 0


def test_nothing_open_crosses_processes(social: GraphBuilder) -> None:
    person = source(social.root, type="Person")
    reader = person.reader(person.schema())
    for value in (person, reader, *reader.partitions()):
        text = cloudpickle.dumps(value)
        assert b"lance" not in text.replace(b"pylance", b"")
        assert len(text) < 20_000
        pickle.loads(text)


def test_secrets_are_not_in_reprs_or_errors(social: GraphBuilder) -> None:
    secret = {"storage.aws_secret_access_key": "HUSH"}
    person = DefaultSource({"path": str(social.root), "type": "Person", **secret})
    reader = person.reader(person.schema())
    shown = [repr(person), repr(reader), repr(person._subject), repr(reader.partitions())]
    assert not [text for text in shown if "HUSH" in text]
    for wrong in ({"type": "Nobody"}, {"type": "Person", "brnch": "x"}, {}):
        with pytest.raises(OmnigraphError) as caught:
            DefaultSource({"path": str(social.root), **secret, **wrong}).schema()
        assert "HUSH" not in str(caught.value)


def test_filters_are_never_pushed_by_spark() -> None:
    # Spark would keep the filtered plan for the next query on the same DataFrame.
    for reader in (TypeReader, MetadataReader):
        assert reader.pushFilters is DataSourceReader.pushFilters


def test_what_create_table_adds_to_the_options_is_dropped() -> None:
    assert without_table_properties(
        {
            "path": "file:/data/social",
            "location": "file:/data/social",
            "type": "Person",
            "option.type": "Person",
            "owner": "me",
            "provider": "omnigraph",
        }
    ) == {"path": "file:/data/social", "type": "Person"}
    assert without_table_properties({"type": "Person"}) == {"type": "Person"}
    assert without_table_properties({"provider": "omnigraph", "owner": "me"}) == {}
