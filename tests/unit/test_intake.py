"""Columns on their way in: which are needed, which are refused, and the state of an intake."""

from __future__ import annotations

import pickle

import pandas as pd
import pyarrow as pa
import pytest

from omnigraph_spark.errors import (
    ColumnNotFoundError,
    ConflictingOptionsError,
    SchemaMismatchError,
    UnsupportedError,
)
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.writing.intake import Intake
from tests.helpers.intake import entity, refused, stored, taken

PERSON = entity("node Person { name: String @key  age: I32?  city: String  tags: [String]? }")
NOTE = entity("node Note { text: String? }")
KNOWS = entity("node P { n: String @key } edge Knows: P -> P { since: Date?  kind: enum(a, b)? }")
SENT = entity("node P { n: String @key } edge Sent: P -> P { from: String?  to: I32? }")


def _person(**columns: object) -> pa.Table:
    return pa.table({"name": ["Ann", "Bob"], "city": ["Oslo", "Rome"], **columns})


def test_columns_are_matched_by_name_and_stored_in_order() -> None:
    table = stored(PERSON, _person(age=pa.array([1, 2], pa.int8())))
    assert table.schema == arrow_schema(PERSON)
    assert table.to_pylist() == [
        {"id": "Ann", "age": 1, "city": "Oslo", "name": "Ann", "tags": None},
        {"id": "Bob", "age": 2, "city": "Rome", "name": "Bob", "tags": None},
    ]


def test_an_unknown_column_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ColumnNotFoundError, match="no column 'agee'; did you mean 'age'"):
        taken(PERSON, _person(agee=[1, 2]))


def test_a_name_that_differs_in_case_only_is_another_name() -> None:
    with pytest.raises(ColumnNotFoundError, match="no column 'Age'; did you mean 'age'"):
        taken(PERSON, _person(Age=[1, 2]))


def test_a_name_like_no_other_is_answered_with_all_of_them() -> None:
    with pytest.raises(ColumnNotFoundError, match="known are age, city, id, name, tags"):
        taken(PERSON, _person(zzzzzz=[1, 2]))


def test_a_column_given_twice_is_an_error() -> None:
    twice = pa.Table.from_arrays([pa.array(["a"])] * 3, ["name", "city", "city"])
    with pytest.raises(SchemaMismatchError, match=r"'city' .* several columns but is one"):
        taken(PERSON, twice)


def test_a_missing_required_column_is_an_error() -> None:
    with pytest.raises(SchemaMismatchError, match=r"'city' .* nothing but is String, never null"):
        taken(PERSON, pa.table({"name": ["Ann"]}))


def test_the_key_column_is_required_though_the_id_is_given() -> None:
    with pytest.raises(SchemaMismatchError, match="'name'"):
        taken(PERSON, pa.table({"id": ["Ann"], "city": ["Oslo"]}))


@pytest.mark.parametrize("name", ["_rowid", "_rowaddr", "_row_created_at_version"])
def test_system_columns_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match="leave the column out"):
        taken(PERSON, _person(**{name: [1, 2]}))


def test_no_rows_and_no_batches_are_fine() -> None:
    empty = _person().slice(0, 0)
    intake = Intake(PERSON, empty.schema, "overwrite")
    assert intake.convert(pa.RecordBatch.from_pylist([], empty.schema)).num_rows == 0
    assert intake.violations() == ()


def test_batches_of_another_schema_are_not_mixed_in() -> None:
    intake = Intake(PERSON, _person().schema, "append")
    with pytest.raises(ValueError, match="among batches"):
        intake.convert(_person(age=[1, 2]).to_batches()[0])


def test_nullability_and_metadata_of_batches_mean_nothing() -> None:
    schema = pa.schema(
        [pa.field("name", pa.string(), nullable=False), pa.field("city", pa.string())],
        metadata={"pandas": "…"},
    )
    intake = Intake(PERSON, schema, "append")
    assert intake.convert(_person().to_batches()[0]).num_rows == 2


