"""Records of all types in any order become batches of each; what is wrong is said by line."""

from __future__ import annotations

import gzip
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph_spark.errors import (
    InvalidOptionError,
    InvalidRecordsError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.jsonl import gathering, spool
from omnigraph_spark.jsonl.gathering import batch_schema
from omnigraph_spark.jsonl.reading import read_jsonl, rows_from_lines, stream_rows
from omnigraph_spark.jsonl.sources import Text
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.writing.intake import Intake

SCHEMA = parse_schema("""
node Person { name: String @key  age: I32?  born: Date?  seen: DateTime?  photo: Blob? }
node Note { text: String  tags: [String]?  place: Vector(2)? }
edge Knows: Person -> Person { since: Date? }
""")
ALICE = '{"type":"Person","data":{"name":"Alice","age":30}}'
KNOWS = '{"edge":"Knows","from":"Alice","to":"Bob","data":{"since":"2020-05-05"}}'


def read(source: Any, schema: GraphSchema = SCHEMA) -> dict[str, list[dict[str, Any]]]:
    with read_jsonl(source, schema) as rows:
        return {key: pa.Table.from_batches(batches).to_pylist() for key, batches in rows.items()}


def problems(source: Any, **options: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidRecordsError) as caught:
        rows_from_lines(source.split("\n"), SCHEMA, **options)
    return caught.value.problems


def test_records_of_all_types_come_in_any_order() -> None:
    rows = read(f'{KNOWS}\n{{"type":"Note","data":{{"id":"n","text":"x"}}}}\n{ALICE}\n{KNOWS}')
    assert {key: len(found) for key, found in rows.items()} == {
        "node:Person": 1,
        "node:Note": 1,
        "edge:Knows": 2,
    }
    assert rows["node:Note"] == [{"id": "n", "text": "x", "tags": None, "place": None}]
    assert [(edge["src"], edge["dst"]) for edge in rows["edge:Knows"]] == [("Alice", "Bob")] * 2


def test_batches_have_the_types_users_read_and_blobs_as_they_are_written() -> None:
    person = SCHEMA.node_types["Person"]
    assert batch_schema(person) == pa.schema(
        [
            pa.field("id", pa.string()),
            pa.field("age", pa.int32()),
            pa.field("born", pa.date32()),
            pa.field("name", pa.string(), nullable=False),
            pa.field(
                "photo",
                pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())]),
            ),
            pa.field("seen", pa.timestamp("ms", tz="UTC")),
        ]
    )
    with read_jsonl(ALICE, SCHEMA) as rows:
        (batch,) = rows["node:Person"]
    assert batch.schema == batch_schema(person)


def test_batches_go_through_intake() -> None:
    text = "\n".join([ALICE, KNOWS, '{"type":"Note","data":{"text":"x","place":[1,2]}}'])
    with read_jsonl(text, SCHEMA) as rows:
        for declared in SCHEMA.types():
            for batch in rows[str(declared.type_key)]:
                intake = Intake(declared, batch.schema, "append")
                assert intake.convert(batch).num_rows == 1
                assert intake.violations() == ()


def test_types_without_records_are_not_there() -> None:
    assert read("{}".join(["", ""]).replace("{}", "")) == {}
    assert list(read(ALICE)) == ["node:Person"]


def test_absent_and_null_are_the_same() -> None:
    assert read('{"type":"Person","edge":null,"from":null,"data":{"name":"A","id":null}}') == {
        "node:Person": [
            {"id": None, "age": None, "born": None, "name": "A", "photo": None, "seen": None}
        ]
    }
    assert len(read('{"type":null,"edge":"Knows","from":"A","to":"B","data":null}')) == 1
    assert len(read('{"edge":"Knows","from":"A","to":"B"}')) == 1


