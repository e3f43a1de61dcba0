"""What a transaction is about to do to one type: staged rows that nobody sees yet, and how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph_spark.manifest import Entry
from omnigraph_spark.names import MAIN
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile
from omnigraph_spark.writing.staged_rows import StagedSource


class WriteMode(StrEnum):
    """How rows meet those of the same id; `DELETE` removes rows instead."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    DELETE = "delete"


@dataclass(frozen=True)
class Pending:
    """The change of one type on one branch, planned on one of its versions.

    `files` hold the new rows; `doomed` names the relation of the rows that go, in the workspace of
    the transaction. A change that adds may have both when the transaction is a mixed one.
    """

    entry: Entry
    declared: EntityType
    mode: WriteMode
    branch: str
    files: tuple[StagedFile, ...] = ()
    #: Of a mixed transaction: more new rows, of ids that must not exist.
    fresh: tuple[StagedFile, ...] = ()
    doomed: str | None = None
    #: The relation of rows whose deletion was asked for, those that are given again included.
    asked: str | None = None
    #: Files that say where the rows of `files` lie, all of them or none.
    places: tuple[StagedFile, ...] = ()
    #: The relation of rows that a merge replaces (id, fragment, place, row_id), where it is known.
    targets: str | None = None
    #: The columns a merge changes, which are those of the files besides the id; None means all.
    merge_columns: tuple[str, ...] | None = None
    #: Whether a merge may only change rows that are there.
    existing_only: bool = False

    @property
    def key(self) -> str:
        """The type key as text."""
        return str(self.entry.type_key)

    @property
    def dataset_branch(self) -> str | None:
        """The Lance branch of the dataset that is written: the graph branch's own, None on main."""
        return None if self.branch == MAIN else self.branch

    @property
    def forks(self) -> bool:
        """Whether the dataset has yet to be forked for this branch."""
        return self.entry.dataset_branch != self.dataset_branch

    def address(self, root: str) -> DatasetAddress:
        """Return where the dataset is written and files are staged."""
        return DatasetAddress(root, self.entry.path, self.dataset_branch)

    def source(self, root: str, settings: StorageSettings) -> StagedSource:
        """Return the staged rows, to be read in any process."""
        return StagedSource(self.address(root), settings, self.declared, self.staged)

    @property
    def staged(self) -> tuple[StagedFile, ...]:
        """All files of new rows."""
        return (*self.files, *self.fresh)

    @property
    def is_located(self) -> bool:
        """Whether it is known where the rows lie that are replaced."""
        known = bool(self.places) or self.targets is not None
        return known or (not self.files and self.asked is not None)

    @property
    def rows(self) -> int:
        """How many rows are staged."""
        return sum(file.rows for file in self.staged)

    @property
    def size_bytes(self) -> int:
        """How many bytes are staged."""
        return sum(file.size_bytes for file in self.staged)

    @property
    def must_be_new(self) -> tuple[StagedFile, ...]:
        """The files whose ids must not exist."""
        return self.files if self.mode is WriteMode.APPEND else self.fresh

    @property
    def only_adds(self) -> bool:
        """Whether the staged files land as they are, beside all that is there."""
        if self.mode is WriteMode.MERGE:
            whole = self.merge_columns is None
            return whole and not self.files and self.doomed is None and self.asked is None
        return self.mode is WriteMode.APPEND

    def on(self, entry: Entry) -> Pending:
        """Return the same change, planned on another version."""
        return replace(self, entry=entry)
