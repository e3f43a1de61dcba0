"""The terms of a write: who writes, what must hold when it becomes visible, what if it does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph_spark.errors import ExpectedVersionError, HeadMovedError
from omnigraph_spark.manifest import ManifestState
from omnigraph_spark.names import TypeKey
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.stage import StageLimits


class OnConflict(StrEnum):
    """What to do when another commit landed since the write was planned."""

    REBASE = "rebase"
    FAIL = "fail"


class Checks(StrEnum):
    """Which rules are checked: all, or only those of single rows."""

    ALL = "all"
    ROWS = "rows"


@dataclass(frozen=True)
class WriteTerms:
    """Under which terms a transaction may become visible."""

    actor: str | None = None
    #: None: rebase what only adds, fail what overwrites or deletes.
    on_conflict: OnConflict | None = None
    expected: Mapping[str, int] = field(default_factory=dict)
    if_commit: str | None = None
    #: A pair that names this piece of work: done once, it is not done again.
    once: tuple[str, str] | None = None
    checks: Checks = Checks.ALL
    limits: StageLimits = field(default_factory=StageLimits)
    #: Whether text given for a blob is the address of a file of the user's.
    external_blobs: bool = False

    def __post_init__(self) -> None:
        for key in self.expected:
            TypeKey.parse(key)

    def may_rebase(self, modes: Iterable[WriteMode]) -> bool:
        """Tell whether a write of these modes may land on a commit it was not planned on."""
        if self.on_conflict is not None:
            return self.on_conflict is OnConflict.REBASE
        return not {WriteMode.OVERWRITE, WriteMode.DELETE}.intersection(modes)

    def check(self, state: ManifestState) -> None:
        """Refuse a state that the caller did not expect."""
        head = state.lineage.head
        if self.if_commit is not None and (head is None or head.id != self.if_commit):
            found = "no commit" if head is None else head.id
            raise HeadMovedError(f"branch {state.branch!r} is at {found}, not {self.if_commit}")
        for key, expected in self.expected.items():
            actual = state.visible_version(key)
            if actual != expected:
                detail = f"{key} was expected at version {expected} and is at {actual}"
                raise ExpectedVersionError(detail, key, expected, actual)
