"""Reading a type: what is asked for and nothing else, each row once, whatever the tasks."""

from __future__ import annotations

import datetime as dt
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph_spark as og
from omnigraph_spark.arrow_rows import DATETIME
from omnigraph_spark.blobs import DESCRIPTOR_TYPE, Blobs
from omnigraph_spark.errors import ColumnNotFoundError, InvalidFilterError, InvalidOptionError
from omnigraph_spark.scan import (
    ScanPlan,
    ScanRequest,
    ScanTask,
    plan_scan,
    read_all,
    read_task,
)
from omnigraph_spark.scan_source import ScanSource
from tests.engine.graphs import PERSON, SOCIAL, refused
from tests.helpers import golden
from tests.helpers.builder import GraphBuilder
from tests.helpers.exported import exported_rows, lines
from tests.helpers.golden import Expected

EVERY_TYPE = """
node Thing {
    slug: String @key
    flag: Bool
    small: I32
    large: I64
    natural: U32
    huge: U64
    single: F32
    double: F64
    day: Date
    time: DateTime
    colour: enum(red, blue)
    vector: Vector(2)
    payload: Blob?
    words: [String]
    times: [DateTime]?
    absent: String?
}
node Empty { slug: String @key payload: Blob? }
"""
THING, EMPTY = "node:Thing", "node:Empty"

#: People in fragments of ten; those of a multiple of three, and all of the fifth ten, are gone.
PEOPLE = 200
ALIVE = [number for number in range(PEOPLE) if number % 3 and not 40 <= number < 50]


def source_of(graph: og.Graph | og.Snapshot, type_key: str = PERSON) -> ScanSource:
    snapshot = graph.snapshot() if isinstance(graph, og.Graph) else graph
    return ScanSource.of(snapshot._state, type_key)


def read_rows(task: ScanTask) -> pa.Table:
    """The rows of one task, for another process."""
    return pa.Table.from_batches(list(read_task(task)))


def read_plan(plan: ScanPlan) -> pa.Table:
    return pa.Table.from_batches(read_all(plan), plan.schema)


