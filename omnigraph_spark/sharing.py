"""Beside other tools: the part of `Graph` that draws it, and moves it to and from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph_spark.branches import Branch
from omnigraph_spark.errors import InvalidOptionError
from omnigraph_spark.exports import Exported
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.names import BranchRef, check_branch_name
from omnigraph_spark.pictures.history import draw_history
from omnigraph_spark.pictures.schema import draw_schema
from omnigraph_spark.pictures.svg import Picture
from omnigraph_spark.recovery.sweep import heal
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from omnigraph_spark.storage.uri import canonical_root
from omnigraph_spark.store_settings import settings_at
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.terms import WriteTerms
from omnigraph_spark.writing.write_options import actor_or_user

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sharing:
    """What `Graph` offers to other tools."""

    if TYPE_CHECKING:
        _reader: GraphReader
        _spark: SparkSession | None

        _actor: str | None

        @property
        def _state(self) -> SnapshotState: ...

        @property
        def branch(self) -> str: ...

        def branches(self) -> list[Branch]: ...

        def _refuse_read_only(self) -> None: ...

        def _written(self, commit: Commit) -> None: ...

    def show_history(self, limit: int = 50) -> Picture:
        """Draw the newest commits of all branches: a lane for each branch, rings for merges.

        Shown by itself in notebooks; ``.save("history.svg")`` writes it to a file.

        >>> graph.show_history().save("history.svg")  # doctest: +SKIP
        """
        branches = self.branches()
        heads = (self._reader.resolve(BranchRef(branch.name)) for branch in branches)
        commits = [commit for head in heads for commit in self._reader.commits(head)]
        return draw_history(commits, branches, limit)

    def show_schema(self) -> Picture:
        """Draw the types: boxes for nodes, arrows for edges, with the rows of the bound snapshot.

        >>> graph.show_schema().save("schema.svg")  # doctest: +SKIP
        """
        rows = {key: entry.rows for key, entry in self._state.entries.items()}
        return draw_schema(self._state.schema, rows)

    def to_graphframe(
        self, nodes: Sequence[str] | None = None, edges: Sequence[str] | None = None
    ) -> Any:
        """Return the bound snapshot as a GraphFrame, for its motifs and algorithms.

        One node type and one edge type keep their ids and columns. More of them become one graph:
        vertices are id (``Person:alice``), type and entity (``alice``); edges id, src, dst, type.

        Args:
            nodes: The node types; all by default.
            edges: The edge types; by default all that lie between these node types.

        Raises:
            UnsupportedError: graphframes-py is not installed, or the session has not its jar.

        >>> graph.to_graphframe(["Person"], ["Knows"]).triangleCount()  # doctest: +SKIP
        """
        from omnigraph_spark.session import graphframes

        chosen = graphframes.Chosen(self._state, nodes, edges)
        return graphframes.to_graphframe(self._spark, self._state, chosen)

    def to_property_graphframe(
        self, nodes: Sequence[str] | None = None, edges: Sequence[str] | None = None
    ) -> Any:
        """Return the bound snapshot as a PropertyGraphFrame, a group for every type.

        Arguments and errors are those of `to_graphframe`; all columns stay.
        """
        from omnigraph_spark.session import graphframes

        chosen = graphframes.Chosen(self._state, nodes, edges)
        return graphframes.to_property_graphframe(self._spark, self._state, chosen)

    def export(
        self, format: str, path: str | Path, on_table: Callable[[Exported], None] | None = None
    ) -> list[Exported]:
        """Write the bound snapshot as tables, one for each type; repeated, only what changed.

        ``delta``: tables ``<path>/nodes/Person``, ``<path>/edges/Knows``. Each carries the commit
        it holds in the Delta commit that brought its rows, so a run that was killed and repeated
        brings no row twice. Changed rows come by the change feed, as one MERGE for each type;
        where what changed cannot be told (columns changed, versions removed) all rows do.

        ``parquet``: a folder for each state of a type; ``<path>/_omnigraph.json``, written last,
        names those that belong together. Types that did not change are left alone; folders of the
        state before stay for its readers, older ones are removed.

        Blobs become binary columns.

        Args:
            format: ``delta`` or ``parquet``.
            path: The folder of the tables.
            on_table: Called for each table when it is done.

        Returns:
            What was done: for each table type_key, path, step (``full``, ``changes`` or
            ``nothing``), rows and commit.

        Raises:
            UnsupportedError: The session has no Delta, or a table there is not of this graph.

        >>> graph.export("delta", "/lake/social")  # doctest: +SKIP
        """
        if format not in ("delta", "parquet"):
            raise InvalidOptionError("format", format, "'delta' or 'parquet'")
        from omnigraph_spark.session.frames import session_or_active
        from omnigraph_spark.session.lakehouse import exporting

        spark, place = session_or_active(self._spark), _lake_path(path)
        run = exporting.Export(spark, self._reader, self._state)
        if format == "delta":
            tables = exporting.export_delta(run, place)
        else:
            settings = settings_at(canonical_root(place), None, spark)
            tables = exporting.export_parquet(run, place, settings)
        done = []
        for table in tables:
            done.append(table)
            if on_table is not None:
                on_table(table)
        return done

    def ingest_delta(
        self,
        path: str | Path,
        type: str,
        mode: str = "merge",
        branch: str | None = None,
        actor: str | None = None,
    ) -> Commit | None:
        """Take a Delta table into a type: all of it first, then what changed since, exactly once.

        The first run writes all rows of the table's newest version. Later ones read Delta's change
        data feed from the version after: inserts, updates and deletes land in one commit, deleted
        nodes take their edges along. A version that was taken in is recognised by the id of its
        commit (``txnAppId`` and ``txnVersion`` are the table's id and version), whoever repeats it.

        Args:
            path: The path of the Delta table.
            type: ``Person``, ``node:Person`` or ``edge:Knows``.
            mode: ``merge``; ``append`` for tables that only grow; ``overwrite`` takes the whole
                table each time and needs no change data feed.
            branch: The branch to write to; by default the bound one.
            actor: Who writes, recorded in the commit.

        Returns:
            The commit that holds the table's newest version; None when nothing was to be written.

        Raises:
            UnsupportedError: The session has no Delta, or the table no change data feed.

        >>> graph.ingest_delta("/lake/people", type="Person")  # doctest: +SKIP
        """
        if mode not in ("append", "merge", "overwrite"):
            raise InvalidOptionError("mode", mode, "append, merge or overwrite")
        self._refuse_read_only()
        from omnigraph_spark.session.frames import session_or_active
        from omnigraph_spark.session.lakehouse.delta import DeltaTable
        from omnigraph_spark.session.lakehouse.ingesting import Ingest

        spark = session_or_active(self._spark)
        name = self.branch if branch is None else check_branch_name(branch)
        heal(self._reader.manifest, name, held=False)
        terms = WriteTerms(actor=actor_or_user(actor or self._actor))
        table = DeltaTable(spark, _lake_path(path))
        commit = Ingest(self._reader, name, table, type, WriteMode(mode), terms).run()
        if commit is not None:
            self._written(commit)
        return commit


def _lake_path(path: str | Path) -> str:
    """Return a path that means the same to Spark as to Python: local ones are absolute."""
    text = str(path)
    return text if "://" in text else os.path.abspath(text)
