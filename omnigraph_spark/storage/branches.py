"""Lance branches of a dataset: the ref files that say which exist, and making and deleting them.

A branch is a folder of versions below `tree/` and a ref file. Lance writes the folder first and
checks little: it takes two branches of one name made at once for one, and cannot get rid of half a
branch. So whoever makes one reserves the folder first, and deleting works on any half.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from urllib.parse import quote, unquote
from uuid import uuid4

from omnigraph_spark.clock import now_us
from omnigraph_spark.errors import (
    BranchExistsError,
    BranchInUseError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.failpoints import (
    BRANCH_FINISHED,
    BRANCH_NAMED,
    BRANCH_REMOVED,
    BRANCH_RESERVED,
    BRANCH_UNNAMED,
)
from omnigraph_spark.storage.datasets import DatasetAddress, probe_version
from omnigraph_spark.storage.objects import IN_DOUBT, objects_at
from omnigraph_spark.storage.row_ids import keep_stable_row_ids
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import is_about_ref, lance_errors
from omnigraph_spark.storage.uri import is_s3, join
from omnigraph_spark.storage.versions import landed_version

_SUFFIX = ".json"
#: Folders of a dataset; a branch `dev/x` lies inside the folder of `dev`, but in none of these.
_PARTS = ("_versions", "_transactions", "data", "_deletions", "_indices")
#: A file in the folder of a branch that is being made.
RESERVATION = "_reservation"


@dataclass(frozen=True)
class BranchFile:
    """One Lance branch: its parent branch (None = main), the version it began at, and when."""

    name: str
    parent: str | None
    parent_version: int
    created_at_us: int
    #: Drawn when it was made: tells it from one of the same name, place and second.
    identity: str = ""


@dataclass(eq=False)
class UnfinishedBranchError(Exception):
    """The folder of a branch is taken but there is no ref: it is being made, or was abandoned.

    Only whoever knows that nobody is at work may clear it, with `delete_branch`.
    """

    uri: str

    def __str__(self) -> str:
        return f"{self.uri} holds half a branch"


def list_branches(dataset: DatasetAddress, settings: StorageSettings) -> list[str]:
    """Return the names of all branches but main, in byte order."""
    listing = objects_at(dataset.root, settings).listing(_folder(dataset))
    names = (entry.name for entry in listing if entry.name.endswith(_SUFFIX))
    return sorted(unquote(name.removesuffix(_SUFFIX)) for name in names)


def read_branch(dataset: DatasetAddress, name: str, settings: StorageSettings) -> BranchFile | None:
    """Read one branch's ref file, or return None when there is no such branch."""
    address = _ref(dataset, name)
    content = objects_at(dataset.root, settings).read(address)
    if content is None:
        return None
    try:
        ref = json.loads(content)
        return BranchFile(
            name=name,
            parent=ref["parentBranch"],
            parent_version=int(ref["parentVersion"]),
            created_at_us=int(ref["createAt"]) * 1_000_000,
            identity=json.dumps(ref.get("identifier")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError("permanent", address, "not a branch ref file") from error


def is_half_made(dataset: DatasetAddress, name: str, settings: StorageSettings) -> bool:
    """Tell whether there is a part of a branch that has no ref: being made, or abandoned."""
    if read_branch(dataset, name, settings) is not None:
        return False
    own = DatasetAddress(dataset.root, dataset.path, name)
    reservation = objects_at(dataset.root, settings).stat(join(own.uri, RESERVATION))
    return reservation is not None or probe_version(own, settings) is not None


def create_branch(
    dataset: DatasetAddress,
    name: str,
    from_branch: str | None,
    from_version: int,
    settings: StorageSettings,
) -> None:
    """Make a branch that begins at a version of another (None = main).

    `BranchExistsError` when there is one of that name, `UnfinishedBranchError` when there is half
    of one; of several callers at once one succeeds.
    """
    own = DatasetAddress(dataset.root, dataset.path, name)
    if "?" in dataset.base:
        # Lance takes the rest for the query of a URL and makes the branch somewhere else.
        raise UnsupportedError("a branch below a folder named with '?'", "rename the folder")
    store = objects_at(dataset.root, settings)
    reservation = join(own.uri, RESERVATION)
    _refuse_taken(dataset, own, settings)
    if not store.put_new(reservation, uuid4().hex.encode()):
        raise UnfinishedBranchError(own.uri)
    with ExitStack() as undo:
        undo.callback(store.delete, reservation)
        BRANCH_RESERVED.reached()
        # Whoever held the reservation until now may have finished.
        _refuse_taken(dataset, own, settings)
        # A branch that has its ref keeps the reservation, which says that the rest is due.
        undo.pop_all()
        undo.callback(_delete_unless_ref, dataset, own, settings)
        try:
            clone(dataset, own, from_branch, from_version, settings)
        except StorageError as error:
            if error.kind == IN_DOUBT and is_about_ref(error) and is_s3(dataset.root):
                # The ref may still appear, and then it needs its folder.
                undo.pop_all()
            raise
        undo.pop_all()
    with already_made(dataset, name):
        store.delete(reservation)
    BRANCH_FINISHED.reached()


@contextmanager
def already_made(dataset: DatasetAddress, name: str) -> Iterator[None]:
    """What fails once the ref is there leaves the branch: its maker is not told that it failed."""
    try:
        yield
    except StorageError as error:
        detail = f"branch {name!r} is there, and making sure of it failed: {error.detail}"
        raise StorageError(IN_DOUBT, _ref(dataset, name), detail) from error


def clone(
    dataset: DatasetAddress,
    own: DatasetAddress,
    from_branch: str | None,
    from_version: int,
    settings: StorageSettings,
) -> None:
    """Make folder and ref of a branch; each is stored only where there is none."""
    import lance

    with lance_errors(dataset.base):
        trunk = lance.dataset(dataset.base, storage_options=settings.for_lance(dataset.base))
    try:
        with lance_errors(own.uri):
            trunk.create_branch(own.branch, (from_branch, from_version))
    except StorageError as error:
        head = probe_version(own, settings)
        if head is None or head.number != from_version:
            raise
        if is_about_ref(error) and read_branch(dataset, own.branch or "", settings):
            # Lance makes the folder before the ref. The folder is ours, so the ref is as well: it
            # was made, and its acknowledgement lost.
            pass
        # The folder is complete and only the ref is missing. It always is on a local disk whose
        # path has letters that URLs escape: Lance spells the folder of refs wrongly there.
        elif not write_ref(dataset, own, from_branch, from_version, settings):
            raise BranchExistsError(own.branch or "") from error
    BRANCH_NAMED.reached()
    if trunk.has_stable_row_ids:
        with already_made(dataset, own.branch or ""):
            keep_stable_row_ids(own, from_version, settings)


def finish_branch(dataset: DatasetAddress, branch: BranchFile, settings: StorageSettings) -> None:
    """Do the rest for a branch that has its ref and no commit: its creator may have died there."""
    import lance

    own = DatasetAddress(dataset.root, dataset.path, branch.name)
    store, reservation = objects_at(dataset.root, settings), join(own.uri, RESERVATION)
    if store.stat(reservation) is None:
        return
    with lance_errors(dataset.base):
        trunk = lance.dataset(dataset.base, storage_options=settings.for_lance(dataset.base))
    if trunk.has_stable_row_ids:
        keep_stable_row_ids(own, branch.parent_version, settings)
    store.delete(reservation)


def write_ref(
    dataset: DatasetAddress,
    own: DatasetAddress,
    from_branch: str | None,
    from_version: int,
    settings: StorageSettings,
) -> bool:
    """Write the ref of a branch as Lance does, unless there is one."""
    store = objects_at(dataset.root, settings)
    parent = DatasetAddress(dataset.root, dataset.path, from_branch)
    ancestors: list[object] = []
    if from_branch is not None and (content := store.read(_ref(dataset, from_branch))):
        ancestors = json.loads(content)["identifier"]["version_mapping"]
    ref = {
        "parentBranch": from_branch,
        "identifier": {"version_mapping": [*ancestors, [from_version, uuid4().hex]]},
        "parentVersion": from_version,
        "createAt": now_us() // 1_000_000,
        "manifestSize": landed_version(parent, from_version, settings).manifest_size,
        "metadata": {},
    }
    return store.put_new(_ref(dataset, own.branch or ""), json.dumps(ref, indent=2).encode())


def _delete_unless_ref(
    dataset: DatasetAddress, own: DatasetAddress, settings: StorageSettings
) -> None:
    if read_branch(dataset, own.branch or "", settings) is None:
        # A clone brings no data: what is there was staged for this branch.
        _delete_tree(own, settings, keep_data=True)


def delete_branch(
    dataset: DatasetAddress, name: str, settings: StorageSettings, *, keep_data: bool = False
) -> None:
    """Delete a branch, or what there is of one; a missing branch is fine.

    `BranchInUseError` while other branches or tags refer to it. `keep_data` leaves data files: some
    may be staged for the branch that takes its place.
    """
    store, ref = objects_at(dataset.root, settings), _ref(dataset, name)
    named = store.read(ref)
    _refuse_users(dataset, name, settings)
    # The ref first: without it the branch is gone, whatever becomes of the files.
    store.delete(ref)
    BRANCH_UNNAMED.reached()
    if named is not None:
        try:
            # Who takes no lock may have begun on it since. From here on nobody does.
            _refuse_users(dataset, name, settings)
        except BranchInUseError:
            store.put_new(ref, named)
            raise
    _delete_tree(DatasetAddress(dataset.root, dataset.path, name), settings, keep_data=keep_data)
    BRANCH_REMOVED.reached()


def _refuse_taken(dataset: DatasetAddress, own: DatasetAddress, settings: StorageSettings) -> None:
    name = own.branch or ""
    if read_branch(dataset, name, settings) is not None:
        raise BranchExistsError(name)
    if probe_version(own, settings) is not None:
        raise UnfinishedBranchError(own.uri)


def _refuse_users(dataset: DatasetAddress, name: str, settings: StorageSettings) -> None:
    if users := _users(dataset, name, settings):
        raise BranchInUseError(name, f"{', '.join(users)} began on it")


def _users(dataset: DatasetAddress, name: str, settings: StorageSettings) -> list[str]:
    """Name what would be lost with a branch."""
    users = []
    for other in list_branches(dataset, settings):
        ref = read_branch(dataset, other, settings)
        if ref is not None and ref.parent == name:
            users.append(f"branch {other!r}")
    store, tags = objects_at(dataset.root, settings), join(dataset.base, "_refs", "tags")
    for tag, _ in store.listing(tags):
        content = store.read(join(tags, tag))
        if content is not None and json.loads(content).get("branch") == name:
            users.append(f"tag {unquote(tag.removesuffix(_SUFFIX))!r}")
    return users


def _delete_tree(
    own: DatasetAddress, settings: StorageSettings, *, keep_data: bool = False
) -> None:
    store = objects_at(own.root, settings)
    # A branch may be named `dev/data`: it then lies where `dev` keeps its files.
    others = list_branches(DatasetAddress(own.root, own.path), settings)
    kept = [join(own.base, "tree", other) for other in others if other != own.branch]
    for part in _PARTS:
        if keep_data and part == "data":
            continue
        store.delete_below(join(own.uri, part), kept)
    store.delete(join(own.uri, RESERVATION))


def _ref(dataset: DatasetAddress, name: str) -> str:
    return join(_folder(dataset), quote(name, safe="") + _SUFFIX)


def _folder(dataset: DatasetAddress) -> str:
    return join(dataset.base, "_refs", "branches")