def numbers(table: pa.Table) -> list[int]:
    ages: list[int] = table["age"].to_pylist()  # type: ignore[assignment]  # none is null here
    return ages


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """People of ages 0 to 199 in twenty fragments, many of them deleted."""
    graph = GraphBuilder.create(tmp_path_factory.mktemp("crowd") / "graph", SOCIAL)
    rows = [{"name": f"person {number}", "age": number} for number in range(PEOPLE)]
    graph.append(PERSON, rows, max_rows_per_file=10)
    graph.delete(PERSON, "age % 3 = 0 or (age >= 40 and age < 50)")
    graph.publish()
    return og.open(str(graph.root))


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Fifty things with a value of every type, in fragments of twelve; each fifth has no blob."""
    graph = GraphBuilder.create(tmp_path_factory.mktemp("things") / "graph", EVERY_TYPE)
    graph.append(THING, [thing(number) for number in range(50)], max_rows_per_file=12)
    graph.delete(THING, "small = 7 or small = 30")
    graph.publish()
    return og.open(str(graph.root))


def thing(number: int) -> dict[str, Any]:
    return {
        "slug": f"t{number:02}",
        "flag": number % 2 == 0,
        "small": number,
        "large": -(2**63) + number,
        "natural": 2**32 - 1 - number,
        "huge": 2**64 - 1 - number,
        "single": number / 4,
        "double": number / 3,
        "day": dt.date(1970, 1, 1) - dt.timedelta(days=number),
        "time": dt.datetime(2026, 6, 11, 12, 34, 56, 789_000, tzinfo=dt.UTC),
        "colour": "red" if number % 2 else "blue",
        "vector": [float(number), -float(number)],
        "payload": None if number % 5 == 0 else bytes([number]) * number,
        "words": [str(number), None],
        "times": [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)] if number % 2 else None,
    }


def blob_of(number: int) -> bytes | None:
    blob: bytes | None = thing(number)["payload"]
    return blob


# -- what is asked for ---------------------------------------------------------------------------


def test_rows_come_in_the_order_they_are_stored(crowd: og.Graph) -> None:
    assert numbers(crowd.snapshot().arrow(PERSON)) == ALIVE
    assert crowd.snapshot().rows(PERSON) == len(ALIVE)


def test_columns_come_in_the_order_they_are_asked_for(crowd: og.Graph) -> None:
    snapshot = crowd.snapshot()

    assert snapshot.arrow(PERSON).column_names == ["id", "age", "name"]
    assert snapshot.arrow(PERSON, columns=["name", "id"]).column_names == ["name", "id"]
    one = snapshot.arrow(PERSON, columns=["age"])
    assert (one.column_names, numbers(one)) == (["age"], ALIVE)


def test_a_column_that_is_only_filtered_by_is_not_returned(crowd: og.Graph) -> None:
    table = crowd.snapshot().arrow(PERSON, columns=["name"], where="age = 100")

    assert table.to_pylist() == [{"name": "person 100"}]


def test_without_columns_the_rows_are_still_counted(crowd: og.Graph) -> None:
    snapshot = crowd.snapshot()

    assert snapshot.arrow(PERSON, columns=[]).shape == (len(ALIVE), 0)
    assert sum(b.num_rows for b in snapshot.batches(PERSON, columns=[])) == len(ALIVE)
    young = sum(b.num_rows for b in snapshot.batches(PERSON, columns=[], where="age < 10"))
    assert young == 6
    assert sum(b.num_rows for b in snapshot.batches(PERSON, columns=[], limit=7)) == 7
    split = plan_scan(source_of(crowd), ScanRequest(columns=(), split_bytes=1))
    assert sum(batch.num_rows for batch in read_all(split)) == len(ALIVE)


def test_a_column_is_asked_for_once(crowd: og.Graph) -> None:
    with refused(InvalidOptionError, Path(crowd.root), "'columns'", "'age' only once"):
        crowd.snapshot().arrow(PERSON, columns=["age", "name", "age"])


@pytest.mark.parametrize("where", ["age < 15", "name = 'person 100'", "age % 2 = 0", "age is null"])
@pytest.mark.parametrize("split_bytes", [1, 1_000, 1 << 30])
def test_a_filter_gives_the_same_rows_however_the_tasks_are_cut(
    crowd: og.Graph, where: str, split_bytes: int
) -> None:
    expected = {
        "age < 15": [age for age in ALIVE if age < 15],
        "name = 'person 100'": [100],
        "age % 2 = 0": [age for age in ALIVE if age % 2 == 0],
        "age is null": [],
    }
    plan = plan_scan(source_of(crowd), ScanRequest(where=where, split_bytes=split_bytes))

    assert numbers(read_plan(plan)) == expected[where]
    assert all(task.row_range is None for task in plan.tasks), "an offset would count filtered rows"


def test_a_filter_makes_larger_tasks_of_rows_whose_other_columns_are_mostly_left(
    things: og.Graph,
) -> None:
    source = source_of(things, THING)
    most = max(fragment.size_bytes for fragment in source.open().fragments())

    def tasks(where: str | None) -> int:
        return len(plan_scan(source, ScanRequest(where=where, split_bytes=most)).tasks)

    assert tasks("small > 20") < tasks(None)


@pytest.mark.parametrize("limit", [0, 1, 6, 7, 20, len(ALIVE) - 1, len(ALIVE), 10**6, 2**70])
def test_a_limit_holds_for_the_whole_answer(crowd: og.Graph, limit: int) -> None:
    snapshot = crowd.snapshot()

    assert numbers(snapshot.arrow(PERSON, limit=limit)) == ALIVE[:limit]
    old = [age for age in ALIVE if age >= 150]
    found = numbers(snapshot.arrow(PERSON, where="age >= 150", limit=limit))
    assert len(found) == min(limit, len(old))
    assert set(found) <= set(old)
    tiny = ScanRequest(limit=limit, split_bytes=1, batch_rows=3)
    assert len(numbers(read_plan(plan_scan(source_of(crowd), tiny)))) == min(limit, len(ALIVE))


def test_a_limit_reads_no_more_fragments_than_it_needs(crowd: og.Graph) -> None:
    [task] = plan_scan(source_of(crowd), ScanRequest(limit=8)).tasks

    assert task.fragment_ids == (0, 1), "seven rows of the first ten are alive, so two fragments do"


def test_a_limit_below_zero_is_refused(crowd: og.Graph) -> None:
    with refused(InvalidOptionError, Path(crowd.root), "'limit'", "'-1'", "zero or more"):
        crowd.snapshot().arrow(PERSON, limit=-1)


@pytest.mark.parametrize("batch_rows", [1, 7, 50, 10**6, 2**40])
def test_batches_have_at_most_the_rows_asked_for(crowd: og.Graph, batch_rows: int) -> None:
    plan = plan_scan(source_of(crowd), ScanRequest(batch_rows=batch_rows))
    batches = list(read_all(plan))

    assert max(batch.num_rows for batch in batches) <= batch_rows
    assert min(batch.num_rows for batch in batches) > 0
    assert numbers(pa.Table.from_batches(batches)) == ALIVE


def test_batches_stream_with_the_schema_of_the_whole(things: og.Graph) -> None:
    snapshot = things.snapshot()

    reader = snapshot.batches(THING, columns=["time", "payload", "slug"])

    assert reader.schema == snapshot.arrow(THING, columns=["time", "payload", "slug"]).schema
    assert reader.read_all().num_rows == 48


# -- values --------------------------------------------------------------------------------------


def test_every_type_of_value_comes_back_as_it_was_written(things: og.Graph) -> None:
    table = things.snapshot().arrow(THING, blobs="bytes")

    written = [thing(number) for number in range(50) if number not in (7, 30)]
    for row in written:
        row |= {"id": row["slug"], "absent": None}
    assert table.to_pylist() == written
    assert table.schema.field("time").type == DATETIME
    assert table.schema.field("huge").type == pa.uint64()
    assert not table.schema.field("slug").nullable
    assert table.schema.field("absent").nullable


def test_blobs_come_as_descriptors_bytes_or_not_at_all(things: og.Graph) -> None:
    snapshot = things.snapshot()
    alive = [number for number in range(50) if number not in (7, 30)]

    described = snapshot.arrow(THING, columns=["slug", "payload"])
    assert described.schema.field("payload").type == DESCRIPTOR_TYPE
    assert [value and value["size"] for value in described["payload"].to_pylist()] == [
        None if blob_of(number) is None else number for number in alive
    ]
    read = snapshot.arrow(THING, columns=["payload"], blobs="bytes")
    assert read["payload"].to_pylist() == [blob_of(number) for number in alive]
    without = snapshot.arrow(THING, blobs="none")
    assert "payload" not in without.column_names
    assert without.num_rows == len(alive)
    with refused(InvalidOptionError, Path(things.root), "'blobs'", "descriptor, bytes or none"):
        snapshot.arrow(THING, blobs="some")


@pytest.mark.parametrize("split_bytes", [1, 2_000, 1 << 30])
@pytest.mark.parametrize("batch_rows", [1, 5, None])
@pytest.mark.parametrize(
    ("where", "limit"), [(None, None), ("small % 2 = 1", None), (None, 9), ("small > 20", 9)]
)
def test_bytes_stay_with_their_rows_however_the_tasks_are_cut(
    things: og.Graph, split_bytes: int, batch_rows: int | None, where: str | None, limit: int | None
) -> None:
    request = ScanRequest(
        columns=("small", "payload"),
        where=where,
        limit=limit,
        blobs=Blobs.BYTES,
        batch_rows=batch_rows,
        split_bytes=split_bytes,
    )

    rows = read_plan(plan_scan(source_of(things, THING), request)).to_pylist()

    assert rows
    for row in rows:
        assert row["payload"] == blob_of(row["small"])
    if limit is None:
        whole = things.snapshot().arrow(THING, columns=["small"], where=where)
        assert [row["small"] for row in rows] == whole["small"].to_pylist()
    else:
        assert len(rows) == limit


# -- types without rows --------------------------------------------------------------------------


def assert_empty(snapshot: og.Snapshot, key: str, columns: list[str]) -> None:
    assert snapshot.rows(key) == 0
    for blobs in Blobs:
        table = snapshot.arrow(key, blobs=blobs)
        assert table.num_rows == 0
        assert set(table.column_names) <= set(columns)
    assert snapshot.arrow(key).column_names == columns
    assert snapshot.arrow(key, columns=[]).shape == (0, 0)
    assert snapshot.arrow(key, where="id = 'x'").num_rows == 0
    assert snapshot.arrow(key, limit=5).num_rows == 0
    assert snapshot.arrow(key, limit=0).num_rows == 0
    assert snapshot.arrow(key, where="id = 'x'", limit=5, columns=["id"]).num_rows == 0
    assert snapshot.entity(key, "x") is None
    plan = plan_scan(source_of(snapshot, key), ScanRequest(split_bytes=1))
    assert len(plan.tasks) == 1, "Spark wants a task"
    assert list(read_all(plan)) == []


def test_a_type_that_never_had_a_row_reads_as_empty(things: og.Graph) -> None:
    assert_empty(things.snapshot(), EMPTY, ["id", "payload", "slug"])


def test_a_type_whose_rows_are_all_deleted_reads_as_empty(social: GraphBuilder) -> None:
    social.delete(PERSON, "true")
    social.publish()

    assert_empty(og.open(str(social.root)).snapshot(), PERSON, ["id", "age", "name"])


def test_a_type_whose_fragments_are_gone_reads_as_empty(social: GraphBuilder) -> None:
    social.delete(PERSON, "true")
    social.compact(PERSON)
    social.publish()

    snapshot = og.open(str(social.root)).snapshot()
    assert source_of(snapshot).open().fragments() == []
    assert_empty(snapshot, PERSON, ["id", "age", "name"])


def test_a_type_overwritten_with_nothing_reads_as_empty(social: GraphBuilder) -> None:
    social.overwrite(PERSON, [])
    social.publish()

    assert_empty(og.open(str(social.root)).snapshot(), PERSON, ["id", "age", "name"])


# -- tasks ---------------------------------------------------------------------------------------


def test_several_fragments_become_several_tasks(crowd: og.Graph) -> None:
    size = sum(fragment.size_bytes for fragment in source_of(crowd).open().fragments())

    counts = {
        parts: len(plan_scan(source_of(crowd), ScanRequest(split_bytes=size // parts)).tasks)
        for parts in (1, 2, 5, 20)
    }

    assert counts[1] == 1
    assert 2 <= counts[2] <= 3
    assert 5 <= counts[5] <= 8
    assert counts[20] >= 19, "one fragment has no row left, so no task reads it"


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    split_bytes=st.integers(1, 60_000),
    columns=st.sampled_from([None, ("age",), ("name", "age"), ("id", "age", "name")]),
    batch_rows=st.one_of(st.none(), st.integers(1, 30)),
)
def test_each_row_is_read_once_however_the_tasks_are_cut(
    crowd: og.Graph, split_bytes: int, columns: tuple[str, ...] | None, batch_rows: int | None
) -> None:
    request = ScanRequest(columns=columns, split_bytes=split_bytes, batch_rows=batch_rows)
    plan = plan_scan(source_of(crowd), request)

    assert [age for task in plan.tasks for age in numbers(read_rows(task))] == ALIVE


def test_a_large_fragment_is_split_by_its_live_rows(tmp_path: Path) -> None:
    graph = GraphBuilder.create(tmp_path / "graph", SOCIAL)
    rows = 20_000
    graph.append(PERSON, [{"name": f"{number:020}", "age": number} for number in range(rows)])
    graph.delete(PERSON, "age < 5000 or age % 7 = 3 or age > 19990")
    graph.publish()
    alive = [n for n in range(rows) if not (n < 5000 or n % 7 == 3 or n > 19990)]
    source = source_of(og.open(str(graph.root)))
    [fragment] = source.open().fragments()

    plan = plan_scan(source, ScanRequest(split_bytes=fragment.size_bytes // 10))

    assert 10 <= len(plan.tasks) <= 11
    ranges = [task.row_range for task in plan.tasks if task.row_range]
    assert len(ranges) == len(plan.tasks)
    parts = [numbers(read_rows(task)) for task in plan.tasks]
    assert [len(part) for part in parts] == [count for _, count in ranges]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1, "deleted rows count for nobody"
    assert [number for part in parts for number in part] == alive


def test_tasks_are_small_values_that_arrive_as_they_were_sent(crowd: og.Graph) -> None:
    for request in (
        ScanRequest(),
        ScanRequest(split_bytes=1),
        ScanRequest(columns=("age",), where="age > 10", limit=5, blobs=Blobs.NONE),
    ):
        for task in plan_scan(source_of(crowd), request).tasks:
            sent = pickle.dumps(task)
            assert len(sent) < 4_000
            assert pickle.loads(sent) == task


def test_a_task_of_many_fragments_is_still_small(tmp_path: Path) -> None:
    graph = GraphBuilder.create(tmp_path / "graph", SOCIAL)
    graph.write({PERSON: [{"name": f"{n}"} for n in range(300)]}, max_rows_per_file=1)

    [task] = plan_scan(source_of(og.open(str(graph.root))), ScanRequest()).tasks

    assert len(task.fragment_ids) == 300
    assert len(pickle.dumps(task)) < 4_000


@pytest.mark.slow
def test_another_process_reads_the_same_rows(crowd: og.Graph, things: og.Graph) -> None:
    requests: list[tuple[ScanSource, ScanRequest]] = [
        (source_of(crowd), ScanRequest(split_bytes=8_000)),
        (source_of(crowd), ScanRequest(where="age % 2 = 0", split_bytes=2_000)),
        (source_of(things, THING), ScanRequest(blobs=Blobs.BYTES, split_bytes=3_000)),
    ]
    plans = [plan_scan(source, request) for source, request in requests]

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for plan in plans:
            assert len(plan.tasks) > 1
            assert pa.concat_tables(pool.map(read_rows, plan.tasks)) == read_plan(plan)


def test_a_task_reads_its_version_whatever_was_published_since(social: GraphBuilder) -> None:
    plan = plan_scan(source_of(og.open(str(social.root))), ScanRequest(split_bytes=1))
    before = read_plan(plan)

    social.merge(PERSON, [{"name": "Alice", "age": 99}, {"name": "Dave", "age": 1}])
    social.delete(PERSON, "name = 'Bob'")
    social.compact(PERSON)
    social.publish()
    social.overwrite(PERSON, [])
    social.publish()

    assert read_plan(pickle.loads(pickle.dumps(plan))) == before
    assert before["name"].to_pylist() == ["Alice", "Bob", "Carol"]


def test_planning_reads_no_rows(social: GraphBuilder) -> None:
    source = source_of(og.open(str(social.root)))
    for file in (social.root / source.entry.path / "data").iterdir():
        file.unlink()

    assert len(plan_scan(source, ScanRequest(split_bytes=1)).tasks) == 3
    assert len(plan_scan(source, ScanRequest(where="age > 1")).tasks) == 1


# -- what the engine wrote -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def golden_graph(tmp_path_factory: pytest.TempPathFactory) -> dict[str, og.Graph]:
    folder = tmp_path_factory.mktemp("golden")
    return {
        case: og.open(str(golden.unpack(case, folder))) for case in ("branches", "schema-evolved")
    }


@pytest.mark.parametrize(
    "branch", ["main", "feature", "feature-sub", "src2", "team/x", "three", "catchup", "edgeonly"]
)
def test_every_row_of_every_branch_is_found_by_its_id(
    golden_graph: dict[str, og.Graph], branch: str
) -> None:
    snapshot = golden_graph["branches"].at(branch=branch)

    for key, rows in golden.by_type(Expected("branches").export(branch)).items():
        for row in rows:
            found = snapshot.arrow(key, where=f"id = '{row['data']['id']}'")
            assert lines(exported_rows(key, found)) == lines([row])
        ids = ", ".join(f"'{row['data']['id']}'" for row in rows)
        assert snapshot.arrow(key, columns=[], where=f"id in ({ids})").num_rows == len(rows)
        assert snapshot.entity(key, "nobody") is None


def test_an_index_that_is_not_where_the_manifest_says_is_left_alone(
    golden_graph: dict[str, og.Graph],
) -> None:
    graph = golden_graph["branches"]

    def uses_index(branch: str, where: str | None) -> set[bool]:
        plan = plan_scan(source_of(graph.at(branch=branch)), ScanRequest(where=where))
        return {task.use_index for task in plan.tasks}

    assert uses_index("src2", "id = 'Alice'") == {False}
    assert uses_index("src2", None) == {True}, "nobody asks where indexes are without a filter"
    assert uses_index("main", "id = 'Alice'") == {True}
    assert uses_index("feature", "id = 'Alice'") == {True}


PERSON_COLUMNS = {
    4: ["id", "age", "city", "name"],
    5: ["id", "age", "city", "name", "nick"],
    7: ["id", "age", "name", "nick", "town"],
    10: ["id", "age", "name", "town"],
}


def test_old_commits_have_the_columns_and_types_they_had(
    golden_graph: dict[str, og.Graph],
) -> None:
    graph = golden_graph["schema-evolved"]

    for version, columns in PERSON_COLUMNS.items():
        people = graph.at(version=version).arrow("Person")
        assert people.column_names == columns
        assert people.num_rows == graph.at(version=version).rows("Person") > 0
    with refused(ColumnNotFoundError, Path(graph.root), "'city'", "known are id, age, name"):
        graph.snapshot().arrow("Person", columns=["city"])
    assert graph.at(version=4).arrow("Person", columns=["city"], where="city is not null").num_rows

    before, after = graph.at(version=6), graph.snapshot()
    assert {"node:Company", "edge:WorksAt", "node:Tag"} <= set(before.entries)
    assert sorted(after.entries) == ["edge:Knows", "edge:Tagged", "node:Label", "node:Person"]
    assert before.arrow("Company").column_names == ["id", "name"]
    assert before.arrow("WorksAt").column_names == ["id", "src", "dst", "title"]
    assert before.arrow("Tag").to_pylist() == after.arrow("Label").to_pylist(), "only the name"


def test_every_commit_reads_each_type_as_it_is_stored_there(
    golden_graph: dict[str, og.Graph],
) -> None:
    graph = golden_graph["schema-evolved"]

    for commit in graph.history():
        snapshot = graph.at(commit=commit.id)
        for key, entry in snapshot.entries.items():
            stored = lance.dataset(f"{graph.root}/{entry.path}", version=entry.dataset_version)
            table = snapshot.arrow(key)
            assert table.column_names == stored.schema.names
            assert table.to_pylist() == stored.to_table().to_pylist()
            assert snapshot.arrow(key, where="id = 'nobody'").num_rows == 0
            plan = plan_scan(source_of(snapshot, key), ScanRequest(split_bytes=1))
            assert read_plan(plan) == table


def test_a_filter_on_a_blob_column_is_refused(tmp_path: Path) -> None:
    # Lance finds none of the engine's null blobs, so any answer would be wrong.
    graph = og.open(str(golden.unpack("rich", tmp_path)), mode="r")
    with pytest.raises(InvalidFilterError, match="'payload' is a Blob column"):
        graph.snapshot().arrow("Doc", where="payload is null")
