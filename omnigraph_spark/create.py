"""Creating a graph: schema files, one empty dataset per type, and last the manifest.

The first schema file claims the root, so of two creators one wins and the other touches nothing.
The manifest comes last and in one step: without it there is no graph, with it the graph is whole.
A creation that fails takes back what it made, the claim last.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, suppress

from omnigraph_spark import clock
from omnigraph_spark.errors import (
    ConflictError,
    GraphExistsError,
    GraphNotFoundError,
    OmnigraphError,
    OutcomeUnknownError,
    StorageError,
)
from omnigraph_spark.failpoints import (
    DATASET_CREATED,
    DATASET_UNMADE,
    GRAPH_CREATED,
    GRAPH_UNMADE,
    ROOT_CLAIMED,
    SCHEMA_FILE_UNMADE,
    SCHEMA_FILE_WRITTEN,
)
from omnigraph_spark.formats import v4
from omnigraph_spark.formats.profile import (
    STAMP_KEY,
    Commit,
    FormatProfile,
    LocationRow,
    NewRow,
    PinRow,
)
from omnigraph_spark.formats.v4.sidecar import delete_sidecar, list_sidecars
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.names import MAIN
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.schema.storable import check_storable
from omnigraph_spark.storage.datasets import DatasetAddress, probe_version, version_file
from omnigraph_spark.storage.locks import lock_address, writer_lock
from omnigraph_spark.storage.manifest_writer import create_manifest
from omnigraph_spark.storage.objects import IN_DOUBT, REFUSED, ObjectStore, objects_at
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import DatasetExistsError, create_dataset
from omnigraph_spark.storage.uri import is_s3, join

#: The format of new graphs.
_PROFILE: FormatProfile = v4
#: A new manifest is its dataset's first version.
_GENESIS_VERSION = 1


def create_graph(root: str, schema_text: str, settings: StorageSettings) -> Commit:
    """Create a graph at a canonical root and return its first commit.

    Raises:
        SchemaError: The schema is wrong, or says what storage cannot hold; nothing was touched.
        GraphExistsError: There is a graph, or a part of one; nothing of it was touched.
        StorageError: Storage failed; what had been made is gone again.
        OutcomeUnknownError: Storage failed at the last step, and it may have come true.
    """
    schema = parse_schema(schema_text)
    check_storable(schema)
    manifest = Manifest(root, settings)
    store = objects_at(root, settings)
    files = _PROFILE.schema_files(schema_text, schema)
    _refuse_existing(manifest, store, schema, files)
    with ExitStack() as undo:
        _write_files(root, store, files.items(), undo)
        rows = _create_datasets(manifest, store, schema, undo)
        commit = Commit(
            id=clock.new_ulid(),
            branch=MAIN,
            manifest_version=_GENESIS_VERSION,
            parent_id=None,
            merged_parent_id=None,
            actor=None,
            created_at_us=clock.now_us(),
        )
        _create_manifest(manifest, store, rows, commit, undo)
        undo.pop_all()
    GRAPH_CREATED.reached()
    return commit


def remove_new_graph(root: str, settings: StorageSettings) -> bool:
    """Take back the creation of a graph, unless somebody wrote to it since, or is about to.

    The manifest goes first: without it there is no graph. The claim on the root goes last. A
    `StorageError` means that the graph stays, and is whole.
    """
    try:
        with writer_lock(root, MAIN, settings):
            removed = _remove_unwritten(Manifest(root, settings))
            if removed and not is_s3(root):
                # A lease ends by itself. Whoever waits for this one finds no graph then.
                _delete(objects_at(root, settings), lock_address(root, MAIN))
    except ConflictError:
        # Somebody is writing to it.
        return False
    return removed


def _remove_unwritten(manifest: Manifest) -> bool:
    root, store = manifest.root, objects_at(manifest.root, manifest.settings)
    state = manifest.head()
    written = len(state.lineage.commits) > 1 or state.newest.number != _GENESIS_VERSION
    if written or manifest.branch_names() != [MAIN]:
        return False
    schema = _PROFILE.read_schema(root, store, lambda: True)
    # Its version first, in one step: whoever dies or fails here leaves all of the graph or none.
    store.delete(version_file(manifest.address(), state.newest.number))
    GRAPH_UNMADE.reached()
    _delete_below(store, manifest.address().uri)
    for operation_id in list_sidecars(root, store):
        delete_sidecar(root, store, operation_id)
    for entity in schema.types():
        _delete_below(store, join(root, _PROFILE.dataset_path(entity.type_key)))
        DATASET_UNMADE.reached()
    for name in reversed(list(_PROFILE.schema_files("", schema))):
        _delete(store, join(root, name))
        SCHEMA_FILE_UNMADE.reached()
    return True


def _refuse_existing(
    manifest: Manifest, store: ObjectStore, schema: GraphSchema, files: Iterable[str]
) -> None:
    """Refuse a root that holds a graph or anything that a new graph would take for its own."""
    root, last = manifest.root, manifest.address().path
    there = {name: store.stat(join(root, name)) is not None for name in files}
    there[last] = store.exists(join(root, last))
    if all(there.values()):
        raise GraphExistsError(root, "a graph")
    if any(there.values()):
        found = ", ".join(name for name, is_there in there.items() if is_there)
        missing = ", ".join(name for name, is_there in there.items() if not is_there)
        what = f"a graph that is not whole ({found} without {missing}: its creation was"
        raise GraphExistsError(root, f"{what} interrupted, is still running, or it was damaged)")
    if operations := list_sidecars(root, store):
        what = f"an unfinished write of an earlier graph ({', '.join(operations)})"
        raise GraphExistsError(root, what)
    for entity in schema.types():
        path = _PROFILE.dataset_path(entity.type_key)
        if store.exists(join(root, path)):
            raise GraphExistsError(root, f"{path!r}, where {entity.type_key} belongs,")


def _write_files(
    root: str, store: ObjectStore, files: Iterable[tuple[str, bytes]], undo: ExitStack
) -> None:
    (name, content), *derived = files
    if not store.put_new(join(root, name), content):
        raise GraphExistsError(root, f"{name} of another creator")
    undo.callback(_delete, store, join(root, name))
    ROOT_CLAIMED.reached()
    for name, content in derived:
        undo.callback(_delete, store, join(root, name))
        store.write(join(root, name), content)
        SCHEMA_FILE_WRITTEN.reached()


def _create_datasets(
    manifest: Manifest, store: ObjectStore, schema: GraphSchema, undo: ExitStack
) -> list[NewRow]:
    """Create the dataset of every type and return the rows that pin them."""
    rows: list[NewRow] = []
    for entity in schema.types():
        type_key, path = str(entity.type_key), _PROFILE.dataset_path(entity.type_key)
        address = DatasetAddress(manifest.root, path)
        try:
            landed = create_dataset(address, arrow_schema(entity), manifest.settings)
        except DatasetExistsError as error:
            raise GraphExistsError(manifest.root, f"a dataset at {path!r}") from error
        except StorageError:
            # Nothing was there when this began, so what a failed attempt left is its own.
            _delete_below(store, address.uri)
            raise
        undo.callback(_delete_below, store, address.uri)
        DATASET_CREATED.reached()
        detail = _PROFILE.pin_detail(landed.manifest_path, landed.manifest_size, landed.e_tag)
        rows += [LocationRow(type_key, path), PinRow(type_key, landed.number, None, 0, detail)]
    return rows


def _create_manifest(
    manifest: Manifest, store: ObjectStore, rows: list[NewRow], commit: Commit, undo: ExitStack
) -> None:
    stamp = {STAMP_KEY: str(_PROFILE.FORMAT_VERSION)}
    table = _PROFILE.encode_rows(rows, commit).replace_schema_metadata(stamp)
    address, settings = manifest.address(), manifest.settings
    try:
        create_manifest(address, table, settings)
    except StorageError as error:
        try:
            if _landed(manifest, commit):
                return
            exists = probe_version(address, settings) is not None
        except OmnigraphError as unseen:
            if error.kind in REFUSED and is_s3(manifest.root):
                raise error from unseen
            # It may have come true; then everything else has to be there.
            undo.pop_all()
            detail = f"{error.detail}, then {unseen.describe()}"
            raise OutcomeUnknownError(commit.id, detail) from unseen
        if exists:
            raise GraphExistsError(manifest.root, f"{address.path} of another creator") from error
        if error.kind == IN_DOUBT and is_s3(manifest.root):
            # The request may still be carried out; then everything else has to be there.
            undo.pop_all()
            raise OutcomeUnknownError(commit.id, error.detail) from error
        _delete_below(store, address.uri)
        raise


def _landed(manifest: Manifest, commit: Commit) -> bool:
    try:
        return manifest.head().lineage.find(commit.id) is not None
    except GraphNotFoundError:
        return False


def _delete(store: ObjectStore, address: str) -> None:
    # What cannot be deleted stays; the error that led here is the one to report.
    with suppress(StorageError):
        store.delete(address)


def _delete_below(store: ObjectStore, folder: str) -> None:
    with suppress(StorageError):
        store.delete_below(folder)