def test_pandas_frames_come_in() -> None:
    frame = pd.DataFrame({"name": ["Ann", "Bob"], "city": pd.Categorical(["Oslo", "Rome"])})
    frame["age"] = pd.array([1, None], dtype="Int64")
    table = stored(PERSON, pa.Table.from_pandas(frame, preserve_index=False))
    assert table["age"].to_pylist() == [1, None]
    assert table["city"].to_pylist() == ["Oslo", "Rome"]


# Ends of edges.


def test_ends_have_two_pairs_of_names() -> None:
    for names in (("src", "dst"), ("from", "to"), ("src", "to")):
        table = stored(KNOWS, pa.table({names[0]: ["Ann"], names[1]: ["Bob"]}))
        assert table.select(["src", "dst"]).to_pylist() == [{"src": "Ann", "dst": "Bob"}]


def test_one_end_under_both_names_is_an_error() -> None:
    with pytest.raises(SchemaMismatchError, match=r"'from' .* same as 'src': give one of the two"):
        taken(KNOWS, pa.table({"src": ["a"], "from": ["a"], "dst": ["b"]}))


def test_a_property_called_from_is_a_property() -> None:
    rows = pa.table({"src": ["a"], "dst": ["b"], "from": ["x"], "to": [1]})
    assert stored(SENT, rows).drop_columns(["id"]).to_pylist() == [
        {"src": "a", "dst": "b", "from": "x", "to": 1}
    ]
    with pytest.raises(SchemaMismatchError, match="'src' of edge:Sent"):
        taken(SENT, rows.select(["from", "to"]))


def test_an_edge_needs_both_ends() -> None:
    with pytest.raises(SchemaMismatchError, match="'dst' of edge:Knows"):
        taken(KNOWS, pa.table({"src": ["a"]}))
    nowhere = pa.table({"from": ["a", None], "to": pa.array([None, "b"], pa.string())})
    assert refused(KNOWS, nowhere) == [
        "required on edge:Knows.from: the value is null: 'row 2'",
        "required on edge:Knows.to: the value is null: 'row 1'",
    ]


def test_an_edge_without_an_id_is_named_by_its_ends() -> None:
    rows = pa.table({"src": ["a", "b"], "dst": ["b", "a"], "kind": ["a", "z"]})
    assert refused(KNOWS, rows) == [
        "enum on edge:Knows.kind: the value is not one of a, b: 'b -> a'"
    ]


def test_a_node_without_an_id_is_named_by_its_place() -> None:
    declared = entity("node Note { text: String }")
    rows = pa.table({"text": ["a", "b", "c", "d", None]})
    assert refused(declared, rows, batch_rows=2) == [
        "required on node:Note.text: the value is null: 'row 5'"
    ]


# Modes.


def test_a_merge_of_some_columns_takes_these_and_the_id() -> None:
    table = stored(
        PERSON, pa.table({"id": ["Ann"], "age": [3]}), mode="merge", merge_columns=["age"]
    )
    assert table.schema.names == ["id", "age"]
    assert table.to_pylist() == [{"id": "Ann", "age": 3}]


def test_a_merge_of_some_columns_finds_the_id_in_the_key() -> None:
    table = stored(PERSON, _person(age=[3, 4]), mode="merge", merge_columns=["age", "tags"][:1])
    assert table.to_pylist() == [{"id": "Ann", "age": 3}, {"id": "Bob", "age": 4}]


def test_columns_of_a_merge_keep_their_order_and_rules() -> None:
    rows = pa.table({"tags": [["x"]], "id": ["Ann"], "city": pa.array([None], pa.string())})
    assert refused(PERSON, rows, mode="merge", merge_columns=["tags", "city"]) == [
        "required on node:Person.city: the value is null: 'Ann'"
    ]
    good = rows.set_column(2, "city", pa.array(["Rome"]))
    table = stored(PERSON, good, mode="merge", merge_columns=["tags", "city"])
    assert table.schema.names == ["id", "city", "tags"]


