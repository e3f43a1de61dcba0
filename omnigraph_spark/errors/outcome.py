"""What became of a write that failed: nothing, perhaps, or half with an owner; and what stops one.

The three answers are `ConflictError` (nothing became visible), `OutcomeUnknownError` (look before
repeating) and `RecoveryRequiredError` (a sidecar owns what was begun).
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_spark.errors.base import OmnigraphError, known_names


@dataclass(eq=False)
class AlreadyExistsError(OmnigraphError):
    """Something of that name is there already; base of the errors that say what."""

    code = "OMNIGRAPH_ALREADY_EXISTS"
    remedy = "Use another name, or what is there."


@dataclass(eq=False)
class GraphExistsError(AlreadyExistsError):
    """There is a graph, or a part of one, at this address."""

    code = "OMNIGRAPH_GRAPH_EXISTS"
    remedy = "Open it, choose another root, or remove the folder."
    root: str
    found: str

    def describe(self) -> str:
        return f"cannot create a graph at {self.root!r}: {self.found} is there already"


@dataclass(eq=False)
class BranchExistsError(AlreadyExistsError):
    """The graph has a branch of that name already."""

    code = "OMNIGRAPH_BRANCH_EXISTS"
    remedy = "Write to it, choose another name, or delete it first."
    branch: str

    def describe(self) -> str:
        return f"branch {self.branch!r} exists already"


@dataclass(eq=False)
class BranchInUseError(OmnigraphError):
    """A branch cannot be deleted because something depends on it."""

    code = "OMNIGRAPH_BRANCH_IN_USE"
    remedy = "Delete what depends on it first, or open the graph on another branch."
    branch: str
    reason: str

    def describe(self) -> str:
        return f"branch {self.branch!r} cannot be deleted: {self.reason}"


@dataclass(eq=False)
class ConstraintViolationError(OmnigraphError, ValueError):
    """Rows break rules of the schema; nothing was written."""

    code = "OMNIGRAPH_CONSTRAINT_VIOLATION"
    remedy = "Correct the rows the message names; `graph.check(...)` lists them all."
    #: One sentence per broken rule, each with up to ten ids and the count of the rest.
    violations: tuple[str, ...]

    def describe(self) -> str:
        return f"nothing was written: {'; '.join(self.violations)}"


@dataclass(eq=False)
class MixedModesError(OmnigraphError, ValueError):
    """One transaction would both add and delete."""

    code = "OMNIGRAPH_MIXED_MODES"
    remedy = "Split it into two transactions: deletes first, then inserts and updates."
    modes: tuple[str, ...]

    def describe(self) -> str:
        return (
            f"one transaction inserts and updates, or deletes, never both; this one has "
            f"{known_names(self.modes)}: split it into two, deletes first"
        )


@dataclass(eq=False)
class ConflictError(OmnigraphError):
    """Another writer was faster; nothing became visible."""

    code = "OMNIGRAPH_CONFLICT"
    remedy = "Read again and repeat the write."
    detail: str

    def describe(self) -> str:
        return f"{self.detail}; nothing became visible: read again and repeat"


@dataclass(eq=False)
class ExpectedVersionError(ConflictError):
    """A type is no longer at the version the write was planned on."""

    code = "OMNIGRAPH_EXPECTED_VERSION"
    remedy = "Read again and repeat the write; the message names the commit that won."
    type: str = ""
    expected: int = 0
    actual: int = 0
    winner: str | None = None


@dataclass(eq=False)
class HeadMovedError(ConflictError):
    """The branch head is not the commit that was asked for."""

    code = "OMNIGRAPH_HEAD_MOVED"
    remedy = "Read the new head and decide again."


@dataclass(eq=False)
class KeyConflictError(ConflictError):
    """An appended id exists already."""

    code = "OMNIGRAPH_KEY_CONFLICT"
    remedy = "Use mode merge to replace existing rows, or leave them out."


@dataclass(eq=False)
class SchemaApplyInProgressError(ConflictError):
    """A schema change holds its lock, so nothing else may write."""

    code = "OMNIGRAPH_SCHEMA_APPLY_IN_PROGRESS"
    remedy = "Wait for it to end; if its process died, release the lock."


@dataclass(eq=False)
class DriftError(OmnigraphError):
    """A dataset is ahead of what the manifest pins, and no sidecar explains it."""

    code = "OMNIGRAPH_DRIFT"
    remedy = "Repair the graph; reading is not affected."
    type: str
    pinned: int
    head: int

    def describe(self) -> str:
        return (
            f"the dataset of {self.type} is at version {self.head} but the manifest pins "
            f"{self.pinned}, and no unfinished write explains it: something wrote to it outside "
            f"of the graph; repair it before writing (reading is not affected)"
        )


@dataclass(eq=False)
class OutcomeUnknownError(OmnigraphError):
    """The write may have become visible: look before repeating."""

    code = "OMNIGRAPH_OUTCOME_UNKNOWN"
    remedy = "Look for the commit the message names before you repeat the write."
    commit: str
    detail: str

    def describe(self) -> str:
        return f"commit {self.commit} may have been published: {self.detail}; look for it first"


@dataclass(eq=False)
class RecoveryRequiredError(OmnigraphError):
    """An unfinished write owns what was begun: recover first."""

    code = "OMNIGRAPH_RECOVERY_REQUIRED"
    remedy = "Open the graph for writing once, which finishes or undoes it."
    operations: tuple[str, ...]
    detail: str

    def describe(self) -> str:
        return (
            f"{self.detail}; unfinished writes {known_names(self.operations)} own it: recover first"
        )


@dataclass(eq=False)
class ForeignCommitError(RecoveryRequiredError):
    """Somebody else committed to a dataset on top of an unfinished write; undoing would lose it."""

    code = "OMNIGRAPH_FOREIGN_COMMIT"
    remedy = "Copy the rows of the versions the message names, then `graph.recover(force=True)`."

    def describe(self) -> str:
        return (
            f"unfinished write {known_names(self.operations)} has commits of another writer on top "
            f"of it, which recovering it would lose: {self.detail}; nothing was changed: copy "
            f"their rows if they matter, then recover(force=True) undoes both and the rows can be "
            f"written again (reading the graph is not affected)"
        )
