"""DuckDB for the checks of a write: one database that small writes share, one each for others.

To open a database takes 20 ms of CPU time, a quarter of a small commit. The shared one has no
threads of its own, so that a process may fork, and is given back once it has grown.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: What joins may hold in memory before they spill.
MEMORY_LIMIT = "512MB"
# A shared database that holds more than this is not kept.
_KEPT_BYTES = 32 << 20
_NO_THREADS = {"threads": 1, "async_threads": 0}


class Database:
    """Relations of one write, seen by no other; until it is closed."""

    def __init__(self, few: bool) -> None:
        """Have a database: the shared one where rows are known to be few."""
        self._folder = None if few else TemporaryDirectory(prefix="omnigraph-")
        whole = _shared() if self._folder is None else _connect(Path(self._folder.name), {})
        self._schema = f"space_{uuid4().hex}"
        self.connection = whole.cursor()
        self.connection.execute(f"CREATE SCHEMA {self._schema}")
        self.connection.execute(f"USE {self._schema}")

    def cursor(self) -> DuckDBPyConnection:
        """Return another connection to the same relations: one runs one query at a time."""
        cursor: DuckDBPyConnection = self.connection.cursor()
        cursor.execute(f"USE {self._schema}")
        return cursor

    def close(self) -> None:
        """Forget the relations."""
        if self._folder is None:
            _give_back(self.connection, self._schema)
        # With the last connection a database that is not shared ends.
        self.connection.close()
        if self._folder is not None:
            self._folder.cleanup()


_lock = Lock()
_kept: DuckDBPyConnection | None = None


def _shared() -> DuckDBPyConnection:
    global _kept
    with _lock:
        if _kept is None:
            # DuckDB makes the folder if it ever needs one, and removes it in the end.
            _kept = _connect(Path(gettempdir()) / f"omnigraph-{uuid4().hex}", _NO_THREADS)
        return _kept


def _give_back(connection: DuckDBPyConnection, schema: str) -> None:
    global _kept
    held = connection.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()")
    [(size,)] = held.fetchall()
    connection.execute("USE main")
    connection.execute(f"DROP SCHEMA {schema} CASCADE")
    if size > _KEPT_BYTES:
        with _lock:
            # Who works in it at the moment has a connection, and it ends with the last of them.
            _kept = None


def _connect(folder: Path, more: dict[str, Any]) -> DuckDBPyConnection:
    # Only writers need it, and only when they check.
    import duckdb

    connection: DuckDBPyConnection = duckdb.connect(
        # In memory, spilled beyond the limit: a file is twice as slow, and synced to disk.
        ":memory:",
        config={
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": str(folder / "spill"),
            # The order of rows means nothing here, and keeping it costs memory.
            "preserve_insertion_order": "false",
            **more,
        },
    )
    # It would appear in the output of any program as soon as a query takes two seconds. In a
    # notebook without ipywidgets there is no bar, and DuckDB refuses to hear of it.
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    return connection


def _begin_anew() -> None:
    global _lock, _kept
    _lock, _kept = Lock(), None


# Another thread of the parent may hold the lock, and work in its database.
os.register_at_fork(after_in_child=_begin_anew)
