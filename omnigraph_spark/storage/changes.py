"""What one commit does to a dataset, as plain values that cross processes; and as Lance says it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph_spark.errors import StorageError
from omnigraph_spark.storage.compacting import rewrite_groups, rewritten_files
from omnigraph_spark.storage.indexing import segments_of, unpack
from omnigraph_spark.storage.staging import StagedFile, as_fragments, staged_file
from omnigraph_spark.storage.uncommitted import field_ids_of

if TYPE_CHECKING:
    from lance import FragmentMetadata, LanceDataset, LanceOperation


@dataclass(frozen=True)
class AppendChange:
    """Add the rows of staged files."""

    files: tuple[StagedFile, ...]


@dataclass(frozen=True)
class OverwriteChange:
    """Replace all rows, and the schema; no files leave an empty dataset.

    The files are staged `as_given`, with this schema.
    """

    schema: pa.Schema
    files: tuple[StagedFile, ...]


@dataclass(frozen=True)
class UpdateChange:
    """Replace rows: those marked deleted in old fragments come again in new files."""

    removed_fragment_ids: tuple[int, ...]
    #: The JSON of Lance's `FragmentMetadata`, with new deletion files.
    updated_fragments: tuple[str, ...]
    new_files: tuple[StagedFile, ...]


@dataclass(frozen=True)
class DeleteChange:
    """Mark rows deleted."""

    #: The JSON of Lance's `FragmentMetadata`, with new deletion files.
    updated_fragments: tuple[str, ...]
    removed_fragment_ids: tuple[int, ...]
    #: What was asked for; Lance keeps it with the version, and nothing evaluates it again.
    predicate: str
    #: How many rows go.
    rows: int


@dataclass(frozen=True)
class MergeChange:
    """Update and insert rows as Lance's merge prepared it, for one version only."""

    version: int
    #: A pickled Lance operation: it has parts that are not ours to name.
    operation: bytes


@dataclass(frozen=True)
class RestoreChange:
    """Hold again exactly what an older version of the same dataset branch held, indexes and all."""

    version: int


@dataclass(frozen=True)
class RewriteChange:
    """Hold the same rows in other fragments; indexes go on to answer for them."""

    #: Of each portion the JSON of the fragments that go and come, as `compacting` returns it.
    portions: tuple[str, ...]


@dataclass(frozen=True)
class IndexChange:
    """Put segments of indexes in the place of others; no row changes."""

    #: As `indexing` returns them.
    segments: tuple[str, ...]
    #: The ids of segments that go.
    replaced: tuple[str, ...] = ()


Change = (
    AppendChange
    | OverwriteChange
    | UpdateChange
    | DeleteChange
    | MergeChange
    | RestoreChange
    | RewriteChange
    | IndexChange
)


def operation_of(change: Change, dataset: LanceDataset) -> LanceOperation.BaseOperation:
    """Return the operation that Lance commits to a dataset."""
    from lance import LanceOperation

    match change:
        case AppendChange():
            fragments = as_fragments(change.files)
            _check_field_ids(fragments, _ids_in(dataset))
            return LanceOperation.Append(fragments)
        case OverwriteChange():
            fragments = as_fragments(change.files)
            _check_field_ids(fragments, field_ids_of(change.schema))
            return LanceOperation.Overwrite(change.schema, fragments)
        case UpdateChange():
            fragments = as_fragments(change.new_files)
            _check_field_ids(fragments, _ids_in(dataset))
            if not change.updated_fragments and not change.removed_fragment_ids:
                # Nothing is replaced. Lance misdates rows that update a dataset without any.
                return LanceOperation.Append(fragments)
            if not dataset.has_stable_row_ids:
                # Branches that the engine made of empty datasets have none to keep.
                fragments = [replace(fragment, row_id_meta=None) for fragment in fragments]
            return LanceOperation.Update(
                removed_fragment_ids=list(change.removed_fragment_ids),
                updated_fragments=parse_fragments(change.updated_fragments),
                new_fragments=fragments,
                # Every column was rewritten. Indexes of columns left out here would go on to answer
                # for the new fragments, with the old values and without the new rows.
                fields_for_preserving_frag_bitmap=_all_field_ids(fragments),
                update_mode="rewrite_rows",
            )
        case DeleteChange():
            return LanceOperation.Delete(
                parse_fragments(change.updated_fragments),
                list(change.removed_fragment_ids),
                change.predicate,
            )
        case MergeChange():
            return pickle.loads(change.operation)
        case RestoreChange():
            return LanceOperation.Restore(change.version)
        case RewriteChange():
            return LanceOperation.Rewrite(rewrite_groups(change.portions, dataset), [])
        case IndexChange():
            known = segments_of(dataset)
            new = [unpack(text) for text in change.segments]
            return LanceOperation.CreateIndex(new, [known[uuid] for uuid in change.replaced])


