"""What is to be done about an index, from what a dataset says of itself alone."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from omnigraph_spark.maintenance.compacting import rows_per_fragment
from omnigraph_spark.maintenance.indexing import IndexAction, IndexFacts, IndexPlan, plan_indexes
from omnigraph_spark.schema.indexes import DeclaredIndex, IndexKind
from omnigraph_spark.storage.parts import Fragment, Index
from omnigraph_spark.writing.stage import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE

AGE = DeclaredIndex("age", IndexKind.BTREE)
BIO = DeclaredIndex("bio", IndexKind.TEXT)
VECTOR = DeclaredIndex("vector", IndexKind.VECTOR)


def segment(wanted: DeclaredIndex, *fragments: int, uuid: str = "s1", folder: str = "d") -> Index:
    return Index(
        name=f"{wanted.column}_idx",
        columns=(wanted.column,),
        kind=str(wanted.kind),
        fragment_ids=frozenset(fragments),
        folder=f"{folder}/_indices/{uuid}",
        uuid=uuid,
    )


def facts(
    *segments: Index, doubtful: Collection[str] = (), rewritten: bool = False, own: bool = True
) -> IndexFacts:
    fragments = tuple(Fragment(number, 10, 0, 100, 1) for number in (0, 1, 2))
    built_here = frozenset(segment.uuid for segment in segments) if own else frozenset[str]()
    return IndexFacts(fragments, segments, frozenset(doubtful), rewritten, "d", built_here)


def plan(wanted: DeclaredIndex, known: IndexFacts) -> IndexPlan | None:
    return next(plan_indexes([wanted], known), None)


def test_a_missing_index_is_built_over_everything() -> None:
    assert plan(AGE, facts()) == IndexPlan(AGE, IndexAction.BUILT, "age_idx", (0, 1, 2))


def test_an_index_that_covers_everything_is_left() -> None:
    assert plan(AGE, facts(segment(AGE, 0, 1, 2), rewritten=True)) is None


def test_a_type_without_fragments_has_nothing_to_index() -> None:
    assert plan(AGE, IndexFacts((), (), frozenset(), False, "d")) is None


@pytest.mark.parametrize(
    ("wanted", "rewritten", "action"),
    [
        (AGE, False, IndexAction.EXTENDED),
        (AGE, True, IndexAction.EXTENDED),
        (BIO, False, IndexAction.EXTENDED),
        (BIO, True, IndexAction.REBUILT),
        (VECTOR, False, IndexAction.REBUILT),
    ],
)
def test_an_index_that_is_behind_is_carried_on_where_lance_does_so_right(
    wanted: DeclaredIndex, rewritten: bool, action: IndexAction
) -> None:
    found = plan(wanted, facts(segment(wanted, 0, 1), rewritten=rewritten))
    assert found is not None
    assert found.action is action
    assert found.replaced == ("s1",)
    carried = action is IndexAction.EXTENDED
    assert found.carried_on == ("s1" if carried else None)
    assert found.fragment_ids == ((2,) if carried else (0, 1, 2))


def test_a_doubtful_index_and_one_of_several_segments_are_built_anew() -> None:
    doubtful = facts(segment(AGE, 0, 1, 2), doubtful={"s1"})
    several = facts(segment(AGE, 0, 1), segment(AGE, 2, uuid="s2"))
    for known, replaced in ((doubtful, ("s1",)), (several, ("s1", "s2"))):
        found = plan(AGE, known)
        assert found is not None
        assert (found.action, found.replaced) == (IndexAction.REBUILT, replaced)
        assert found.carried_on is None


def test_an_index_in_the_folder_of_a_parent_branch_is_built_anew() -> None:
    found = plan(AGE, facts(segment(AGE, 0, 1, folder="elsewhere")))
    assert found is not None
    assert found.action is IndexAction.REBUILT


def test_an_index_of_another_kind_keeps_its_name() -> None:
    other = Index("age_idx", ("age",), "Bitmap", frozenset({0, 1, 2}), "d/_indices/s1", "s1")
    found = plan(AGE, facts(other))
    assert found is not None
    assert (found.action, found.name, found.replaced) == (IndexAction.BUILT, "age_btree_idx", ())


@pytest.mark.parametrize("row_bytes", [1, 100, 1 << 20])
def test_files_as_large_as_a_writer_makes_them_are_large_enough(row_bytes: int) -> None:
    rows = min(MAX_ROWS_PER_FILE, MAX_BYTES_PER_FILE // row_bytes)
    written = Fragment(0, rows, 0, rows * row_bytes, 1)
    assert 0 < rows_per_fragment([written, written]) <= rows


@pytest.mark.parametrize(
    ("wanted", "action"), [(AGE, IndexAction.EXTENDED), (BIO, IndexAction.REBUILT)]
)
def test_texts_are_not_added_to_an_index_that_another_lance_wrote(
    wanted: DeclaredIndex, action: IndexAction
) -> None:
    found = plan(wanted, facts(segment(wanted, 0, 1), own=False))
    assert found is not None
    assert found.action is action
