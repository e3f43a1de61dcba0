"""Everything that makes a graph quick again: indexes, then fragments, type by type; the manifest.

Each type is a landing of its own, under a sidecar of its own, so that one that another writer got
hold of costs nothing but its own work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph_spark.compaction import compact_manifest
from omnigraph_spark.formats.profile import MANIFEST_PATH, Commit
from omnigraph_spark.formats.v4.sidecar import WriterKind
from omnigraph_spark.maintenance.compacting import prepare_compaction
from omnigraph_spark.maintenance.indexing import IndexBuild, prepare_indexes, settled
from omnigraph_spark.maintenance.running import Runner
from omnigraph_spark.maintenance.settling import OVERTAKEN, Held, heal_first, owned, settle
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.schema.model import EntityType, GraphSchema


@dataclass(frozen=True)
class Optimization:
    """What was done about one type, or about the manifest."""

    #: `__manifest` for the manifest.
    type_key: str
    fragments_removed: int = 0
    fragments_added: int = 0
    indexes: tuple[IndexBuild, ...] = ()
    #: The commits it became visible with; of the manifest there is none.
    commits: tuple[Commit, ...] = ()
    #: Why fragments were left as they were, where there was something to do.
    skipped: str | None = None


def optimize(
    manifest: Manifest,
    branch: str,
    schema: GraphSchema,
    run: Runner,
    on_done: Callable[[Optimization], None],
) -> list[Optimization]:
    """Compact and index the types whose datasets a branch owns, then compact its manifest."""
    state = heal_first(manifest, branch, "optimizing")
    done = []
    for held in owned(state):
        done.append(_optimize_type(manifest, held, schema.get(held.entry.type_key), run))
        on_done(done[-1])
    return [*done, _optimize_manifest(manifest, branch)]


def _optimize_type(
    manifest: Manifest, held: Held, declared: EntityType | None, run: Runner
) -> Optimization:
    # Indexes first: fragments are only put together with others that the same indexes cover.
    chosen = [(held, declared)] if declared is not None else []
    reworks, found = prepare_indexes(manifest, chosen, run)
    indexed, landed = settle(manifest, held.branch, WriterKind.OPTIMIZE, reworks)
    builds = tuple(settled(build, indexed, landed) for build in found)
    commits = () if indexed is None else (indexed,)
    if found and indexed is None:
        return Optimization(held.key, indexes=builds, skipped=OVERTAKEN)
    entry = manifest.head(held.branch).entries.get(held.key, held.entry)
    compaction = prepare_compaction(manifest, Held(entry, held.branch), declared, run)
    if compaction.rework is None:
        return Optimization(held.key, indexes=builds, commits=commits, skipped=compaction.skipped)
    reworks = [compaction.rework]
    compacted, _ = settle(manifest, held.branch, WriterKind.OPTIMIZE, reworks)
    if compacted is None:
        return Optimization(held.key, indexes=builds, commits=commits, skipped=OVERTAKEN)
    return Optimization(
        type_key=held.key,
        fragments_removed=compaction.fragments_removed,
        fragments_added=compaction.fragments_added,
        indexes=builds,
        commits=(*commits, compacted),
    )


def _optimize_manifest(manifest: Manifest, branch: str) -> Optimization:
    """Compact the manifest; a publish that comes between does it later anyway."""
    before = _manifest_fragments(manifest, branch)
    landed = compact_manifest(manifest, branch)
    after = _manifest_fragments(manifest, branch)
    if not landed or after >= before:
        return Optimization(MANIFEST_PATH, skipped=None if landed else OVERTAKEN)
    return Optimization(MANIFEST_PATH, before, after)


def _manifest_fragments(manifest: Manifest, branch: str) -> int:
    newest = manifest.newest(branch)
    return len(manifest.open_version(branch, newest.number, newest).fragments())
