"""What is not as it should be in a graph, each finding with what to do about it.

Looks at one branch and at what all branches share, and changes nothing. It costs a few requests per
type, however many rows there are; a type whose files are not all of its newest version costs one or
two more for each older version, a hundred at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnigraph_spark.compaction import FRAGMENTS_KEPT
from omnigraph_spark.errors import (
    BranchNotFoundError,
    DamagedGraphError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.formats.v4.sidecar import Sidecar, list_sidecars, read_sidecar
from omnigraph_spark.formats.v4.staged_schema import staged_files
from omnigraph_spark.manifest import Entry, Manifest, ManifestState
from omnigraph_spark.names import MAIN, SCHEMA_APPLY_LOCK, timestamp_text
from omnigraph_spark.recovery.classify import classify
from omnigraph_spark.recovery.observe import observe
from omnigraph_spark.schema.indexes import IndexKind, declared_indexes
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.storage.branches import list_branches, read_branch
from omnigraph_spark.storage.datasets import (
    DatasetAddress,
    PinnedDataset,
    open_dataset,
    probe_version,
)
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.orphans import find_orphan_files
from omnigraph_spark.storage.places import moved_from
from omnigraph_spark.storage.translate import NOT_FOUND
from omnigraph_spark.storage.uri import join


class FindingKind(StrEnum):
    """What can be wrong."""

    UNFINISHED_WRITE = "unfinished_write"
    UNREADABLE_SIDECAR = "unreadable_sidecar"
    STAGED_SCHEMA = "staged_schema"
    SCHEMA_LOCK = "schema_lock"
    HEAD_AHEAD = "head_ahead"
    VERSION_RECLAIMED = "version_reclaimed"
    ORPHAN_FORK = "orphan_fork"
    ORPHAN_FOLDER = "orphan_folder"
    ORPHAN_FILES = "orphan_files"
    MISSING_INDEX = "missing_index"
    DOUBTFUL_INDEX = "doubtful_index"
    MANIFEST_FRAGMENTS = "manifest_fragments"
    MOVED_ROOT = "moved_root"


REMEDIES: dict[FindingKind, str] = {
    FindingKind.UNFINISHED_WRITE: "graph.recover() finishes or undoes it",
    FindingKind.UNREADABLE_SIDECAR: (
        "recover with the release that wrote it, or remove the file after looking into its types"
    ),
    FindingKind.STAGED_SCHEMA: "graph.recover() decides about them",
    FindingKind.SCHEMA_LOCK: (
        "if no schema change is running, graph.release_schema_lock() takes it away"
    ),
    FindingKind.HEAD_AHEAD: (
        "graph.repair() shows what was written outside of the graph; with confirm=True or "
        "force=True it is published"
    ),
    FindingKind.VERSION_RECLAIMED: (
        "restore the dataset from a copy, or delete the branch: a cleanup removed what it pins"
    ),
    FindingKind.ORPHAN_FORK: (
        "nothing reads it: the next write on a branch of that name makes it anew, and a cleanup "
        "removes it"
    ),
    FindingKind.ORPHAN_FOLDER: (
        "delete the folder: no type lies there, and a type of that name cannot be added before"
    ),
    FindingKind.ORPHAN_FILES: (
        "nothing reads them and they harm nothing but the bill: leave them, nothing here deletes "
        "files yet"
    ),
    FindingKind.MISSING_INDEX: (
        "graph.build_indexes() builds it; until then lookups read the whole type"
    ),
    FindingKind.DOUBTFUL_INDEX: (
        "graph.build_indexes() builds it anew; until then this package reads the rows instead"
    ),
    FindingKind.MANIFEST_FRAGMENTS: "graph.optimize() or the next write on the branch compacts it",
    FindingKind.MOVED_ROOT: (
        "move the graph back before the engine uses its branches; this package reads them here"
    ),
}


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be."""

    kind: FindingKind
    detail: str
    type_key: str | None = None

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return REMEDIES[self.kind]


def find_problems(manifest: Manifest, branch: str, schema: GraphSchema) -> list[Finding]:
    """Look at everything; an empty list means that all is well."""
    state = manifest.head(branch)
    branches = manifest.branch_names()
    sidecars, unfinished = _sidecars(manifest)
    unreadable = any(found.kind is FindingKind.UNREADABLE_SIDECAR for found in unfinished)
    return [
        *unfinished,
        *_schema_change(manifest),
        *_types(manifest, state, schema, sidecars, branches, unreadable),
        *_orphan_folders(manifest, state),
        *_manifest(manifest, state),
        *_moved_root(manifest, branches),
    ]


