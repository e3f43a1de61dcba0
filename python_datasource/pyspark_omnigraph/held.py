"""SQL statements that wait for `commit_transaction`: staged, and published by none but that.

A transaction is a folder of small files on the driver, one per statement, which says what was
staged and what was read. No statement sees the rows of another. Whatever is left when the session
ends names files that no version does.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from omnigraph_spark.errors import ExpectedVersionError, UnsupportedError
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.stage import StageResult
from omnigraph_spark.writing.write import Write

_BEGUN = "begun.json"


@dataclass(frozen=True)
class Held:
    """What one statement is going to do to one type."""

    type_name: str
    #: What was staged: results as text, by mode.
    staged: Mapping[str, list[str]] = field(default_factory=dict)
    #: The condition on rows that go.
    where: str | None = None
    #: The versions of the types it read.
    expected: Mapping[str, int] = field(default_factory=dict)
    #: The columns of what was staged, where these are not all.
    columns: Sequence[str] | None = None

    @property
    def only_adds(self) -> bool:
        """Whether it depends on no row of its type."""
        return self.where is None and set(self.staged) == {WriteMode.APPEND}

    def give(self, write: Write) -> None:
        """Have a write do it."""
        for mode, texts in self.staged.items():
            columns = None if mode == WriteMode.DELETE else self.columns
            task = write.task(self.type_name, WriteMode(mode), columns)
            write.add(self.type_name, task, map(StageResult.from_json, texts))
        if self.where is not None:
            write.delete_where(self.type_name, self.where)


class OpenTransaction:
    """The statements of one transaction, by its folder."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    @classmethod
    def begin(cls, branch: str) -> OpenTransaction:
        """Begin one on a branch."""
        transaction = cls(tempfile.mkdtemp(prefix="omnigraph-transaction-"))
        (transaction.folder / _BEGUN).write_text(json.dumps(branch), encoding="utf-8")
        return transaction

    @property
    def branch(self) -> str:
        """The branch that all its statements write to."""
        name: str = json.loads((self.folder / _BEGUN).read_text(encoding="utf-8"))
        return name

    @property
    def is_over(self) -> bool:
        """Whether it failed or was ended elsewhere."""
        return not (self.folder / _BEGUN).exists()

    def check(self, branch: str) -> None:
        """Refuse a statement that cannot belong to it."""
        if self.is_over:
            advice = "CALL rollback_transaction() and begin again"
            raise UnsupportedError("a statement in a transaction that failed", advice)
        if branch != self.branch:
            advice = f"it is a transaction on branch {self.branch!r}"
            raise UnsupportedError(f"writing to branch {branch!r} in this transaction", advice)

    def hold(self, held: Held) -> None:
        """Keep a statement; one that would not see what an earlier one did is refused."""
        earlier = self.statements()
        for other in earlier:
            same = other.type_name == held.type_name
            if same and not (other.only_adds and held.only_adds):
                what = f"a second statement on {held.type_name} in one transaction"
                raise UnsupportedError(what, "it would not see the rows of the first: commit first")
            for key in set(other.expected) & set(held.expected):
                seen, now = other.expected[key], held.expected[key]
                if seen != now:
                    detail = f"{key} was read at version {seen} before, and now at {now}"
                    raise ExpectedVersionError(detail, key, seen, now)
        path = self.folder / f"{len(earlier):06}.json"
        path.with_suffix(".new").write_text(json.dumps(asdict(held)), encoding="utf-8")
        path.with_suffix(".new").rename(path)

    def statements(self) -> list[Held]:
        """Return the statements so far, in order."""
        paths = sorted(path for path in self.folder.glob("*.json") if path.name != _BEGUN)
        return [Held(**json.loads(path.read_text(encoding="utf-8"))) for path in paths]

    def end(self) -> None:
        """Forget it."""
        if not self.is_over:
            shutil.rmtree(self.folder, ignore_errors=True)
