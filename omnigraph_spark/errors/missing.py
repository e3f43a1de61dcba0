"""What was asked for does not exist."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_spark.errors.base import OmnigraphError, hint, known_names


@dataclass(eq=False)
class NotFoundError(OmnigraphError, LookupError):
    """Something named does not exist; base of the errors that say what."""

    code = "OMNIGRAPH_NOT_FOUND"
    remedy = "Check the name; the message lists what exists."


@dataclass(eq=False)
class GraphNotFoundError(NotFoundError):
    """There is no graph at this address."""

    code = "OMNIGRAPH_GRAPH_NOT_FOUND"
    remedy = "Check the path; a graph is a folder with `__manifest` and `_schema.pg`."
    root: str
    reason: str = "it has no __manifest"

    def describe(self) -> str:
        return f"{self.root!r} is not a graph: {self.reason}"


@dataclass(eq=False)
class BranchNotFoundError(NotFoundError):
    """The graph has no branch of that name."""

    code = "OMNIGRAPH_BRANCH_NOT_FOUND"
    remedy = "Use one of the branches the message lists, or create it."
    branch: str
    known: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"branch {self.branch!r} does not exist; this graph has {known_names(self.known)}"


@dataclass(eq=False)
class NamespaceNotFoundError(NotFoundError):
    """The SQL catalog has no namespace of that name."""

    code = "OMNIGRAPH_NAMESPACE_NOT_FOUND"
    remedy = "Use `nodes`, `edges` or `system`, or one of them below a branch."
    namespace: str
    known: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"namespace {self.namespace!r} does not exist{hint(self.namespace, self.known)}"


@dataclass(eq=False)
class ProcedureNotFoundError(NotFoundError):
    """The SQL catalog has no procedure of that name."""

    code = "OMNIGRAPH_PROCEDURE_NOT_FOUND"
    remedy = "Call one of those that `SHOW PROCEDURES IN og.system` lists."
    procedure: str
    known: tuple[str, ...] = ()

    def describe(self) -> str:
        if not self.known:
            return f"procedure {self.procedure!r} does not exist; they are in 'system'"
        return f"procedure {self.procedure!r} does not exist; there are {known_names(self.known)}"


@dataclass(eq=False)
class TypeNotFoundError(NotFoundError):
    """The snapshot has no node or edge type of that name."""

    code = "OMNIGRAPH_TYPE_NOT_FOUND"
    remedy = "Use a type of this snapshot, such as `node:Person`; names are case-sensitive."
    type: str
    known: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"type {self.type!r} is not in this snapshot{hint(self.type, self.known)}"


@dataclass(eq=False)
class TypeAmbiguousError(NotFoundError):
    """A bare name is both a node type and an edge type."""

    code = "OMNIGRAPH_TYPE_AMBIGUOUS"
    remedy = "Write `node:Name` or `edge:Name`."
    type: str

    def describe(self) -> str:
        return (
            f"{self.type!r} is a node type and an edge type; "
            f"write 'node:{self.type}' or 'edge:{self.type}'"
        )


@dataclass(eq=False)
class ColumnNotFoundError(NotFoundError):
    """The type has no column of that name."""

    code = "OMNIGRAPH_COLUMN_NOT_FOUND"
    remedy = "Use a column of the type; names are case-sensitive."
    type: str
    column: str
    known: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"{self.type} has no column {self.column!r}{hint(self.column, self.known)}"


@dataclass(eq=False)
class CommitNotFoundError(NotFoundError):
    """No branch of the graph has a commit with that id."""

    code = "OMNIGRAPH_COMMIT_NOT_FOUND"
    remedy = "List commits with `graph.history()` or the `commits` table."
    commit: str
    reason: str = "no branch of this graph has it"

    def describe(self) -> str:
        return f"commit {self.commit!r} cannot be read: {self.reason}"


@dataclass(eq=False)
class VersionNotFoundError(NotFoundError):
    """The branch has no such manifest version."""

    code = "OMNIGRAPH_VERSION_NOT_FOUND"
    remedy = "Use a manifest version of that branch, as `graph.history()` lists them."
    branch: str
    version: int
    latest: int
    reason: str = ""

    def describe(self) -> str:
        text = (
            f"branch {self.branch!r} has no manifest version {self.version}; "
            f"its newest is {self.latest}"
        )
        return f"{text} ({self.reason})" if self.reason else text


@dataclass(eq=False)
class TimestampNotFoundError(NotFoundError):
    """The branch had no commit yet at that time."""

    code = "OMNIGRAPH_TIMESTAMP_NOT_FOUND"
    remedy = "Use a time at or after the first commit of the branch."
    branch: str
    timestamp: str
    earliest: str

    def describe(self) -> str:
        return (
            f"branch {self.branch!r} has no commit at or before {self.timestamp}; "
            f"its first commit was made at {self.earliest}"
        )


@dataclass(eq=False)
class HistoryReclaimedError(NotFoundError):
    """A dataset version that the snapshot pins was removed by a cleanup."""

    code = "OMNIGRAPH_HISTORY_RECLAIMED"
    remedy = "Read a newer snapshot; rows of reclaimed versions are gone."
    branch: str
    type: str
    dataset_version: int

    def describe(self) -> str:
        return (
            f"version reclaimed: dataset version {self.dataset_version} of {self.type}, "
            f"pinned on branch {self.branch!r}, was removed by a cleanup; "
            f"read a newer snapshot or another branch"
        )


@dataclass(eq=False)
class SchemaBoundaryError(OmnigraphError):
    """The columns of a type changed within the commits of a change feed."""

    code = "OMNIGRAPH_SCHEMA_BOUNDARY"
    remedy = "Begin the feed at the commit the message names, or end it before."
    type: str
    commit: str
    version: int

    def describe(self) -> str:
        return (
            f"{self.type} has other columns since commit {self.commit} (version {self.version}) "
            f"than before: read the changes before it and after it apart"
        )
