"""What a transaction was asked to do, type by type, and which modes go together.

A transaction adds or it deletes, every type in one mode. A mixed one belongs to whoever decides row
by row, as a SQL `MERGE` does: it may replace, add and delete rows of one type at once. What is
given then wins over what is removed: a row that is deleted and given again is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from omnigraph_spark.errors import (
    ConflictError,
    InvalidOptionError,
    MixedModesError,
    UnsupportedError,
)
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.staging import StagedFile
from omnigraph_spark.storage.uncommitted import is_blob_field
from omnigraph_spark.writing.deletions import DeleteRequest, find_doomed
from omnigraph_spark.writing.intake.plan import refuse_some_columns
from omnigraph_spark.writing.pending import Pending, WriteMode
from omnigraph_spark.writing.workspace import Workspace

# So many rows are checked before threads that share the work have begun.
_FEW_ROWS = 50_000


class RowCounts(NamedTuple):
    """How many rows are staged: those that land as they are, and those that meet stored ones."""

    only_checked: int
    moved: int
    #: Whether rows are deleted by a condition, which nobody has counted.
    more: bool

    @property
    def are_few(self) -> bool:
        """Whether these are the rows of a small write."""
        return not self.more and self.only_checked + self.moved <= _FEW_ROWS


class Collected:
    """The changes and deletions of one transaction."""

    def __init__(self, branch: str, mixed: bool) -> None:
        self._branch = branch
        self._mixed = mixed
        #: What is staged, by type key.
        self.changes: dict[str, Pending] = {}
        self.deletes: list[DeleteRequest] = []
        #: The dataset versions whose rows were located, by type key.
        self._located: dict[str, int] = {}

    @property
    def keys(self) -> set[str]:
        """The types that anything was asked of."""
        return {*self.changes, *(request.key for request in self.deletes)}

    @property
    def modes(self) -> set[WriteMode]:
        """The modes that were asked for."""
        deletes = {WriteMode.DELETE} if self.deletes else set()
        return deletes | {change.mode for change in self.changes.values()}

    @property
    def rows(self) -> RowCounts:
        """How many rows are staged, by what is done with them."""
        merged = [change for change in self.changes.values() if change.mode is WriteMode.MERGE]
        checked = sum(change.rows for change in self.changes.values() if change not in merged)
        moved = sum(change.rows for change in merged)
        moved += sum(file.rows for request in self.deletes for file in request.files)
        return RowCounts(checked, moved, any(each.where is not None for each in self.deletes))

    def pending(
        self,
        base: SnapshotState,
        type_name: str,
        mode: WriteMode,
        merge_columns: Sequence[str] | None = None,
        existing_only: bool = False,
    ) -> Pending:
        """Return what is staged of a type, to add to it in a mode; a mode that cannot is refused.

        All that a mixed transaction gives a type is a merge to it, some of whose rows must be new.
        It may be a merge of `all_but_blobs`: new rows have no blobs then, and others keep theirs.
        """
        if isinstance(merge_columns, str):
            # A text is a sequence too, of letters, which may be names of other columns.
            raise InvalidOptionError("columns", merge_columns, "a list of names")
        columns = None if merge_columns is None else tuple(merge_columns)
        entry = base.entry(type_name)
        key = str(entry.type_key)
        declared = base.schema.get(entry.type_key)
        if declared is None:
            raise UnsupportedError(
                f"writing {key}, which the current schema does not declare",
                "write a type of the schema",
            )
        if self._mixed:
            partial = columns is not None and columns != all_but_blobs(declared)
            _refuse_unmixable(mode, partial or existing_only)
            kept = WriteMode.DELETE if mode is WriteMode.DELETE else WriteMode.MERGE
        else:
            refuse_some_columns(mode, columns)
            self._refuse_mixed(mode)
            kept = mode
        new = Pending(
            entry, declared, kept, self._branch, merge_columns=columns, existing_only=existing_only
        )
        if kept is WriteMode.DELETE:
            return new
        known = self.changes.get(key, new)
        if replace(known, files=(), fresh=(), places=()) != new:
            raise UnsupportedError(
                f"{known.mode} and {mode} of {key} in one transaction",
                "use one mode, and the same columns, per type",
            )
        return known

    def take(
        self,
        pending: Pending,
        mode: WriteMode,
        address: DatasetAddress,
        files: Iterable[StagedFile],
        places: Iterable[StagedFile] = (),
    ) -> None:
        """Take over what was staged of a type in a mode, and where rows of it lie."""
        places = tuple(places)
        if places:
            self._located[pending.key] = pending.entry.dataset_version
        files = tuple(files)
        if mode is WriteMode.DELETE:
            if files:
                self.deletes.append(DeleteRequest(pending.key, address, files, places=places))
        elif self._mixed and mode is WriteMode.APPEND:
            self.changes[pending.key] = replace(pending, fresh=(*pending.fresh, *files))
        else:
            self.changes[pending.key] = replace(
                pending, files=(*pending.files, *files), places=(*pending.places, *places)
            )

    def effective(self, space: Workspace, base: SnapshotState) -> list[Pending]:
        """Return the changes that have an effect, cascades of deletions included."""
        changes = {
            key: change
            for key, change in self.changes.items()
            # Nothing in the place of nothing is no change.
            if change.staged or (change.mode is WriteMode.OVERWRITE and change.entry.rows)
        }
        for key, doomed in find_doomed(space, self.deletes, base, changes).items():
            change = changes.get(key)
            declared = base.schema.get(base.entries[key].type_key)
            if change is None and declared is not None and doomed.rows:
                change = Pending(base.entries[key], declared, WriteMode.DELETE, self._branch)
            if change is not None:
                relation = doomed.relation if doomed.rows else None
                changes[key] = replace(change, doomed=relation, asked=doomed.asked)
        # Always in the same order: writers that share types then meet at the first of them.
        return [changes[key] for key in sorted(changes)]

    def repacked(self, change: Pending) -> None:
        """Take over the files of a change in the place of those it had."""
        known = self.changes[change.key]
        self.changes[change.key] = replace(known, files=change.files, fresh=change.fresh)

    def rebase(self, base: SnapshotState) -> None:
        """Plan the same on another snapshot; places of rows are those of one version."""
        for key, version in self._located.items():
            if base.entry(key).dataset_version != version:
                raise ConflictError(f"{key} moved on, and with it the rows that were decided about")
        self.changes = {key: change.on(base.entry(key)) for key, change in self.changes.items()}

    def clear(self) -> None:
        """Forget everything."""
        self.changes.clear()
        self.deletes.clear()

    def _refuse_mixed(self, mode: WriteMode) -> None:
        added = {change.mode for change in self.changes.values()}
        if (mode is WriteMode.DELETE and added) or (mode is not WriteMode.DELETE and self.deletes):
            raise MixedModesError(tuple(sorted({*added, mode, WriteMode.DELETE})))


def all_but_blobs(declared: EntityType) -> tuple[str, ...]:
    """Return the columns of a type besides the id and those that hold blobs."""
    fields = arrow_schema(declared)
    return tuple(f.name for f in fields if f.name != "id" and not is_blob_field(f))


def _refuse_unmixable(mode: WriteMode, partial: bool) -> None:
    if mode is WriteMode.OVERWRITE or partial:
        what = "an overwrite" if mode is WriteMode.OVERWRITE else "a merge of some columns"
        raise UnsupportedError(f"{what} among other changes", "do it in a transaction of its own")
