"""Ids that a process has read once: look-ups read fewer fragments, and never miss a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph_spark as og
from omnigraph_spark.errors import ConstraintViolationError, KeyConflictError
from omnigraph_spark.storage import fresh_rows, known_ids
from omnigraph_spark.storage.datasets import PinnedDataset
from tests.engine.writing import ages, edges, people


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    known_ids._forget()
    yield
    known_ids._forget()


def refused(graph: og.Graph, name: str, branch: str = "main") -> bool:
    try:
        graph.write(people(**{name: 1}), "Person", branch=branch)
    except KeyConflictError:
        return True
    return False


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Types without rules that would have other columns read as well."""
    return og.create(
        tmp_path / "graph",
        "node Person { name: String @key  age: I32? }\nnode City { name: String @key }\n"
        "edge Knows: Person -> Person",
    )


@pytest.fixture
def many(graph: og.Graph) -> og.Graph:
    for number in range(6):
        graph.write(people(**{f"p{number}": number}), "Person")
    return graph


def test_an_id_of_any_commit_exists_already(many: og.Graph) -> None:
    for _ in range(2):
        assert all(refused(many, f"p{number}") for number in range(6))
        known_ids._forget()
    assert not refused(many, "new")
    assert refused(many, "new")


def test_a_fragment_is_read_once_and_again_only_where_it_may_hold_an_id(
    many: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[int]] = []
    batches = PinnedDataset.batches

    def counted(dataset: PinnedDataset, fragments: list[int], *columns: Any, **scan: Any) -> Any:
        read.append(sorted(fragments))
        return batches(dataset, fragments, *columns, **scan)

    many.write(people(q0=0), "Person")
    monkeypatch.setattr(PinnedDataset, "batches", counted)
    many.write(people(q1=1), "Person")
    # What this process wrote itself it does not even read once.
    assert read == []
    assert refused(many, "p3")
    assert read == [[3]]
    read.clear()
    known_ids._forget()
    fresh_rows._kept.clear()
    many.write(people(q2=2), "Person")
    many.write(people(q3=3), "Person")
    # The staged rows, which are looked at for duplicates, are of the first one only.
    assert read == [[*range(8)]]


def test_fragments_that_were_looked_at_are_not_listed_again(
    many: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[list[int] | None] = []
    names = PinnedDataset.file_names

    def counted(dataset: PinnedDataset, few: list[int] | None = None) -> Any:
        listed.append(few)
        return names(dataset, few)

    monkeypatch.setattr(PinnedDataset, "file_names", counted)
    many.write(people(q0=0), "Person")
    many.write(people(q1=1), "Person")
    assert refused(many, "p3")
    assert refused(many, "q1")
    # The fixture had all but the last looked at; the commit before a write is what is new to it.
    assert listed == [[5], [6], [7], []]
    many.delete("Person", ids=["p2"])
    assert not refused(many, "p2")
    assert refused(many, "p3")
    assert refused(many, "p2")
    assert None in listed


def test_a_row_deleted_elsewhere_is_still_found_where_it_is(graph: og.Graph) -> None:
    graph.write(people(Dan=1, Eve=2), "Person")
    graph.create_branch("dev")
    graph.delete("Person", ids=["Dan"])
    # Reads what is left of the fragment on main.
    assert refused(graph, "Eve")
    assert refused(graph, "Dan", branch="dev")
    assert not refused(graph, "Dan")


def test_a_deleted_id_is_free_again(many: og.Graph) -> None:
    assert refused(many, "p3")
    many.delete("Person", ids=["p3"])
    assert not refused(many, "p3")
    assert refused(many, "p3")


def test_ids_that_share_a_hash_are_told_apart(
    many: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same(ids: Iterable[object]) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([7 for _ in ids], np.int64)

    known_ids._forget()
    monkeypatch.setattr(known_ids, "_hashes", same)
    assert not refused(many, "new")
    assert refused(many, "p0")
    assert refused(many, "new")


def test_what_is_not_kept_is_read_again(many: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ids, "_IDS_KEPT", 2)
    assert not refused(many, "new")
    assert all(refused(many, name) for name in ("p0", "p5", "new"))


def test_overwritten_rows_are_gone(many: og.Graph) -> None:
    assert refused(many, "p0")
    many.write(people(c=3), "Person", mode="overwrite")
    assert not refused(many, "p0")
    assert ages(many) == {"c": 3, "p0": 1}


def test_ends_of_edges_are_found_in_any_fragment(many: og.Graph) -> None:
    many.write(edges(k9="p0-p5"), "Knows")
    with pytest.raises(ConstraintViolationError, match="nobody"):
        many.write(edges(k8="p0-nobody"), "Knows")


def test_what_other_types_take_up_is_given_back(
    many: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_ids, "_IDS_KEPT", 8)
    for number in range(4):
        many.write(edges(**{f"k{number}": "p0-p5"}), "Knows")
        assert refused(many, "p1")
        many.write(pa.table({"name": [f"{n}-{number}" for n in "abcd"]}), "City")
        assert sum(each.size for each in known_ids._known.values()) <= 16