def _sidecars(manifest: Manifest) -> tuple[list[Sidecar], list[Finding]]:
    store = objects_at(manifest.root, manifest.settings)
    sidecars, findings = [], []
    for operation_id in list_sidecars(manifest.root, store):
        try:
            sidecar = read_sidecar(manifest.root, store, operation_id)
        except (DamagedGraphError, UnsupportedError) as error:
            findings.append(Finding(FindingKind.UNREADABLE_SIDECAR, error.describe()))
            continue
        if sidecar is not None:
            sidecars.append(sidecar)
            findings.append(Finding(FindingKind.UNFINISHED_WRITE, _describe(manifest, sidecar)))
    return sidecars, findings


def _describe(manifest: Manifest, sidecar: Sidecar) -> str:
    verdict = classify(sidecar, observe(manifest, sidecar).facts)
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return (
        f"{sidecar.writer} {sidecar.operation_id} on branch {sidecar.branch!r} began at "
        f"{timestamp_text(sidecar.started_at_us)} and did not end: {verdict.decision}{reason}"
    )


def _schema_change(manifest: Manifest) -> Iterator[Finding]:
    store = objects_at(manifest.root, manifest.settings)
    if staged := staged_files(manifest.root, store):
        detail = f"a schema change left new versions of {', '.join(staged)} beside those in force"
        yield Finding(FindingKind.STAGED_SCHEMA, detail)
    lock = manifest.branch_file(SCHEMA_APPLY_LOCK)
    if lock is not None:
        since = timestamp_text(lock.created_at_us)
        yield Finding(FindingKind.SCHEMA_LOCK, f"a schema change holds its lock since {since}")
    elif probe_version(manifest.address(SCHEMA_APPLY_LOCK), manifest.settings) is not None:
        detail = (
            "half of a lock is left of a process that died taking or releasing it: writing works, "
            "and no schema can be changed"
        )
        yield Finding(FindingKind.SCHEMA_LOCK, detail)


def _types(
    manifest: Manifest,
    state: ManifestState,
    schema: GraphSchema,
    sidecars: list[Sidecar],
    branches: list[str],
    unreadable: bool,
) -> Iterator[Finding]:
    own = None if state.branch == MAIN else state.branch
    pending = {pin.type_key for s in sidecars if s.branch == state.branch for pin in s.pins}
    owned = {pin.type_key for sidecar in sidecars for pin in sidecar.pins}
    for key, entry in state.entries.items():
        trunk = DatasetAddress(manifest.root, entry.path)
        for fork in list_branches(trunk, manifest.settings):
            # Of other branches than this one it is not known here which types they write.
            orphan = fork not in branches or (fork == own and entry.dataset_branch != own)
            if orphan and not _is_read(manifest, branches, key, entry, fork):
                detail = f"its dataset has a branch {fork!r} that no branch of the graph reads"
                yield Finding(FindingKind.ORPHAN_FORK, detail, key)
        if entry.dataset_branch == own and key not in pending:
            yield from _ahead(manifest, state, key, entry)
        dataset = _open(manifest, entry)
        if dataset is None:
            detail = f"version {entry.dataset_version} of its dataset is pinned and gone"
            yield Finding(FindingKind.VERSION_RECLAIMED, detail, key)
        else:
            if key not in owned and not unreadable:
                yield from _orphan_files(manifest, entry, dataset)
            yield from _missing_indexes(dataset, entry, schema)
            for column in sorted(dataset.doubtful_columns(manifest.settings)):
                detail = f"the index of column {column} may hold values that rows no longer have"
                yield Finding(FindingKind.DOUBTFUL_INDEX, detail, key)


def _is_read(manifest: Manifest, branches: list[str], key: str, entry: Entry, fork: str) -> bool:
    """Tell whether another branch pins a line of a dataset, or began one of its own on it."""
    trunk = DatasetAddress(manifest.root, entry.path)
    for other in list_branches(trunk, manifest.settings):
        file = read_branch(trunk, other, manifest.settings)
        if file is not None and file.parent == fork:
            return True
    for name in branches:
        try:
            pin = manifest.head(name).entries.get(key)
        except BranchNotFoundError:
            # Deleted since it was listed.
            continue
        if pin is not None and pin.dataset_branch == fork:
            return True
    return False


