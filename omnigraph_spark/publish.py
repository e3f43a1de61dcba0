"""The one door: one write to `__manifest` makes the changes of one commit visible, all or none.

Each attempt reads the branch anew, checks that what the write was planned on still holds, and
merges its rows on exactly that version. Every publish rewrites the row of its branch's head, so of
two racing publishers one loses, looks again and decides again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph_spark.compaction import compact_when_due
from omnigraph_spark.errors import (
    ConflictError,
    DamagedGraphError,
    ExpectedVersionError,
    HeadMovedError,
    OmnigraphError,
    OutcomeUnknownError,
    StorageError,
    TypeNotFoundError,
)
from omnigraph_spark.failpoints import PUBLISH_LANDED
from omnigraph_spark.formats.profile import (
    Commit,
    LocationRow,
    NewRow,
    PinRow,
    TombstoneRow,
)
from omnigraph_spark.manifest import Manifest, ManifestState
from omnigraph_spark.storage.fence import LandedVersion
from omnigraph_spark.storage.manifest_writer import Landed, merge_rows
from omnigraph_spark.storage.objects import IN_DOUBT, REFUSED
from omnigraph_spark.storage.uri import is_s3

#: The engine's own budget: one try and five more. Each loser has seen another commit land, so there
#: is nothing to wait for between them.
ATTEMPTS = 6


@dataclass(frozen=True)
class PublishVersion:
    """Pin a type to a dataset version that has landed."""

    type_key: str
    landed: LandedVersion
    #: The Lance branch of the dataset that holds the version, None for its main line.
    dataset_branch: str | None
    rows: int


@dataclass(frozen=True)
class RegisterType:
    """Add a type whose dataset lies at a path below the root."""

    type_key: str
    path: str


@dataclass(frozen=True)
class TombstoneType:
    """End a type: what is pinned at or below this dataset version no longer counts."""

    type_key: str
    version: int


Change = PublishVersion | RegisterType | TombstoneType


@dataclass(frozen=True)
class LineageIntent:
    """The commit a publish will make; its id is drawn once, before the first attempt."""

    commit_id: str
    created_at_us: int
    actor: str | None = None
    merged_parent_id: str | None = None


def publish(
    manifest: Manifest,
    branch: str,
    changes: Sequence[Change],
    expect: Mapping[str, int],
    lineage: LineageIntent,
    if_head: str | None = None,
    seen: ManifestState | None = None,
) -> Commit:
    """Make changes visible in one commit on a branch, and return it.

    Args:
        manifest: The manifest of the graph.
        branch: The branch that moves.
        changes: What the commit changes; nothing at all is a commit too.
        expect: The dataset version by type key that must still be the visible one, 0 for a type
            that must not exist.
        lineage: The commit to make. When its work is done already (`find_repeat`), the commit that
            did it is returned and nothing is written.
        if_head: The commit that must still be the head of the branch.
        seen: The branch as the caller just saw it, which saves the first attempt a request. When it
            moved since, that attempt loses its race like any other.

    Raises:
        ConflictError: Nothing became visible: an expectation no longer holds
            (`ExpectedVersionError`), the head moved (`HeadMovedError`), a change contradicts what
            is there, or every attempt lost its race.
        StorageError: Nothing became visible, because storage failed.
        OutcomeUnknownError: Storage failed, and whether the commit is visible could not be seen.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            seen = _look_again(manifest, branch, lineage.commit_id)
        state, seen = seen or manifest.head(branch), None
        if (repeat := find_repeat(state, lineage.commit_id)) is not None:
            return repeat
        _check_head(state, if_head)
        _check_expectations(manifest, state, expect)
        commit = _next_commit(manifest.root, state, lineage)
        table = state.profile.encode_rows(plan_rows(state, changes), commit)
        try:
            opened = manifest.opened(state)
            done = merge_rows(
                manifest.address(branch), state.version, table, manifest.settings, opened
            )
        except StorageError as error:
            return _settle(manifest, branch, commit, error)
        if isinstance(done, Landed):
            PUBLISH_LANDED.reached()
            if done.version == state.version + 1:
                manifest.follow(state, table)
            compact_when_due(manifest, branch, done)
            return commit
    detail = f"{ATTEMPTS} attempts to publish on branch {branch!r} each met another commit"
    raise ConflictError(detail)


def find_repeat(state: ManifestState, commit_id: str) -> Commit | None:
    """Return the visible commit that did the work a commit id names, None when none did yet."""
    return state.lineage.find_repeat(commit_id)


