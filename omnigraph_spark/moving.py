"""Files in and out: the part of `Graph` that loads records and Parquet files, and exports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph_spark.jsonl.exporting import export_jsonl
from omnigraph_spark.jsonl.sources import Source
from omnigraph_spark.names import BranchRef
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.write_options import check_word

if TYPE_CHECKING:
    from omnigraph_spark.formats.profile import Commit
    from omnigraph_spark.transaction import Transaction


class Moving:
    """What `Graph` offers for moving data from files and to files."""

    if TYPE_CHECKING:
        _reader: GraphReader

        @property
        def _state(self) -> SnapshotState: ...

        def transaction(self, *args: Any, **terms: Any) -> Transaction: ...

    def load_jsonl(self, source: Source, mode: str = "append", **terms: Any) -> Commit | None:
        """Load the engine's interchange records, of all types, in one commit.

        See `Transaction.load_jsonl`; `terms` are arguments of `transaction`.
        """
        check_word("mode", mode, WriteMode)
        with self.transaction(**terms) as tx:
            tx.load_jsonl(source, WriteMode(mode))
        return tx.commit

    def import_parquet(
        self,
        path: str | Path,
        type: str,
        mode: str = "append",
        merge_columns: Sequence[str] | None = None,
        **terms: Any,
    ) -> Commit | None:
        """Write the rows of Parquet files of one type in one commit; no row passes the JVM.

        See `Transaction.import_parquet`; the other arguments are those of `write`.

        >>> graph.import_parquet("/lake/people/*.parquet", type="Person")  # doctest: +SKIP
        """
        check_word("mode", mode, WriteMode)
        with self.transaction(**terms) as tx:
            tx.import_parquet(type, path, WriteMode(mode), merge_columns)
        return tx.commit

    def export_jsonl(
        self,
        path: str | Path,
        branch: str | None = None,
        on_rows: Callable[[str, int], None] = lambda type_key, rows: None,
    ) -> dict[str, int]:
        """Write the bound snapshot, or the head of a branch, as records; return rows by type.

        One file; or one for each type where the path is a folder or ends in a slash. `on_rows` is
        told now and then of which type how many more rows were written.
        """
        state = self._state if branch is None else self._reader.resolve(BranchRef(branch))
        return export_jsonl(state, path, written=on_rows)
