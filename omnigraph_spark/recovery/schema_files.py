"""Schema files left staged by a schema change that died: put in force or thrown away.

With its sidecar there, the change is judged as a whole (`classify`). Without one, the datasets that
the manifest pins tell which of the two schemas they were written with.
"""

from __future__ import annotations

from collections.abc import Collection

from omnigraph_spark.errors import SchemaFilesError
from omnigraph_spark.formats.v4.contract import SOURCE_FILE
from omnigraph_spark.formats.v4.sidecar import Sidecar
from omnigraph_spark.formats.v4.staged_schema import (
    STAGING_SUFFIX,
    discard_staged,
    is_being_moved,
    is_complete,
    put_in_force,
    read_staged,
    staged_files,
)
from omnigraph_spark.manifest import Entry, Manifest, ManifestState
from omnigraph_spark.names import MAIN, TypeKey
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.ir import ir_hash
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.snapshot import forget_schemas
from omnigraph_spark.storage.datasets import DatasetAddress, open_dataset, probe_version
from omnigraph_spark.storage.objects import objects_at


def is_staged(manifest: Manifest) -> bool:
    """Tell whether a whole new schema is staged, or the rest of one that was being moved."""
    return is_complete(staged_files(manifest.root, objects_at(manifest.root, manifest.settings)))


def is_in_place(manifest: Manifest, state: ManifestState, sidecar: Sidecar) -> bool:
    """Tell whether the schema in force is the one a schema change was about to bring.

    Then only going forward makes graph and schema agree again.
    """
    try:
        schema = _schema_in_force(manifest, state)
    except SchemaFilesError:
        return False
    if any(schema.get(TypeKey.parse(new.type_key)) is None for new in sidecar.registrations):
        return False
    if any(schema.get(TypeKey.parse(gone.type_key)) is not None for gone in sidecar.tombstones):
        return False
    entries = [state.entries.get(pin.type_key) for pin in sidecar.pins]
    return all(
        entry is not None and _rewritten_for(manifest, schema, entry) for entry in entries
    ) and bool(sidecar.pins or sidecar.registrations)


def complete_schema_files(manifest: Manifest) -> None:
    """Put the staged schema in force, if there is one."""
    store = objects_at(manifest.root, manifest.settings)
    put_in_force(manifest.root, store, staged_files(manifest.root, store))
    forget_schemas()


def discard_schema_files(manifest: Manifest) -> None:
    """Throw the staged schema away, if there is one."""
    store = objects_at(manifest.root, manifest.settings)
    discard_staged(manifest.root, store, staged_files(manifest.root, store))


def settle_schema_files(manifest: Manifest) -> None:
    """Decide about staged files that no sidecar explains.

    While a schema change holds its lock they are left alone: it may be alive, and nothing is
    written to the graph meanwhile.
    """
    store = objects_at(manifest.root, manifest.settings)
    staged = staged_files(manifest.root, store)
    if not staged or manifest.schema_apply_in_progress():
        return
    if is_complete(staged) and _is_published(manifest, staged):
        complete_schema_files(manifest)
    else:
        discard_schema_files(manifest)


def _is_published(manifest: Manifest, staged: Collection[str]) -> bool:
    """Tell whether main has the staged schema; an error says that nobody can tell."""
    state = manifest.head()
    store = objects_at(manifest.root, manifest.settings)
    new = read_staged(manifest.root, store, staged)
    if is_being_moved(manifest.root, store, staged):
        # The files were being moved, which begins after the publish.
        return True
    live = _schema_in_force(manifest, state)
    if ir_hash(live) == ir_hash(new):
        return False
    fits_live, fits_staged = (_fits(manifest, state, schema) for schema in (live, new))
    if fits_live == fits_staged:
        which = "both" if fits_live else "neither"
        detail = (
            f"{which} of it and the schema in force fit the graph, so nobody can tell whether the "
            f"schema change was published: delete the {STAGING_SUFFIX} files to keep the schema in "
            f"force, or rename them over it"
        )
        raise SchemaFilesError(manifest.root, SOURCE_FILE + STAGING_SUFFIX, detail)
    return fits_staged


def _fits(manifest: Manifest, state: ManifestState, schema: GraphSchema) -> bool:
    declared = {str(entity.type_key): entity for entity in schema.types()}
    if declared.keys() != state.entries.keys():
        return False
    return all(
        _columns(manifest, entry, entry.dataset_version) == arrow_schema(declared[key]).names
        for key, entry in state.entries.items()
    )


def _rewritten_for(manifest: Manifest, schema: GraphSchema, entry: Entry) -> bool:
    """Tell whether the newest version has the columns of a schema and the pinned one has not."""
    declared = schema.get(entry.type_key)
    newest = probe_version(_address(manifest, entry), manifest.settings)
    if declared is None or newest is None:
        return False
    wanted = arrow_schema(declared).names
    return (
        _columns(manifest, entry, newest.number) == wanted
        and _columns(manifest, entry, entry.dataset_version) != wanted
    )


def _columns(manifest: Manifest, entry: Entry, version: int) -> list[str]:
    dataset = open_dataset(_address(manifest, entry), version, manifest.settings)
    return dataset.schema.names


def _address(manifest: Manifest, entry: Entry) -> DatasetAddress:
    return DatasetAddress(manifest.root, entry.path, entry.dataset_branch)


def _schema_in_force(manifest: Manifest, state: ManifestState) -> GraphSchema:
    store = objects_at(manifest.root, manifest.settings)
    return state.profile.read_schema(
        manifest.root, store, lambda: manifest.branch_names() == [MAIN]
    )
