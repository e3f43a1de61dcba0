"""Looking after a graph: the part of `Graph` that recovers, repairs and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omnigraph_spark.health import Finding, find_problems
from omnigraph_spark.maintenance import indexing, optimizing
from omnigraph_spark.maintenance.indexing import IndexBuild
from omnigraph_spark.maintenance.optimizing import Optimization
from omnigraph_spark.maintenance.running import runner_for
from omnigraph_spark.names import SCHEMA_APPLY_LOCK
from omnigraph_spark.recovery import repair as repairing
from omnigraph_spark.recovery import sweep
from omnigraph_spark.recovery.act import Recovery
from omnigraph_spark.recovery.repair import Repair
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage.branches import delete_branch, is_half_made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph_spark.schema.model import GraphSchema


class Upkeep:
    """What `Graph` offers for looking after a graph."""

    if TYPE_CHECKING:
        _reader: GraphReader
        _spark: SparkSession | None

        @property
        def branch(self) -> str: ...

        @property
        def schema(self) -> GraphSchema: ...

        def refresh(self) -> object: ...

        def _refuse_read_only(self) -> None: ...

    def health(self) -> list[Finding]:
        """List what is not as it should be, each with its remedy; empty means all is well.

        Looks at the bound branch and at what all branches share, and changes nothing.

        >>> for found in graph.health():  # doctest: +SKIP
        ...     print(found.kind, found.detail, found.remedy)
        """
        return find_problems(self._reader.manifest, self.branch, self.schema)

    def recover(self, force: bool = False) -> list[Recovery]:
        """Finish or undo every interrupted write of the graph, and say what was done.

        Opening with ``mode="rw"`` does the same, and each write does it for its branch. A write
        that another process is just making is waited for.

        Args:
            force: Also undo a write that has somebody else's commit on top, which is lost then, or
                (on object stores) one that may have a live writer. The engine always does.

        Raises:
            ForeignCommitError: A commit of another writer lies on top of an unfinished write.
            DamagedGraphError: A sidecar cannot be read, or a dataset is behind what is visible.
            UnsupportedError: A sidecar was written by a newer release.
            ConflictError: A live writer did not end in time.
        """
        self._refuse_read_only()
        recovered = sweep.recover(self._reader.manifest, force=force)
        self.refresh()
        return recovered

    def repair(self, confirm: bool = False, force: bool = False) -> list[Repair]:
        """Say which types have a dataset ahead of what the graph pins; publish that on request.

        Such a version was written outside of the graph. Reading is not affected, writing to the
        type is refused until it is published here or undone.

        Args:
            confirm: Publish what only compacted files; the rest is refused.
            force: Publish everything, unchecked.

        Raises:
            RecoveryRequiredError: There are interrupted writes; recover first.
            SchemaApplyInProgressError: A schema change holds its lock.
        """
        manifest = self._reader.manifest
        if not confirm and not force:
            return repairing.preview_repair(manifest, self.branch)
        self._refuse_read_only()
        repaired = repairing.repair(manifest, self.branch, force=force)
        self.refresh()
        return repaired

    def build_indexes(self) -> list[IndexBuild]:
        """Build the declared indexes that are missing or do not cover all rows, in one commit.

        Ids, ends of edges, and properties of nodes with ``@key`` or ``@index``. Reading is exact
        without them; a lookup then reads the whole type. Work on many rows is done by Spark when
        there is a session. Types that the bound branch has not written belong to another branch
        and are left to it. A type that is written meanwhile is left as it was, which its
        ``skipped`` says.

        Raises:
            SchemaApplyInProgressError: A schema change holds its lock.
            RecoveryRequiredError: There is an interrupted write that only a person may undo.
        """
        self._refuse_read_only()
        manifest, runner = self._reader.manifest, runner_for(self._spark)
        built = indexing.build_indexes(manifest, self.branch, self.schema, runner)
        self.refresh()
        return built

    def optimize(
        self, on_done: Callable[[Optimization], None] = lambda done: None
    ) -> list[Optimization]:
        """Put small files together, leave deleted rows behind and bring indexes up to date.

        Types the bound branch owns, one commit or two each, then its manifest. No row changes, and
        readers of older snapshots are not affected. A type that is written meanwhile is left as it
        was, which its ``skipped`` says. `on_done` is told of each type when it is
        done. Raises what `build_indexes` raises.
        """
        self._refuse_read_only()
        manifest, runner = self._reader.manifest, runner_for(self._spark)
        done = optimizing.optimize(manifest, self.branch, self.schema, runner, on_done)
        self.refresh()
        return done

    def release_schema_lock(self) -> bool:
        """Take away the lock of a schema change whose process died; False when there is none.

        Only a person knows that no schema change is running: nothing on disk tells. What the dead
        one left half done is recovered first. Half a lock is taken away, too.
        """
        self._refuse_read_only()
        manifest = self._reader.manifest
        trunk, settings = manifest.address(), manifest.settings
        held = manifest.schema_apply_in_progress()
        if not held and not is_half_made(trunk, SCHEMA_APPLY_LOCK, settings):
            return False
        sweep.recover(manifest)
        delete_branch(trunk, SCHEMA_APPLY_LOCK, settings)
        # Staged schema files without a sidecar are left alone while the lock is there.
        sweep.recover(manifest)
        self.refresh()
        return True