def test_a_merge_of_some_columns_needs_them() -> None:
    with pytest.raises(SchemaMismatchError, match=r"'age' .* nothing but is one of mergeColumns"):
        taken(PERSON, _person(), mode="merge", merge_columns=["age"])


def test_a_merge_of_unknown_columns_is_an_error() -> None:
    with pytest.raises(ColumnNotFoundError, match="'Age'; did you mean 'age'"):
        taken(PERSON, _person(), mode="merge", merge_columns=["Age"])
    with pytest.raises(ColumnNotFoundError, match="'id'"):
        taken(PERSON, _person(), mode="merge", merge_columns=["id"])


def test_a_merge_of_some_columns_never_makes_ids() -> None:
    with pytest.raises(SchemaMismatchError, match=r"'id' .* rows are found by it"):
        taken(NOTE, pa.table({"text": ["a"]}), mode="merge", merge_columns=["text"])
    rows = pa.table({"id": ["a", None], "text": ["x", "y"]})
    assert refused(NOTE, rows, mode="merge", merge_columns=["text"]) == [
        "required on node:Note.id: the value is null: 'row 2'"
    ]


def test_only_a_merge_has_columns() -> None:
    with pytest.raises(ConflictingOptionsError, match="mode 'append' writes every column"):
        taken(PERSON, _person(), mode="append", merge_columns=["age"])


def test_a_delete_takes_ids_and_leaves_the_rest_aside() -> None:
    rows = pa.table({"id": ["a"], "since": ["not a date"], "src": [None]})
    assert taken(KNOWS, rows.drop_columns(["since"]), mode="delete")[0].to_pylist() == [{"id": "a"}]
    assert stored(PERSON, _person(), mode="delete").to_pylist() == [{"id": "Ann"}, {"id": "Bob"}]
    with pytest.raises(ColumnNotFoundError):
        taken(KNOWS, pa.table({"id": ["a"], "when": ["x"]}), mode="delete")


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_whole_row_is_the_same_in_every_mode(mode: str) -> None:
    assert stored(PERSON, _person(), mode=mode) == stored(PERSON, _person())


# State.


def test_an_intake_goes_on_after_it_was_pickled() -> None:
    rules = r'@range(age, 0..9)  @check(name, "\\b\\w")'
    declared = entity(f"node P {{ name: String @key  age: I32?  v: Vector(2)?  {rules} }}")
    rows = pa.table({"name": ["a", "b", "c"], "age": [1, 10, 11], "v": [[1.0, 2.0]] * 3})
    intake = Intake(declared, rows.schema, "append")
    for batch in rows.to_batches(max_chunksize=1):
        intake.convert(batch)
        intake = pickle.loads(pickle.dumps(intake))
    (violation,) = intake.violations()
    assert violation.ids == ("b", "c")
    assert len(pickle.dumps(intake)) < 200_000


def test_no_rows_are_returned_once_a_rule_is_broken_and_all_are_checked() -> None:
    declared = entity("node N { n: I32 }")
    rows = pa.table({"id": list("abcd"), "n": [1, 2**40, 3, 2**41]})
    intake = Intake(declared, rows.schema, "append")
    counts = [intake.convert(batch).num_rows for batch in rows.to_batches(max_chunksize=1)]
    assert counts == [1, 0, 0, 0]
    assert intake.violations()[0].ids == ("b", "d")


def test_every_broken_rule_is_reported_at_once() -> None:
    declared = entity("node N { a: I32  b: enum(x)  c: Vector(1)? }")
    rows = pa.table({"id": ["k"], "a": [2**40], "b": ["y"], "c": [[1.0, 2.0]]})
    assert [violation.split(" ")[0] for violation in refused(declared, rows)] == [
        "overflow",
        "enum",
        "vector",
    ]
