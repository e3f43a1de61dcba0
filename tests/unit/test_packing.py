"""The plan of tasks: every live row in exactly one of them, and none much larger than wished."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph_spark.packing import Piece, pack_fragments
from omnigraph_spark.storage.parts import Fragment

MIB = 1 << 20
WISHED = 128 * MIB


def fragment(id_: int, rows: int, size_bytes: int) -> Fragment:
    return Fragment(id=id_, rows=rows, deleted_rows=0, size_bytes=size_bytes, files=1)


def equal_fragments(count: int, rows: int, size_bytes: int) -> list[Fragment]:
    return [fragment(id_, rows, size_bytes) for id_ in range(count)]


def pack(
    fragments: Sequence[Fragment],
    share: float = 1.0,
    split_bytes: int = WISHED,
    may_split: bool = True,
) -> list[Piece]:
    return pack_fragments(fragments, share, split_bytes, may_split)


def rows_read(pieces: Sequence[Piece], fragments: Sequence[Fragment]) -> list[tuple[int, int]]:
    """Every (fragment, row) that the pieces read, in their order, one entry per reading."""
    rows = {fragment.id: fragment.rows for fragment in fragments}
    read: list[tuple[int, int]] = []
    for piece in pieces:
        if piece.row_range is not None:
            (id_,) = piece.fragment_ids
            start, count = piece.row_range
            read += [(id_, row) for row in range(start, start + count)]
        else:
            read += [(id_, row) for id_ in piece.fragment_ids for row in range(rows[id_])]
    return read


def live_rows(fragments: Sequence[Fragment]) -> list[tuple[int, int]]:
    return [(fragment.id, row) for fragment in fragments for row in range(fragment.rows)]


@st.composite
def fragment_lists(draw: st.DrawFn) -> list[Fragment]:
    ids = draw(st.lists(st.integers(0, 10_000), unique=True, max_size=12))
    sizes = st.integers(0, 5) | st.integers(0, 600 * MIB)
    return [fragment(id_, draw(st.integers(0, 40)), draw(sizes)) for id_ in ids]


SPLITS = st.integers(1, 8) | st.integers(MIB, 256 * MIB)
SHARES = st.floats(0.0, 1.0)


@given(fragment_lists(), SHARES, SPLITS, st.booleans())
def test_every_live_row_is_read_exactly_once_and_in_order(
    fragments: list[Fragment], share: float, split_bytes: int, may_split: bool
) -> None:
    pieces = pack_fragments(fragments, share, split_bytes, may_split)
    assert rows_read(pieces, fragments) == live_rows(fragments)


@given(fragment_lists(), SHARES, SPLITS, st.booleans())
def test_there_is_always_a_task_and_an_empty_one_only_for_a_type_without_rows(
    fragments: list[Fragment], share: float, split_bytes: int, may_split: bool
) -> None:
    pieces = pack_fragments(fragments, share, split_bytes, may_split)
    if any(fragment.rows for fragment in fragments):
        assert all(piece.fragment_ids for piece in pieces)
        assert all(piece.row_range is None or piece.row_range[1] > 0 for piece in pieces)
    else:
        assert pieces == [Piece(())]


@given(fragment_lists(), SHARES, SPLITS)
def test_a_filter_prevents_splitting(
    fragments: list[Fragment], share: float, split_bytes: int
) -> None:
    pieces = pack_fragments(fragments, share, split_bytes, may_split=False)
    assert all(piece.row_range is None for piece in pieces)


@given(fragment_lists(), SPLITS)
def test_fragments_read_together_fit_the_wished_size(
    fragments: list[Fragment], split_bytes: int
) -> None:
    sizes = {fragment.id: fragment.size_bytes for fragment in fragments}
    for piece in pack(fragments, split_bytes=split_bytes):
        if len(piece.fragment_ids) > 1:
            assert sum(sizes[id_] for id_ in piece.fragment_ids) <= split_bytes


@given(fragment_lists(), SPLITS)
def test_a_part_of_a_fragment_is_at_most_one_row_larger_than_wished(
    fragments: list[Fragment], split_bytes: int
) -> None:
    by_id = {fragment.id: fragment for fragment in fragments}
    for piece in pack(fragments, split_bytes=split_bytes):
        if piece.row_range is not None:
            whole = by_id[piece.fragment_ids[0]]
            row_bytes = whole.size_bytes / whole.rows
            assert piece.row_range[1] * row_bytes <= split_bytes + row_bytes


@given(st.lists(st.integers(1, 64 * MIB), min_size=2, max_size=60), st.integers(1, 9))
def test_small_fragments_make_hardly_more_tasks_than_equal_shares(
    sizes: list[int], cores: int
) -> None:
    fragments = [fragment(id_, 10, size) for id_, size in enumerate(sizes)]
    pieces = pack_fragments(fragments, 1.0, WISHED, may_split=False, spread_over=cores)
    rounds = -(-sum(sizes) // (WISHED * cores))
    # A share whose fragments reach beyond it may be too large for one task.
    assert len(pieces) <= 2 * rounds * cores


@given(st.lists(st.integers(1, 64 * MIB), min_size=2, max_size=60))
@example([7300 << 10, 400 << 10, 3400 << 10])
def test_neighbours_that_would_fit_one_task_are_not_two(sizes: list[int]) -> None:
    fragments = [fragment(id_, 10, size) for id_, size in enumerate(sizes)]
    pieces = pack(fragments, split_bytes=WISHED, may_split=False)
    # An equal share of all, as many for each of eight cores, or the least when there is little.
    rounds = -(-sum(sizes) // (8 * WISHED))
    target = min(WISHED, max(4 * MIB, sum(sizes) / (8 * rounds)))
    for one, next_ in pairwise(pieces):
        first_of_next = sizes[next_.fragment_ids[0]]
        assert sum(sizes[id_] for id_ in one.fragment_ids) + first_of_next > target


def test_every_core_has_as_many_tasks_of_about_one_size() -> None:
    fragments = equal_fragments(10, 1000, 86 * MIB)
    pieces = pack_fragments(fragments, 1.0, None, may_split=True, spread_over=2)
    assert [len(piece.fragment_ids) for piece in pieces] == [3, 2, 3, 2]


def test_many_small_fragments_become_few_tasks() -> None:
    pieces = pack(equal_fragments(4096, 100, MIB))
    assert len(pieces) == 32
    assert {len(piece.fragment_ids) for piece in pieces} == {128}


def test_one_large_fragment_becomes_many_tasks_of_equal_ranges() -> None:
    pieces = pack([fragment(7, 1000, 1024 * MIB)])
    assert pieces == [Piece((7,), (start, 125)) for start in range(0, 1000, 125)]


def test_a_fragment_of_the_wished_size_is_one_task() -> None:
    pieces = pack(equal_fragments(20, 1000, 128 * MIB))
    assert pieces == [Piece((id_,)) for id_ in range(20)]


def test_a_large_fragment_keeps_its_place_between_small_ones() -> None:
    small = 16 * MIB
    pieces = pack([fragment(0, 1, small), fragment(1, 10, 1000 * MIB), fragment(2, 1, small)])
    assert pieces[0] == Piece((0,))
    assert {piece.fragment_ids for piece in pieces[1:-1]} == {(1,)}
    assert pieces[-1] == Piece((2,))


def test_fewer_columns_need_fewer_tasks() -> None:
    fragments = equal_fragments(64, 1000, 128 * MIB)
    assert len(pack(fragments)) == 64
    assert len(pack(fragments, share=0.25)) == 16


def test_a_fragment_is_not_split_into_more_tasks_than_it_has_rows() -> None:
    pieces = pack([fragment(0, 3, 1280 * MIB)])
    assert pieces == [Piece((0,), (0, 1)), Piece((0,), (1, 1)), Piece((0,), (2, 1))]


def test_a_fragment_with_one_enormous_row_is_read_whole() -> None:
    assert rows_read(pack([fragment(0, 1, 1280 * MIB)]), [fragment(0, 1, 0)]) == [(0, 0)]


@pytest.mark.parametrize("size_mib", [64, 256, 900])
def test_a_scan_below_the_wished_size_is_still_spread_over_about_eight_tasks(size_mib: int) -> None:
    assert len(pack([fragment(0, 10_000, size_mib * MIB)])) == 8
    assert 8 <= len(pack(equal_fragments(64, 100, size_mib * MIB // 64))) <= 9


def test_a_tiny_scan_is_not_cut_at_all() -> None:
    assert pack([fragment(0, 10_000, 4 * MIB)]) == [Piece((0,))]
    assert pack(equal_fragments(10, 10, 1000)) == [Piece(tuple(range(10)))]


@pytest.mark.parametrize("fragments", [[], [fragment(0, 0, 0)], [fragment(3, 0, 500 * MIB)] * 2])
def test_a_type_without_live_rows_is_one_task_that_reads_no_fragment(
    fragments: list[Fragment],
) -> None:
    assert pack(fragments) == [Piece(())]


def test_fragments_whose_rows_are_all_deleted_are_left_out() -> None:
    fragments = [fragment(0, 5, MIB), fragment(1, 0, MIB), fragment(2, 5, MIB)]
    assert pack(fragments) == [Piece((0, 2))]


def test_fragments_of_unknown_size_are_read_together() -> None:
    assert pack(equal_fragments(1000, 10, 0)) == [Piece(tuple(range(1000)))]


@pytest.mark.parametrize("may_split", [False, True])
def test_fragments_of_about_one_size_make_as_many_tasks_as_there_are_cores(may_split: bool) -> None:
    fragments = [fragment(n, 40, 90 * MIB + (n % 3) * MIB) for n in range(10)]
    for cores in (1, 2, 5, 10):
        pieces = pack_fragments(fragments, 0.1, WISHED, may_split, spread_over=cores)
        assert len(pieces) == cores
        assert all(piece.row_range is None for piece in pieces)