def new_files(change: MergeChange | UpdateChange) -> tuple[StagedFile, ...]:
    """Return the files of new rows that a merge brought."""
    if isinstance(change, UpdateChange):
        return change.new_files
    operation: Any = pickle.loads(change.operation)
    # Where nothing is replaced, a merge is an append.
    names = [name for name in ("new_fragments", "fragments") if hasattr(operation, name)]
    return tuple(staged_file(fragment) for name in names for fragment in getattr(operation, name))


def parse_fragments(texts: Iterable[str]) -> list[FragmentMetadata]:
    """Read fragments from their JSON."""
    from lance import FragmentMetadata

    return [FragmentMetadata.from_json(text) for text in texts]


def _all_field_ids(fragments: Iterable[FragmentMetadata]) -> list[int]:
    """Return the ids of all columns; parents, which files do not list, come before their parts."""
    listed = [id_ for fragment in fragments for file in fragment.files for id_ in file.fields]
    return list(range(max(listed, default=-1) + 1))


def _ids_in(dataset: LanceDataset) -> list[int]:
    return field_ids_of(dataset.schema, dataset.lance_schema)


def _check_field_ids(fragments: Iterable[FragmentMetadata], expected: list[int]) -> None:
    """Refuse files whose columns Lance would mistake for others, which it does without a word."""
    for fragment in fragments:
        if any(sorted(file.fields) != sorted(expected) for file in fragment.files):
            detail = (
                "its columns are numbered for another schema; rows that replace all others are "
                "staged as given, and no others are"
            )
            raise StorageError("permanent", fragment.files[0].path, detail)


def written_by(change: Change) -> Iterator[str]:
    """Yield the files and folders a change brought, as paths below the dataset's folder."""
    match change:
        case AppendChange() | OverwriteChange():
            yield from (f"data/{file.path}" for file in change.files)
        case UpdateChange():
            yield from (f"data/{file.path}" for file in change.new_files)
            yield from _deletion_files(parse_fragments(change.updated_fragments))
        case DeleteChange():
            yield from _deletion_files(parse_fragments(change.updated_fragments))
        case MergeChange():
            operation: Any = pickle.loads(change.operation)
            # An update, or an append when nothing is replaced.
            replaces = hasattr(operation, "new_fragments")
            new = operation.new_fragments if replaces else operation.fragments
            yield from (f"data/{file.path}" for fragment in new for file in fragment.files)
            yield from _deletion_files(getattr(operation, "updated_fragments", ()))
        case RewriteChange():
            yield from (f"data/{path}" for path in rewritten_files(change.portions))
        case IndexChange():
            yield from (f"_indices/{unpack(text).uuid}" for text in change.segments)


def _deletion_files(fragments: Iterable[FragmentMetadata]) -> Iterator[str]:
    for fragment in fragments:
        if fragment.deletion_file is not None:
            yield fragment.deletion_file.path(fragment.id)
