"""The manifest of a graph: read at one version, folded to the datasets it pins, cached by version.

`fold` is pure. `Manifest` does the reading: it never trusts a cache without asking storage for the
newest version first, which costs one listing request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from omnigraph_spark.errors import (
    BranchNotFoundError,
    DamagedGraphError,
    GraphNotFoundError,
    InvalidNameError,
    SchemaApplyInProgressError,
    StorageError,
    VersionNotFoundError,
)
from omnigraph_spark.formats.profile import (
    MANIFEST_PATH,
    STAMP_KEY,
    FormatProfile,
    ManifestRows,
    PinRow,
    choose_profile,
)
from omnigraph_spark.lineage import Lineage
from omnigraph_spark.names import MAIN, SCHEMA_APPLY_LOCK, TypeKey, check_branch_name
from omnigraph_spark.storage.branches import BranchFile, list_branches, read_branch
from omnigraph_spark.storage.datasets import (
    DatasetAddress,
    PinnedDataset,
    VersionTag,
    open_dataset,
    probe_version,
    probe_versions,
    version_file,
)
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import NOT_FOUND, PERMANENT
from omnigraph_spark.storage.uri import is_s3, join

if TYPE_CHECKING:
    import pyarrow as pa

#: Folded manifests kept per process; one holds a few kilobytes per type and commit.
_STATES_KEPT = 64
# A manifest is read whole. Lance's own block of 64 KiB would need more requests as history grows;
# thousands of commits fit this one.
_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class Entry:
    """One type of a snapshot: which dataset, on which of its branches, at which version."""

    type_key: TypeKey
    path: str
    dataset_branch: str | None
    dataset_version: int
    rows: int
    #: Tells two datasets apart that had the same address and version at different times.
    tag: str | None = None


@dataclass(frozen=True)
class ManifestState:
    """One manifest version, folded."""

    branch: str
    version: int
    entries: Mapping[str, Entry]
    lineage: Lineage
    profile: FormatProfile
    #: The branch's newest version when this was read: its identity, whatever the name.
    newest: VersionTag
    #: Where the dataset of every type lies that ever was, by type key.
    locations: Mapping[str, str]
    #: At which dataset version a type was ended, by type key.
    ended: Mapping[str, int]
    #: The newest version that may have brought another schema.
    schema_since: VersionTag

    def visible_version(self, type_key: str) -> int:
        """Return the dataset version that expectations of writers are compared with.

        For a type that was ended it is the version of its end, for an unknown one it is 0.
        """
        if type_key in self.entries:
            return self.entries[type_key].dataset_version
        return self.ended.get(type_key, 0)


def fold(rows: ManifestRows, profile: FormatProfile) -> dict[str, Entry]:
    """Reduce manifest rows to one entry per type; a ValueError says what is impossible in them.

    The greatest version per type counts, on whatever dataset branch, unless a tombstone is as high.
    """
    latest: dict[str, PinRow] = {}
    for pin in rows.pins:
        if pin.type_key not in rows.locations:
            raise ValueError(f"__manifest is missing the table row for {pin.type_key}")
        if pin.dataset_version >= latest.get(pin.type_key, pin).dataset_version:
            latest[pin.type_key] = pin
    for type_key, version in rows.tombstones:
        if type_key in latest and version >= latest[type_key].dataset_version:
            del latest[type_key]
    return {key: _entry(latest[key], rows.locations[key], profile) for key in sorted(latest)}


def _entry(pin: PinRow, path: str, profile: FormatProfile) -> Entry:
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"__manifest places {pin.type_key} outside of the graph, at {path!r}")
    try:
        type_key = TypeKey.parse(pin.type_key)
    except InvalidNameError as error:
        raise ValueError(f"__manifest holds a table named {pin.type_key!r}") from error
    if pin.dataset_branch is not None:
        _check_dataset_branch(pin.type_key, pin.dataset_branch)
    return Entry(
        type_key=type_key,
        path=path,
        dataset_branch=pin.dataset_branch,
        dataset_version=pin.dataset_version,
        rows=pin.rows,
        tag=profile.dataset_tag(pin),
    )


def _check_dataset_branch(type_key: str, branch: str) -> None:
    try:
        check_branch_name(branch)
    except InvalidNameError as error:
        raise ValueError(f"__manifest places {type_key} on dataset branch {branch!r}") from error


@dataclass(frozen=True)
class Manifest:
    """The `__manifest` of one graph, on all its branches."""

    root: str
    settings: StorageSettings

    def newest(self, branch: str = MAIN) -> VersionTag:
        """Ask storage for the newest manifest version of a branch: one listing request."""
        tag = probe_version(self.address(branch), self.settings)
        if tag is None:
            raise self._missing(branch)
        return tag

    def head(self, branch: str = MAIN) -> ManifestState:
        """Return the newest state of a branch."""
        tags = probe_versions(self.address(branch), self.settings, 2)
        if not tags:
            raise self._missing(branch)
        follower = _followers.get((self, branch))
        if follower is not None and tags == follower.seen_as(tags[0]):
            return replace(follower.state, newest=tags[0])
        return _read_state(self, branch, tags[0].number, tags[0])

    def surely_head(self, branch: str = MAIN) -> ManifestState:
        """Return the newest state, also where a listing may be older than what was written.

        For those who take a state whole, as a branch or a merge does: no publish tells them that it
        was not the newest. The next version is looked for by its name: one request more.
        """
        state = self.head(branch)
        while is_s3(self.root):
            version = state.newest.number + 1
            found = objects_at(self.root, self.settings).stat(
                version_file(self.address(branch), version)
            )
            if found is None:
                break
            state = _read_state(self, branch, version, VersionTag(version, found.e_tag.strip('"')))
        return state

    def follow(self, before: ManifestState, published: pa.Table) -> None:
        """Remember what a publish of this process made of a state, so that it is not read again.

        It landed as the version after `before`. Where that version is found again, so is this one.
        """
        rows = before.profile.split_rows(published)
        if rows.locations or rows.tombstones:
            return
        entries = dict(before.entries)
        for pin in rows.pins:
            entry = _entry(pin, before.locations[pin.type_key], before.profile)
            entries[pin.type_key] = replace(entry, tag=entry.tag or before.newest.e_tag)
        state = replace(
            before,
            version=before.version + 1,
            entries={key: entries[key] for key in sorted(entries)},
            lineage=before.lineage.followed_by(rows.commits),
        )
        if len(_followers) >= _STATES_KEPT:
            _followers.clear()
        _followers[self, before.branch] = _Follower(before.newest, state)

    def at(self, branch: str, version: int, newest: VersionTag | None = None) -> ManifestState:
        """Return the state of a branch at one of its manifest versions.

        `newest` is the branch's newest version when the caller asked for it just now.
        """
        return _read_state(self, branch, version, newest or self.newest(branch))

    def branch_names(self) -> list[str]:
        """Return the names of the graph's branches in byte order, without the engine's own."""
        names = {*list_branches(self.address(MAIN), self.settings), MAIN}
        return sorted(names - {SCHEMA_APPLY_LOCK})

    def branch_file(self, branch: str) -> BranchFile | None:
        """Return where a branch began; None for main and for what does not exist."""
        return read_branch(self.address(MAIN), branch, self.settings)

    def schema_apply_in_progress(self) -> bool:
        """Tell whether a schema apply holds its lock (or died holding it)."""
        return self.branch_file(SCHEMA_APPLY_LOCK) is not None

    def refuse_during_schema_apply(self, operation: str) -> None:
        """Refuse an operation while a schema apply holds its lock, as every writer must."""
        if self.schema_apply_in_progress():
            detail = f"{operation} has to wait: a schema change holds its lock on {self.root!r}"
            raise SchemaApplyInProgressError(detail)

    def address(self, branch: str = MAIN) -> DatasetAddress:
        """Return where the manifest of a branch lies."""
        return DatasetAddress(self.root, MANIFEST_PATH, None if branch == MAIN else branch)

    def _missing(self, branch: str) -> Exception:
        if branch != MAIN and probe_version(self.address(MAIN), self.settings) is not None:
            return BranchNotFoundError(branch, tuple(self.branch_names()))
        store = objects_at(self.root, self.settings)
        if not store.exists(self.root):
            return GraphNotFoundError(self.root, "nothing is there")
        if store.read(join(self.root, "_schema.pg")) is not None:
            return GraphNotFoundError(self.root, "its creation was interrupted before __manifest")
        return GraphNotFoundError(self.root)

    def explain(self, branch: str, error: StorageError) -> Exception:
        """Say what a storage failure while reading the manifest means."""
        if error.kind not in (NOT_FOUND, PERMANENT):
            return error
        if probe_version(self.address(branch), self.settings) is None:
            # Deleted since it was found.
            return self._missing(branch)
        return DamagedGraphError(self.root, f"its __manifest cannot be read: {error.detail}")

    def opened(self, state: ManifestState) -> PinnedDataset | None:
        """Return the version of a state as it was read; None where others may have moved on.

        Only object stores ask for it: elsewhere a version costs nothing to open.
        """
        if state.version != state.newest.number or not is_s3(self.root):
            return None
        return self.open_version(state.branch, state.version, state.newest)

    def open_version(self, branch: str, version: int, newest: VersionTag) -> PinnedDataset:
        """Open one manifest version; `newest` tells this branch from one made anew."""
        if version > newest.number:
            raise VersionNotFoundError(branch, version, newest.number)
        try:
            return open_dataset(
                self.address(branch), version, self.settings, newest.e_tag, _BLOCK_BYTES
            )
        except StorageError as error:
            if error.kind != NOT_FOUND or version == newest.number:
                raise self.explain(branch, error) from error
            file = self.branch_file(branch)
            reason = f"the branch began at {file.parent_version}" if file else "it was removed"
            raise VersionNotFoundError(branch, version, newest.number, reason) from error


@dataclass(frozen=True)
class _Follower:
    """The state that a publish of this process made of another."""

    before: VersionTag
    state: ManifestState

    def seen_as(self, newest: VersionTag) -> list[VersionTag]:
        """Return the two newest versions as storage lists them while nothing else happened."""
        return [VersionTag(self.state.version, newest.e_tag), self.before]


#: The newest one of each branch.
_followers: dict[tuple[Manifest, str], _Follower] = {}


@lru_cache(maxsize=_STATES_KEPT)
def _read_state(manifest: Manifest, branch: str, version: int, newest: VersionTag) -> ManifestState:
    """Read and fold one manifest version; `newest` is in the key, so nothing stale is returned."""
    # A folder without its ref file is debris of a deleted or refused branch.
    if branch != MAIN and manifest.branch_file(branch) is None:
        raise BranchNotFoundError(branch, tuple(manifest.branch_names()))
    # The stamp is read from the newest version: the first ones of a graph have none yet.
    head = manifest.open_version(branch, newest.number, newest)
    profile = choose_profile(head.schema_metadata.get(STAMP_KEY), manifest.root)
    dataset = head
    if version != newest.number:
        dataset = manifest.open_version(branch, version, newest)
    try:
        rows = profile.split_rows(dataset.table())
        entries = fold(rows, profile)
    except StorageError as error:
        raise manifest.explain(branch, error) from error
    except ValueError as error:
        raise DamagedGraphError(manifest.root, str(error)) from error
    # A pin without a tag is told apart by the manifest that holds it.
    tagged = {key: replace(entry, tag=entry.tag or newest.e_tag) for key, entry in entries.items()}
    lineage = Lineage(rows.commits, profile, manifest.root)
    ended: dict[str, int] = {}
    for type_key, end in rows.tombstones:
        ended[type_key] = max(end, ended.get(type_key, 0))
    return ManifestState(
        branch, version, tagged, lineage, profile, newest, rows.locations, ended, newest
    )
