"""Ids on their way in: from the key, as given, or new."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pyarrow as pa
import pytest
from ulid import ULID

from omnigraph_spark import clock
from omnigraph_spark.errors import SchemaMismatchError
from omnigraph_spark.writing.intake.ids import new_ids
from tests.helpers.intake import entity, refused, stored, taken

NOTE = entity("node Note { text: String? }")
EDGE = entity("node P { n: String @key } edge E: P -> P")
KEYED = entity("node K { k: String @key }")
PAIR = entity("node K { b: String  a: String  @key(b, a) }")
ULID_TEXT = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")


def _keyed(kind: str, values: Any, ids: list[str | None] | None = None) -> tuple[Any, pa.Table]:
    columns = {"k": values} | ({} if ids is None else {"id": pa.array(ids, pa.string())})
    return entity(f"node K {{ k: {kind} @key }}"), pa.table(columns)


def _ids(declared: Any, rows: pa.Table, **more: Any) -> list[str]:
    return stored(declared, rows, **more)["id"].to_pylist()


def test_the_key_is_the_id() -> None:
    assert _ids(*_keyed("String", ["b", "", "a\0é"])) == ["b", "", "a\0é"]
    assert _ids(*_keyed("enum(x, y)", ["x", "y"])) == ["x", "y"]


def test_the_first_column_by_name_of_a_composite_key_is_the_id() -> None:
    assert _ids(PAIR, pa.table({"b": ["B"], "a": ["A"]})) == ["A"]


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        ("I32", pa.array([5, -7, 0], pa.int64()), ["5", "-7", "0"]),
        ("I64", pa.array([-(2**63)]), [str(-(2**63))]),
        ("U32", pa.array([2**32 - 1]), [str(2**32 - 1)]),
        ("U64", pa.array([2**64 - 1], pa.uint64()), [str(2**64 - 1)]),
        ("Bool", pa.array([True, False]), ["true", "false"]),
        (
            "Date",
            pa.array([dt.date(2024, 1, 2), dt.date(1969, 12, 31)]),
            ["2024-01-02", "1969-12-31"],
        ),
    ],
)
def test_other_keys_form_the_id_by_their_plain_text(
    kind: str, values: Any, texts: list[str]
) -> None:
    assert _ids(*_keyed(kind, values)) == texts
    assert _ids(*_keyed(kind, values, list(texts))) == texts


def test_a_given_id_is_the_key_or_null() -> None:
    assert _ids(*_keyed("String", ["a", "b"], ["a", None])) == ["a", "b"]
    assert refused(*_keyed("String", ["a", "b", "c"], ["a", "x", "C"])) == [
        "id on node:K.id: the id is not the key: 'C', 'x'"
    ]
    assert refused(*_keyed("I32", [7, 8], ["07", "8"])) == [
        "id on node:K.id: the id is not the key: '07'"
    ]


def test_a_null_key_is_named_once() -> None:
    assert refused(*_keyed("String", ["a", None], ["a", "b"])) == [
        "required on node:K.k: the value is null: 'b'"
    ]
    assert refused(*_keyed("String", pa.array(["a", None]))) == [
        "required on node:K.k: the value is null: 'row 2'",
    ]


def test_a_date_may_be_spelled_as_the_engine_kept_it() -> None:
    days = pa.array([dt.date(2024, 1, 2)] * 3)
    spelled = ["2024-01-02", "2024-1-2", "2024-01-02T03:04:05"]
    assert _ids(*_keyed("Date", days, spelled)) == spelled
    assert refused(*_keyed("Date", days, ["2024-01-03", "x", "2024-13-02"]))[0].endswith(
        "'2024-01-03', '2024-13-02', 'x'"
    )


def test_a_time_or_float_as_key_needs_an_id_that_means_it() -> None:
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678_900, dt.UTC)
    times = pa.array([moment] * 3)
    spelled = [
        "2024-01-02T03:04:05.678Z",
        "2024-01-02 03:04:05.6789",
        "2024-01-02T05:04:05.678+02:00",
    ]
    assert _ids(*_keyed("DateTime", times, spelled)) == spelled
    assert refused(*_keyed("DateTime", times, ["2024-01-02", "x", spelled[0]]))[0].endswith(
        "'2024-01-02', 'x'"
    )
    assert _ids(*_keyed("F64", pa.array([5.0, 1e17]), ["5", "100000000000000000"])) == [
        "5",
        "100000000000000000",
    ]
    assert _ids(*_keyed("F32", pa.array([0.1, 16777216.0]), ["0.1", "16777217"]))[0] == "0.1"
    assert refused(*_keyed("F64", pa.array([5.0, 6.0]), ["5.5", "six"]))[0].endswith("'5.5', 'six'")
    assert refused(*_keyed("F64", pa.array([5.0]), [None])) == [
        "required on node:K.id: the value is null: 'row 1'"
    ]
    with pytest.raises(SchemaMismatchError, match="a key of F64 has many texts"):
        taken(*_keyed("F64", pa.array([5.0])))


@pytest.mark.parametrize("declared", [NOTE, EDGE], ids=["node", "edge"])
def test_without_a_key_ids_are_taken_as_given_or_made(declared: Any) -> None:
    ends = {"src": ["p"] * 4, "dst": ["q"] * 4} if declared is EDGE else {}
    rows = pa.table({"id": ["a", None, "", None], **ends})
    first, second, third, fourth = _ids(declared, rows)
    assert (first, third) == ("a", "")
    assert ULID_TEXT.fullmatch(second)
    assert ULID_TEXT.fullmatch(fourth)
    assert second != fourth
    made = _ids(declared, rows.drop_columns(["id"]) if ends else pa.table({"text": ["x"] * 4}))
    assert len(set(made)) == 4


def test_an_id_is_text() -> None:
    with pytest.raises(SchemaMismatchError, match="'id' of node:Note was given as int64"):
        taken(NOTE, pa.table({"id": [1]}))
    with pytest.raises(SchemaMismatchError, match="'src' of edge:E was given as int64"):
        taken(EDGE, pa.table({"src": [1], "dst": ["a"]}))


def test_new_ids_are_ulids_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now_us", lambda: 1_794_803_034_494_618)
    ids = new_ids(10_000).to_pylist()
    assert len(set(ids)) == 10_000
    assert all(ULID_TEXT.fullmatch(text) for text in ids)
    assert {ULID.from_str(text).milliseconds for text in ids} == {1_794_803_034_494}
    # Every letter is used in every random place, so no bits are stuck.
    assert all(len({text[place] for text in ids}) == 32 for place in range(10, 26))


def test_no_new_ids_are_none() -> None:
    assert new_ids(0).to_pylist() == []
