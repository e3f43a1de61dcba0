"""What a transaction is about to do to one type: staged rows that nobody sees yet, and how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph_spark.manifest import Entry
from omnigraph_spark.names import MAIN
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.staged_rows import StagedSource
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile


class WriteMode(StrEnum):
    """How rows meet those of the same id; `DELETE` removes rows instead."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"
    DELETE = "delete"


@dataclass(frozen=True)
class Pending:
    """The change of one type on one branch, planned on one of its versions.

    `files` hold the new rows; for a deletion `doomed` names the relation of the rows that go, in
    the workspace of the transaction.
    """

    entry: Entry
    declared: EntityType
    mode: WriteMode
    branch: str
    files: tuple[StagedFile, ...] = ()
    doomed: str | None = None
    #: The columns a merge changes, which are those of the files besides the id; None means all.
    merge_columns: tuple[str, ...] | None = None

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
        return StagedSource(self.address(root), settings, self.declared, self.files)

    @property
    def rows(self) -> int:
        """How many rows are staged."""
        return sum(file.rows for file in self.files)

    @property
    def size_bytes(self) -> int:
        """How many bytes are staged."""
        return sum(file.size_bytes for file in self.files)

    def on(self, entry: Entry) -> Pending:
        """Return the same change, planned on another version."""
        return replace(self, entry=entry)
