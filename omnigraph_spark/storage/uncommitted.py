"""Staged files read as a dataset that exists in memory only.

Lance reads a dataset through its manifest, which can be handed over as bytes. So a manifest is made
up that names the staged files and nothing else: columns, blobs and filters then work as they do on
versions, and nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph_spark.storage.datasets import DatasetAddress, PinnedDataset
from omnigraph_spark.storage.protobuf import delimited, packed, scalar
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.translate import lance_errors
from omnigraph_spark.storage.uri import join

if TYPE_CHECKING:
    from lance.schema import LanceSchema

BLOB_TYPE = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
_BLOB_METADATA = {"ARROW:extension:name": "lance.blob.v2"}
#: A data file spells a blob column as an empty struct with this mark, then these five columns.
_STORED_BLOB = b"lance-encoding:blob"
_STORED_BLOB_PARTS = 5
# Lance's protobuf: Manifest.fragments; DataFragment.id, .files, .physical_rows; DataFile's fields.
_FRAGMENTS = 2
_ID, _FILES, _PHYSICAL_ROWS = 1, 2, 4
_PATH, _FIELDS, _COLUMNS, _MAJOR, _MINOR, _SIZE = 1, 2, 3, 4, 5, 6


def open_fragments(
    address: DatasetAddress, fragments: Sequence[str], settings: StorageSettings
) -> PinnedDataset:
    """Open staged files, given as the JSON of their fragments; they are numbered from 0."""
    from lance import LanceDataset
    from lance.file import LanceFileReader

    described = [json.loads(text) for text in fragments]
    first = join(address.uri, "data", described[0]["files"][0]["path"])
    options = settings.for_lance(address.uri)
    with lance_errors(first):
        schema = _dataset_schema(LanceFileReader(first, options).metadata().schema)
        manifest, field_ids = _empty_manifest(schema)
        for number, fragment in enumerate(described):
            manifest += delimited(_FRAGMENTS, _fragment(number, fragment, field_ids))
        handle = LanceDataset(address.uri, storage_options=options, serialized_manifest=manifest)
    return PinnedDataset(handle, address)


def is_blob_field(field: pa.Field[Any]) -> bool:
    """Tell whether a column of a dataset's schema holds blobs."""
    if isinstance(field.type, pa.BaseExtensionType):
        return field.type.extension_name == _BLOB_METADATA["ARROW:extension:name"]
    return (field.metadata or {}).get(b"ARROW:extension:name") == b"lance.blob.v2"


def field_ids_of(schema: pa.Schema, numbered: LanceSchema | None = None) -> list[int]:
    """Return the field ids that a data file lists, one per stored column.

    Those of a new dataset count from 0; of an existing one they are in its own schema.
    """
    from lance.schema import LanceSchema

    fields = (numbered or LanceSchema.from_pyarrow(schema)).fields()
    ids: list[int] = []
    for field, known in zip(schema, fields, strict=True):
        ids += [known.id()] if is_blob_field(field) else _leaves(known)
    return ids


def _leaves(field: Any) -> list[int]:
    children = field.children()
    return [id_ for child in children for id_ in _leaves(child)] if children else [field.id()]


@lru_cache(maxsize=64)
def _empty_manifest(schema: pa.Schema) -> tuple[bytes, list[int]]:
    from lance import LanceDataset, LanceOperation

    # Lance keeps no memory of a dataset at this address: every commit makes a new one.
    empty = LanceDataset.commit("memory://", LanceOperation.Overwrite(schema, []))
    return empty._ds.serialized_manifest(), field_ids_of(schema)


def _dataset_schema(stored: pa.Schema) -> pa.Schema:
    """Turn the schema of a data file into that of its dataset."""
    fields = iter(stored)
    return pa.schema(_dataset_fields(fields))


def _dataset_fields(stored: Iterator[pa.Field[Any]]) -> Iterator[pa.Field[Any]]:
    for field in stored:
        if _STORED_BLOB in (field.metadata or {}):
            list(islice(stored, _STORED_BLOB_PARTS))
            yield pa.field(field.name, BLOB_TYPE, field.nullable, _BLOB_METADATA)
        else:
            yield field


def _fragment(number: int, fragment: dict[str, Any], field_ids: list[int]) -> bytes:
    [file] = fragment["files"]
    # The ids are those of the schema made up here; the file keeps its columns in the same order.
    if len(file["column_indices"]) != len(field_ids):
        raise ValueError(f"{file['path']} has other columns than the first of the staged files")
    content = (
        delimited(_PATH, file["path"].encode())
        + packed(_FIELDS, field_ids)
        + packed(_COLUMNS, file["column_indices"])
        + scalar(_MAJOR, file["file_major_version"])
        + scalar(_MINOR, file["file_minor_version"])
        + scalar(_SIZE, file["file_size_bytes"])
    )
    rows = scalar(_PHYSICAL_ROWS, fragment["physical_rows"])
    return scalar(_ID, number) + delimited(_FILES, content) + rows