def _ahead(manifest: Manifest, state: ManifestState, key: str, entry: Entry) -> Iterator[Finding]:
    address = DatasetAddress(manifest.root, entry.path, entry.dataset_branch)
    newest = probe_version(address, manifest.settings)
    if newest is None or newest.number <= entry.dataset_version:
        return
    # Writers go on meanwhile: one that is landing has its sidecar, one that landed moved the pin.
    pending, _ = _sidecars(manifest)
    own = [sidecar for sidecar in pending if sidecar.branch == state.branch]
    is_landing = any(pin.type_key == key for sidecar in own for pin in sidecar.pins)
    if not is_landing and manifest.head(state.branch).entries.get(key) == entry:
        detail = (
            f"its dataset is at version {newest.number} and the manifest pins "
            f"{entry.dataset_version}: reading is exact, writing is refused"
        )
        yield Finding(FindingKind.HEAD_AHEAD, detail, str(entry.type_key))


def _open(manifest: Manifest, entry: Entry) -> PinnedDataset | None:
    address = DatasetAddress(manifest.root, entry.path, entry.dataset_branch)
    try:
        return open_dataset(address, entry.dataset_version, manifest.settings, entry.tag)
    except StorageError as error:
        if error.kind != NOT_FOUND:
            raise
        return None


def _orphan_files(manifest: Manifest, entry: Entry, dataset: PinnedDataset) -> Iterator[Finding]:
    """Find what writers that died staged; what a sidecar may name is looked at after recovery."""
    address = DatasetAddress(manifest.root, entry.path, entry.dataset_branch)
    for found in find_orphan_files(address, dataset, manifest.settings):
        files = "file" if found.files == 1 else "files"
        detail = (
            f"{found.files} {files} of {found.size_bytes:,} bytes "
            f"in {found.folder} have lain there for a day, and no version names them"
        )
        yield Finding(FindingKind.ORPHAN_FILES, detail, str(entry.type_key))


def _missing_indexes(
    dataset: PinnedDataset, entry: Entry, schema: GraphSchema
) -> Iterator[Finding]:
    declared = schema.get(entry.type_key)
    if declared is None or not entry.rows:
        return
    there = {(index.columns[0], index.kind) for index in dataset.indexes() if index.columns}
    for wanted in declared_indexes(declared):
        # A vector index waits for the first vector, and whether there is one only rows tell.
        if wanted.kind is not IndexKind.VECTOR and (wanted.column, str(wanted.kind)) not in there:
            detail = f"column {wanted.column} has no {wanted.kind} index"
            yield Finding(FindingKind.MISSING_INDEX, detail, str(entry.type_key))


def _orphan_folders(manifest: Manifest, state: ManifestState) -> Iterator[Finding]:
    """Find folders of types that no manifest names: a schema change made them and was undone."""
    store = objects_at(manifest.root, manifest.settings)
    known = _locations(manifest, state)
    for kind in ("nodes", "edges"):
        for name in store.folders(join(manifest.root, kind)):
            if f"{kind}/{name}" not in known:
                yield Finding(FindingKind.ORPHAN_FOLDER, f"nothing names the folder {kind}/{name}")


def _locations(manifest: Manifest, state: ManifestState) -> set[str]:
    on_main: Mapping[str, str] = state.locations
    if state.branch != MAIN:
        # Types are added on main, while it is the only branch.
        on_main = manifest.head().locations
    return {*on_main.values(), *state.locations.values()}


def _manifest(manifest: Manifest, state: ManifestState) -> Iterator[Finding]:
    dataset = manifest.open_version(state.branch, state.version, state.newest)
    count = len(dataset.fragments())
    if count > FRAGMENTS_KEPT:
        yield Finding(
            FindingKind.MANIFEST_FRAGMENTS,
            f"__manifest of branch {state.branch!r} has {count} fragments, above {FRAGMENTS_KEPT}: "
            f"reading and publishing cost more than they need to",
        )


def _moved_root(manifest: Manifest, branches: list[str]) -> Iterator[Finding]:
    """Look at one branch: all of them name the place where the graph was."""
    name = next((name for name in branches if name != MAIN), None)
    if name is None:
        return
    old = moved_from(manifest.address(name), manifest.newest(name).number, manifest.settings)
    if old is not None:
        detail = f"branches were made when the graph lay elsewhere: they name {old}"
        yield Finding(FindingKind.MOVED_ROOT, detail)