def plan_rows(state: ManifestState, changes: Sequence[Change]) -> list[NewRow]:
    """Turn changes into rows, registrations first; refuse what contradicts the state.

    Stricter than the format, which takes a pin below the visible version and never shows it.
    """
    registered = dict(state.locations)
    planned: list[NewRow] = []
    for change in changes:
        if isinstance(change, RegisterType):
            known = registered.setdefault(change.type_key, change.path)
            if known != change.path:
                raise ConflictError(f"{change.type_key} is registered at {known!r} already")
            planned.append(LocationRow(change.type_key, change.path))
    named: set[str] = set()
    for change in changes:
        if isinstance(change, RegisterType):
            continue
        if change.type_key not in registered:
            raise TypeNotFoundError(change.type_key, tuple(registered))
        if change.type_key in named:
            raise ValueError(f"one publish changes {change.type_key} twice")
        named.add(change.type_key)
        planned.append(
            _pin(state, change) if isinstance(change, PublishVersion) else _tombstone(state, change)
        )
    return planned


def _pin(state: ManifestState, change: PublishVersion) -> PinRow:
    key, landed = change.type_key, change.landed
    current = state.visible_version(key)
    entry = state.entries.get(key)
    # A pin that only moves to another dataset branch takes the place of the old one.
    moved = entry is not None and (
        landed.number == current
        and change.rows == entry.rows
        and change.dataset_branch != entry.dataset_branch
    )
    if landed.number <= current and not moved:
        raise ConflictError(f"{key} is at version {current} already, so not at {landed.number}")
    detail = state.profile.pin_detail(landed.manifest_path, landed.manifest_size, landed.e_tag)
    return PinRow(key, landed.number, change.dataset_branch, change.rows, detail)


def _tombstone(state: ManifestState, change: TombstoneType) -> TombstoneRow:
    current = state.visible_version(change.type_key)
    ended = change.type_key in state.ended and change.type_key not in state.entries
    if change.version < current or (ended and change.version == current):
        detail = f"{change.type_key} cannot end at version {change.version}: it is at {current}"
        raise ConflictError(detail)
    return TombstoneRow(change.type_key, change.version)


def _next_commit(root: str, state: ManifestState, lineage: LineageIntent) -> Commit:
    parent = state.lineage.head
    if parent is None:
        raise DamagedGraphError(root, f"branch {state.branch!r} has no graph commit")
    return Commit(
        id=lineage.commit_id,
        branch=state.branch,
        # The version this publish will be, unless something that is no publish slips in between.
        manifest_version=state.version + 1,
        parent_id=parent.id,
        merged_parent_id=lineage.merged_parent_id,
        actor=lineage.actor,
        created_at_us=lineage.created_at_us,
    )


def _check_head(state: ManifestState, if_head: str | None) -> None:
    head = state.lineage.head
    if if_head is not None and (head is None or head.id != if_head):
        found = "has no commit" if head is None else f"is at commit {head.id}"
        raise HeadMovedError(f"branch {state.branch!r} {found}, not at {if_head}")


def _check_expectations(
    manifest: Manifest, state: ManifestState, expect: Mapping[str, int]
) -> None:
    for type_key, expected in sorted(expect.items()):
        actual = state.visible_version(type_key)
        if actual == expected:
            continue
        winner = find_publisher(manifest, state, type_key, actual)
        by = f" since commit {winner}" if winner else ""
        detail = (
            f"{type_key} on branch {state.branch!r} was planned on at version {expected} "
            f"and is at {actual}{by}"
        )
        raise ExpectedVersionError(detail, type_key, expected, actual, winner)


def find_publisher(
    manifest: Manifest, state: ManifestState, type_key: str, version: int
) -> str | None:
    """Return the commit that pinned a type to a version, or ended it; None when it is unknown."""
    dataset = manifest.open_version(state.branch, state.version, state.newest)
    table = dataset.table(list(state.profile.PUBLISHER_COLUMNS))
    return state.profile.publisher_of(table, type_key, version)


def _look_again(manifest: Manifest, branch: str, commit_id: str) -> ManifestState:
    """Return the branch after a lost race: the winner may be this publish, not acknowledged."""
    try:
        return manifest.head(branch)
    except StorageError as unseen:
        if not is_s3(manifest.root):
            raise
        detail = f"it met another commit, or itself, then {unseen.describe()}"
        raise OutcomeUnknownError(commit_id, detail) from unseen


def _settle(manifest: Manifest, branch: str, commit: Commit, error: StorageError) -> Commit:
    """Look whether a publish landed whose answer was lost or bad."""
    try:
        found = manifest.head(branch).lineage.find(commit.id)
    except OmnigraphError as unseen:
        if error.kind in REFUSED and is_s3(manifest.root):
            raise error from unseen
        raise OutcomeUnknownError(commit.id, f"{error.detail}, then {unseen}") from unseen
    if found is not None:
        return found
    # A request that was given up may still be carried out. On a disk there are no such requests.
    if error.kind == IN_DOUBT and is_s3(manifest.root):
        raise OutcomeUnknownError(commit.id, error.detail) from error
    raise error