def test_names_of_edge_types_may_differ_in_case_those_of_nodes_may_not() -> None:
    assert list(read('{"edge":"KNOWS","from":"A","to":"B"}')) == ["edge:Knows"]
    (problem,) = problems('{"type":"person","data":{"name":"A"}}')
    assert problem == "line 1: there is no node type 'person'; did you mean 'Person'?"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ('{"type":"Person","data":{"name":"A","age":4294967297}}',
         "Person.age is I32?: found 4294967297; expected a whole number from -2147483648 to "),
        ('{"type":"Person","data":{"age":1}}', "Person.name is String: found nothing; expected te"),
        ('{"type":"Person","data":{"name":null}}', "Person.name is String: found null; expected t"),
        ('{"type":"Person","data":{"name":"A","id":5}}', "Person.id is String?: found 5; expected"),
        ('{"type":"Person","data":{"name":"A","agee":1}}',
         "Person has no property 'agee'; did you mean 'age'?"),
        ('{"type":"Person","data":{"name":"A","born":"2024-02-30"}}',
         'Person.born is Date?: found "2024-02-30"; expected a date such as "2024-01-02"'),
        ('{"type":"Note","data":{"text":"t","place":[1,"x"]}}',
         'Note.place is Vector(2)?: found "x" as item 2; expected a list of 2 numbers'),
        ('{"type":"Note","data":{"text":"t","tags":["a",1]}}',
         "Note.tags is [String]?: found 1 as item 2; expected a list, each item text or null"),
        ('{"type":"Nope"}', "there is no node type 'Nope'; "),
        ('{"edge":"Know","from":"A","to":"B"}', "no edge type 'Know'; did you mean 'Knows'?"),
        ('{"edge":"Knows","to":"B"}', "Knows needs 'from': found nothing; expected the id"),
        ('{"edge":"Knows","from":"A","to":7}', "Knows needs 'to': found 7; expected the id of a"),
        ('{"edge":"Knows","from":"A","to":"B","data":{"src":"C"}}', "Knows has no property 'src'"),
        ('{"edge":"Knows","from":"A","to":"B","id":"x"}',
         "a record of Knows has no field 'id'; it has data, edge, from, to"),
        ('{"type":"Person","name":"A"}', "a record of Person has no field 'name'; it has data"),
        ('{"type":"Person","edge":"Knows","data":{"name":"A"}}', "Person has no field 'edge'"),
        ('{"type":"Person","data":[1]}', "data of Person: found [1]; expected an object"),
        ('{"type":5}', "'type' is 5; expected the name of a node type as text"),
        ('{"edge":["Knows"]}', """'edge' is ["Knows"]; expected the name of an edge type"""),
        ("{}", "found neither 'type' nor 'edge'"),
        ('[{"type":"Person"}]', 'found [{"type":"Person"}]; expected an object'),
        ('"text"', 'found "text"; expected an object'),
        ('{"type":"Person"', "not valid JSON: the record that begins here does not end"),
    ],
)  # fmt: skip
def test_a_problem_is_said_with_its_line_what_was_found_and_what_would_work(
    record: str, words: str
) -> None:
    (problem,) = problems(f"{ALICE}\n\n{record}")
    assert problem.startswith("line 3: ")
    assert words in problem


def test_all_problems_are_listed_by_line_up_to_ten() -> None:
    bad = ['{"type":"Person","data":{"name":5}}', KNOWS.replace('"2020-05-05"', "true")]
    text = "\n".join(bad * 2)
    assert [problem.split(":")[0] for problem in problems(text)] == [
        f"line {n}" for n in range(1, 5)
    ]
    with pytest.raises(InvalidRecordsError, match="and 190 more") as caught:
        read("\n".join(bad[:1] * 200))
    assert len(caught.value.problems) == 10


def test_malformed_text_is_told_with_the_problems_before_it() -> None:
    found = problems('{"type":"Person","data":{"name":5}}\n{"type":\n}')
    assert [problem.split(":")[0] for problem in found] == ["line 1", "line 2"]


def test_without_numbers_problems_quote_the_record() -> None:
    (problem,) = problems('{"type":"Person","data":{"name":5}}', numbered=False)
    assert problem.startswith('record {"name":5}: Person.name')


def test_after_a_problem_nothing_more_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "BATCH_ROWS", 1)
    lines = [ALICE, ALICE, '{"type":"Person","data":{"name":5}}', ALICE]
    given = []
    with pytest.raises(InvalidRecordsError):  # noqa: PT012
        for key, batch in stream_rows([Text([*lines])], SCHEMA):
            given.append((key, batch.num_rows))
    assert sum(rows for _, rows in given) == 1


def test_reading_stops_when_enough_problems_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "BATCH_ROWS", 16)
    taken = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for _ in range(100_000):
            taken += 1
            yield '{"type":"Person","data":{"name":5}}'

    with pytest.raises(InvalidRecordsError):
        rows_from_lines(lines(), SCHEMA)
    assert taken < 2_000


# -- where records come from -------------------------------------------------------------------


def test_a_file_a_folder_a_pattern_and_packed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(ALICE, encoding="utf-8")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(KNOWS.encode()))
    (tmp_path / "_SUCCESS").write_text("not a record", encoding="utf-8")
    (tmp_path / ".hidden").write_text("not a record", encoding="utf-8")
    both = {"node:Person", "edge:Knows"}
    assert set(read(str(tmp_path))) == set(read(tmp_path)) == both
    assert set(read(f"{tmp_path}/*.jsonl*")) == both
    assert set(read(tmp_path / "b.jsonl")) == {"node:Person"}
    assert set(read(str(tmp_path / "a.jsonl.gz"))) == {"edge:Knows"}


