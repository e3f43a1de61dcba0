"""Manifest rows reduced to entries: as section 4.2 of the format says, whatever came before."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph_spark.formats import v4
from omnigraph_spark.manifest import Entry, fold
from omnigraph_spark.names import TypeKey
from tests.helpers.builder import MANIFEST_SCHEMA
from tests.helpers.golden import Expected, intact_cases

Row = dict[str, Any]

PATHS = {
    "node:Person": "nodes/40d76f1f51639ec0",
    "node:Company": "nodes/7cb4e55c59663b1c",
    "edge:Knows": "edges/602a25a3bd0b455b",
    "edge:WorksAt": "edges/844eefbe5068b644",
}


def folded(rows: Iterable[Mapping[str, Any]]) -> dict[str, Entry]:
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=MANIFEST_SCHEMA)
    return fold(v4.split_rows(table), v4)


# -- rows as writers write them ----------------------------------------------------------------


def table_row(key: str) -> Row:
    return {
        "object_id": key,
        "object_type": "table",
        "location": PATHS[key],
        "table_key": key,
    }


def version_row(
    key: str, version: int, branch: str | None = None, rows: int = 0, tag: str | None = None
) -> Row:
    metadata = {
        "manifest_path": f"g/{PATHS.get(key)}/_versions/{version}.manifest",
        "manifest_size": 406,
        "e_tag": tag,
        "naming_scheme": "V2",
    }
    return {
        "object_id": f"{key}${version:020d}",
        "object_type": "table_version",
        "metadata": json.dumps(metadata),
        "table_key": key,
        "table_version": version,
        "table_branch": branch,
        "row_count": rows,
    }


def tombstone_row(key: str, version: int) -> Row:
    return {
        "object_id": f"{key}$tombstone${version:020d}",
        "object_type": "table_tombstone",
        "table_key": key,
        "table_version": version,
    }


def commit_row(number: int) -> Row:
    return {
        "object_id": f"{number:026d}",
        "object_type": "graph_commit",
        "metadata": '{"created_at":1}',
        "table_key": "",
        "table_version": number,
    }


def head_row(branch: str) -> Row:
    return {
        "object_id": f"graph_head:{branch}",
        "object_type": "graph_head",
        "metadata": '{"head_commit_id":"x"}',
        "table_key": "",
    }


def unknown_row(key: str, version: int) -> Row:
    """A kind of row from the future; nothing in it may count."""
    row = version_row(key, version, rows=999)
    return {**row, "object_id": f"{key}$future${version}", "object_type": "table_alias"}


# -- random histories --------------------------------------------------------------------------

KEYS = st.sampled_from(sorted(PATHS))
VERSIONS = st.integers(1, 9) | st.integers(1, (1 << 64) - 1)
BRANCHES = st.sampled_from([None, "main", "dev", "team/x"])
TAGS = st.none() | st.text("0123456789abcdef-", max_size=5)

#: What one publish may do to one type; a repeated pair of type and version is the handoff, in which
#: the newer row takes the place of the older one.
STEP = st.one_of(
    st.builds(table_row, KEYS),
    st.builds(version_row, KEYS, VERSIONS, BRANCHES, st.integers(0, 1 << 40), TAGS),
    st.builds(tombstone_row, KEYS, VERSIONS),
    st.builds(unknown_row, KEYS, VERSIONS),
    st.builds(commit_row, st.integers(1, 50)),
    st.builds(head_row, st.sampled_from(["main", "dev"])),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    """The rows a manifest holds after some publishes, in any physical order."""
    stored: dict[str, Row] = {}
    for step in draw(st.lists(STEP, max_size=25)):
        if step["object_type"] == "table_version":
            stored.setdefault(step["table_key"], table_row(step["table_key"]))
        stored[step["object_id"]] = step
    rows = list(stored.values())
    draw(st.randoms(use_true_random=False)).shuffle(rows)
    return rows


def reference(rows: Iterable[Row]) -> list[tuple[str, str, int, str | None, int, str | None]]:
    """Section 4.2, step by step: (key, path, version, branch, rows, tag) sorted by key."""
    rows = list(rows)
    locations = {r["table_key"]: r["location"] for r in rows if r["object_type"] == "table"}
    result = []
    for key in sorted(locations):
        versions = [
            r for r in rows if r["object_type"] == "table_version" and r["table_key"] == key
        ]
        if not versions:
            continue
        kept = max(versions, key=lambda r: int(r["table_version"]))
        buried = [
            r["table_version"]
            for r in rows
            if r["object_type"] == "table_tombstone" and r["table_key"] == key
        ]
        if buried and max(buried) >= kept["table_version"]:
            continue
        # 4.3: null and `main` are the same line of the dataset.
        branch = None if kept["table_branch"] in (None, "main") else kept["table_branch"]
        tag = json.loads(kept["metadata"])["e_tag"]
        result.append((key, locations[key], kept["table_version"], branch, kept["row_count"], tag))
    return result


def facts(entries: Mapping[str, Entry]) -> list[tuple[str, str, int, str | None, int, str | None]]:
    return [
        (key, entry.path, entry.dataset_version, entry.dataset_branch, entry.rows, entry.tag)
        for key, entry in entries.items()
    ]


@settings(max_examples=300, deadline=None)
@given(histories())
def test_any_history_folds_to_what_the_format_says(rows: list[Row]) -> None:
    entries = folded(rows)
    assert facts(entries) == reference(rows)
    assert all(str(entry.type_key) == key for key, entry in entries.items())


@settings(max_examples=50, deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[Row], order: random.Random) -> None:
    shuffled = order.sample(rows, len(rows))
    assert facts(folded(shuffled)) == facts(folded(rows))


@settings(max_examples=50, deadline=None)
@given(histories(), st.lists(st.builds(unknown_row, KEYS, VERSIONS), max_size=3))
def test_rows_of_unknown_kinds_are_skipped(rows: list[Row], unknown: list[Row]) -> None:
    assert facts(folded([*unknown, *rows])) == facts(folded(rows))


# -- the rules one by one ----------------------------------------------------------------------

PERSON = "node:Person"


def test_an_empty_manifest_has_no_entries() -> None:
    assert folded([]) == {}


def test_a_registered_type_without_a_version_is_no_entry() -> None:
    assert folded([table_row(PERSON)]) == {}


def test_an_entry_holds_what_its_row_says() -> None:
    rows = [table_row(PERSON), version_row(PERSON, 5, "dev", rows=7, tag="a-b-c")]
    assert folded(rows) == {
        PERSON: Entry(TypeKey.parse(PERSON), PATHS[PERSON], "dev", 5, 7, "a-b-c")
    }


def test_the_greatest_version_counts_and_not_the_last_published() -> None:
    rows = [table_row(PERSON), version_row(PERSON, 5), version_row(PERSON, 4)]
    assert folded(rows)[PERSON].dataset_version == 5


def test_the_branch_of_the_dataset_plays_no_part_in_the_choice() -> None:
    rows = [table_row(PERSON), version_row(PERSON, 6, "dev"), version_row(PERSON, 7, None)]
    assert folded(rows)[PERSON].dataset_branch is None
    rows = [table_row(PERSON), version_row(PERSON, 8, "dev"), version_row(PERSON, 7, None)]
    assert folded(rows)[PERSON].dataset_branch == "dev"


@pytest.mark.parametrize(("tombstone", "left"), [(4, [5]), (5, []), (6, []), ((1 << 64) - 1, [])])
def test_a_tombstone_buries_what_is_not_above_it_without_falling_back(
    tombstone: int, left: list[int]
) -> None:
    rows = [
        table_row(PERSON),
        version_row(PERSON, 3),
        version_row(PERSON, 5),
        tombstone_row(PERSON, tombstone),
    ]
    assert [entry.dataset_version for entry in folded(rows).values()] == left


def test_a_type_published_again_above_its_tombstone_is_back() -> None:
    rows = [table_row(PERSON), version_row(PERSON, 5), tombstone_row(PERSON, 6)]
    assert folded(rows) == {}
    assert folded([*rows, version_row(PERSON, 7)])[PERSON].dataset_version == 7


def test_a_tombstone_of_one_type_leaves_the_others() -> None:
    rows = [table_row(key) for key in PATHS] + [version_row(key, 5) for key in PATHS]
    rows.append(tombstone_row("node:Company", 9))
    assert list(folded(rows)) == ["edge:Knows", "edge:WorksAt", "node:Person"]


def test_a_tombstone_of_a_type_nobody_registered_is_nothing() -> None:
    assert folded([tombstone_row(PERSON, 9)]) == {}


# -- damaged rows ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"location": None}, r"row 'node:Person' of __manifest has no location"),
        ({"location": ""}, "outside of the graph"),
        ({"location": "/etc"}, r"outside of the graph, at '/etc'"),
        ({"location": "../other/nodes/x"}, "outside of the graph"),
        ({"location": "nodes/../../x"}, "outside of the graph"),
        ({"location": "nodes//x"}, "outside of the graph"),
        ({"location": "nodes/./x"}, "outside of the graph"),
        ({"location": "nodes/x/"}, "outside of the graph"),
        ({"location": "s3://other/x"}, "outside of the graph"),
    ],
)
def test_a_location_that_is_missing_or_leaves_the_graph_is_refused(changed: Row, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        folded([{**table_row(PERSON), **changed}, version_row(PERSON, 1)])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"metadata": None}, "has no metadata"),
        ({"table_version": None}, "has no table_version"),
        ({"row_count": None}, "has no row_count"),
        ({"metadata": ""}, "the metadata of node:Person is not a JSON object"),
        ({"metadata": "{"}, "the metadata of node:Person is not a JSON object"),
        ({"metadata": "[1]"}, "the metadata of node:Person is not a JSON object"),
        ({"metadata": "null"}, "the metadata of node:Person is not a JSON object"),
        ({"metadata": '{"e_tag": ["x"]}'}, "the e_tag of node:Person is not text"),
        ({"metadata": '{"e_tag": 7}'}, "the e_tag of node:Person is not text"),
        ({"table_branch": "../../x"}, r"places node:Person on dataset branch '\.\./\.\./x'"),
        ({"table_branch": "/etc"}, "places node:Person on dataset branch '/etc'"),
        ({"table_branch": ""}, "places node:Person on dataset branch ''"),
        ({"table_branch": "a\\b"}, "places node:Person on dataset branch"),
    ],
)
def test_a_version_row_that_cannot_be_is_refused_with_what_is_wrong(
    changed: Row, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        folded([table_row(PERSON), {**version_row(PERSON, 1), **changed}])


def test_a_version_of_a_type_without_a_table_row_is_refused() -> None:
    with pytest.raises(ValueError, match="missing the table row for node:Person"):
        folded([table_row("edge:Knows"), version_row(PERSON, 1)])


def test_a_version_without_a_table_row_is_refused_also_when_it_is_buried() -> None:
    with pytest.raises(ValueError, match="missing the table row for node:Person"):
        folded([version_row(PERSON, 1), tombstone_row(PERSON, 2)])


def test_a_tombstone_without_a_version_is_refused() -> None:
    with pytest.raises(ValueError, match="has no table_version"):
        folded([{**tombstone_row(PERSON, 1), "table_version": None}])


@pytest.mark.parametrize("column", ["metadata", "table_version"])
def test_a_commit_row_without_its_facts_is_refused(column: str) -> None:
    with pytest.raises(ValueError, match=f"has no {column}"):
        folded([{**commit_row(1), column: None}])


@pytest.mark.parametrize(
    "key", ["", "Person", "table:Person", "node:", "node:../x", "node:pers on"]
)
def test_a_table_key_that_names_no_type_is_refused(key: str) -> None:
    rows = [table_row(PERSON), version_row(PERSON, 1)]
    with pytest.raises(ValueError, match=f"holds a table named '{key}'"):
        folded([{**row, "table_key": key} for row in rows])


def test_a_broken_type_that_was_dropped_does_not_stop_the_others() -> None:
    odd = {"table_key": "view:Odd"}
    rows = [
        {**table_row(PERSON), **odd},
        {**version_row(PERSON, 1), **odd},
        {**tombstone_row(PERSON, 1), **odd},
        table_row("edge:Knows"),
        version_row("edge:Knows", 1),
    ]
    assert list(folded(rows)) == ["edge:Knows"]


@pytest.mark.parametrize("name", [f.name for f in MANIFEST_SCHEMA if f.name != "base_objects"])
def test_a_manifest_without_a_column_is_refused_by_its_name(name: str) -> None:
    table = MANIFEST_SCHEMA.empty_table().drop_columns([name])
    with pytest.raises(ValueError, match=f"has no column '{name}'"):
        v4.split_rows(table)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("object_id", pa.large_string()),
        ("location", pa.binary()),
        ("table_branch", pa.large_string()),
        ("table_version", pa.string()),
        ("table_version", pa.int64()),
        ("row_count", pa.float64()),
    ],
)
def test_a_column_of_another_type_is_refused_as_the_engine_does(
    name: str, other: pa.DataType
) -> None:
    place = MANIFEST_SCHEMA.get_field_index(name)
    schema = MANIFEST_SCHEMA.set(place, pa.field(name, other))
    with pytest.raises(ValueError, match=f"column '{name}' of __manifest is {other}, not"):
        v4.split_rows(schema.empty_table())


# -- real manifests ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", intact_cases())
def test_the_manifests_the_engine_wrote_fold_to_the_snapshots_it_reports(case: str) -> None:
    expected = Expected(case)
    for branch in expected.branches():
        rows = [
            {name: row.get(name) for name in MANIFEST_SCHEMA.names}
            for row in expected.manifest(branch)["rows"]
        ]
        reported = [
            (
                table["table_key"],
                table["table_path"],
                table["table_version"],
                table["table_branch"],
                table["row_count"],
            )
            for table in expected.snapshot(branch)["tables"]
        ]
        assert [entry[:5] for entry in facts(folded(rows))] == sorted(reported)
