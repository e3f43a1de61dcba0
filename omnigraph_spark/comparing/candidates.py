"""Which rows of two versions can differ at all, from the names of their files. Pure decisions.

A row that lies in the same data file and is alive on both sides is the same row with the same
values. What is left: fragments that only one side has, and in shared ones the rows that only one
side deleted. This holds for any two versions, of any branches, whose columns have the same field
ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.storage.branches import read_branch
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.parts import FragmentContent


@dataclass(frozen=True)
class Candidates:
    """Where rows of one side lie that the other side may not have, or not like this."""

    #: Fragments that the other side does not have.
    whole: tuple[int, ...] = ()
    #: Fragments that both have with other rows deleted: (here, there).
    partly: tuple[tuple[int, int], ...] = ()
    #: About how many rows these are.
    rows: int = 0

    def __bool__(self) -> bool:
        return bool(self.whole or self.partly)


@dataclass(frozen=True)
class Overlap:
    """What may differ between two versions of one type."""

    before: Candidates
    after: Candidates
    #: The last version of the dataset that both sides have in their past, where one side is the
    #: past of the other: rows of one id that were last written at or before it are the same.
    shared_version: int | None = None


def overlap_of(before: ScanSource | None, after: ScanSource | None) -> Overlap:
    """Compare two versions by their metadata; None has no rows."""
    if before is None or after is None:
        return Overlap(_rows_of(before), _rows_of(after))
    if is_same_version(before, after):
        return Overlap(Candidates(), Candidates())
    old, new = before.open(), after.open()
    if old.field_ids() != new.field_ids() or old.schema != new.schema:
        return Overlap(_rows_of(before), _rows_of(after))
    ours, theirs = pair_fragments(old.contents(), new.contents())
    if not (ours.whole and theirs.whole and old.has_stable_row_ids and new.has_stable_row_ids):
        return Overlap(ours, theirs)
    if _share_files(old.contents(), new.contents(), ours, theirs):
        return Overlap(ours, theirs)
    return Overlap(ours, theirs, _shared_version(before, after))


def is_same_version(before: ScanSource, after: ScanSource) -> bool:
    """Tell whether two sides are the same version of the same dataset."""
    return (before.address, before.entry.dataset_version, before.entry.tag) == (
        after.address,
        after.entry.dataset_version,
        after.entry.tag,
    )


def pair_fragments(
    before: Sequence[FragmentContent], after: Sequence[FragmentContent]
) -> tuple[Candidates, Candidates]:
    """Return what only one side has, or has with other rows deleted."""
    return _only_in(before, after), _only_in(after, before)


def _only_in(own: Sequence[FragmentContent], other: Sequence[FragmentContent]) -> Candidates:
    there = {fragment.files: fragment for fragment in other}
    whole, partly, rows = [], [], 0
    for fragment in own:
        same = there.get(fragment.files)
        if same is None:
            whole.append(fragment.id)
            rows += fragment.rows
        # Without deletions on the other side there is no row that only this one has.
        elif same.deletions is not None and same.deletions != fragment.deletions:
            partly.append((fragment.id, same.id))
            rows += max(0, fragment.rows - same.rows)
    return Candidates(tuple(whole), tuple(partly), rows)


def _rows_of(source: ScanSource | None) -> Candidates:
    fragments = [] if source is None else source.open().contents()
    rows = sum(fragment.rows for fragment in fragments)
    return Candidates(tuple(fragment.id for fragment in fragments), (), rows)


def _share_files(
    before: Sequence[FragmentContent],
    after: Sequence[FragmentContent],
    ours: Candidates,
    theirs: Candidates,
) -> bool:
    """Tell whether fragments of both sides have some files in common, but not all.

    Then columns were rewritten in place, and nothing says that rows were stamped.
    """

    def names(fragments: Sequence[FragmentContent], ids: Sequence[int]) -> set[str]:
        chosen = frozenset(ids)
        return {name for each in fragments if each.id in chosen for name, _ in each.files}

    return not names(before, ours.whole).isdisjoint(names(after, theirs.whole))


def _shared_version(before: ScanSource, after: ScanSource) -> int | None:
    """Return the version of the side that is in the other's past, None when neither is."""
    if before.address.base != after.address.base:
        return None
    for earlier, later in ((before, after), (after, before)):
        version = earlier.entry.dataset_version
        if version <= _reaches(later, earlier.entry.dataset_branch):
            return version
    return None


def _reaches(source: ScanSource, branch: str | None) -> int:
    """Return the last version of a branch in the past of a side, -1 when it has none."""
    at, version = source.entry.dataset_branch, source.entry.dataset_version
    while at != branch:
        main = DatasetAddress(source.root, source.entry.path)
        file = None if at is None else read_branch(main, at, source.settings)
        if file is None:
            return -1
        at, version = file.parent, file.parent_version
    return version