def test_lines_of_somebody_else_are_read() -> None:
    assert len(read(line for line in [ALICE, KNOWS.encode()])) == 2


def test_a_problem_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text(f"{ALICE}\n{ALICE}\n", encoding="utf-8")
    (tmp_path / "2.jsonl").write_text(f"{ALICE}\n{{}}\n", encoding="utf-8")
    (tmp_path / "3.jsonl").write_text("{}", encoding="utf-8")
    with pytest.raises(InvalidRecordsError) as caught:
        read(tmp_path)
    places = [problem.split(":")[0] for problem in caught.value.problems]
    assert places == ["line 2 of 2.jsonl", "line 1 of 3.jsonl"]


def test_a_record_does_not_continue_in_the_next_file(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text('{"type":"Person",', encoding="utf-8")
    (tmp_path / "2.jsonl").write_text('"data":{"name":"A"}}', encoding="utf-8")
    with pytest.raises(InvalidRecordsError, match=r"line 1 of 1\.jsonl: not valid JSON"):
        read(tmp_path)


def test_places_without_records_are_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "missing.jsonl", tmp_path / "*.jsonl"):
        with pytest.raises(InvalidOptionError, match="a file, a folder of files or a pattern"):
            read(str(place))
    with pytest.raises(UnsupportedError, match="without a SparkSession"):
        read("s3://bucket/seed.jsonl")
    (tmp_path / "broken.gz").write_bytes(b"not packed")
    with pytest.raises(StorageError, match="broken"):
        read(tmp_path / "broken.gz")


# -- memory ------------------------------------------------------------------------------------


def test_batches_are_bounded_by_rows_and_by_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "BATCH_ROWS", 1_000)
    sizes = [b.num_rows for _, b in stream_rows([Text([ALICE] * 5_000)], SCHEMA)]
    assert sum(sizes) == 5_000
    assert max(sizes) < 1_600
    monkeypatch.setattr(gathering, "BATCH_TEXT_BYTES", 100 * len(ALICE))
    sizes = [b.num_rows for _, b in stream_rows([Text([ALICE] * 5_000)], SCHEMA)]
    assert max(sizes) < 700


def test_many_types_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "WAITING_TEXT_BYTES", 10_000)
    given = [key for key, _ in stream_rows([Text([ALICE, KNOWS] * 2_000)], SCHEMA)]
    assert len(given) > 4
    assert set(given) == {"node:Person", "edge:Knows"}


def test_what_does_not_fit_memory_goes_to_disk_and_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(gathering, "BATCH_ROWS", 100)
    text = "\n".join([ALICE, KNOWS] * 2_000)
    in_memory = read(text)
    assert list(tmp_path.iterdir()) == []
    batches = stream_rows([Text(text.split("\n"))], SCHEMA)
    with spool.RowsByType(batches, memory_bytes=10_000) as rows:
        assert len(list(tmp_path.glob("*/*.arrow"))) == 2
        for key in rows:
            assert rows.rows(key) == 2_000
            for _ in range(2):  # as often as wanted
                assert pa.Table.from_batches(rows[key]).to_pylist() == in_memory[key]
    assert list(tmp_path.iterdir()) == []


def test_types_whose_names_differ_in_case_alone_have_files_that_no_disk_takes_for_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = ["Person", "PERSON"]
    schema = parse_schema("".join(f"node {name} {{ name: String @key }}\n" for name in names))
    lines = [f'{{"type": "{name}", "data": {{"name": "x"}}}}' for name in names]
    with spool.RowsByType(stream_rows([Text(lines)], schema), memory_bytes=0) as rows:
        assert set(rows) == {"node:Person", "node:PERSON"}
        assert len({path.name.lower() for path in tmp_path.glob("*/*.arrow")}) == 2


def test_nothing_stays_on_disk_when_the_input_is_bad(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(gathering, "BATCH_ROWS", 100)
    lines = [*[ALICE] * 2_000, "{"]
    with pytest.raises(InvalidRecordsError):
        spool.RowsByType(stream_rows([Text(lines)], SCHEMA), memory_bytes=1_000)
    assert list(tmp_path.iterdir()) == []


def test_reading_lines_can_be_sent_to_a_task() -> None:
    function, schema = pickle.loads(pickle.dumps((rows_from_lines, SCHEMA)))
    with function(iter([ALICE]), schema, numbered=False) as rows:
        assert rows.rows("node:Person") == 1
