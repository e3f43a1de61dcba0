"""Lists, vectors and blobs: given arrays of many shapes as the stored ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.schema.arrow import arrow_type
from omnigraph_spark.schema.columns import BLOB_EXTENSION
from omnigraph_spark.schema.model import PropertyType, Scalar
from omnigraph_spark.writing.intake.casts import (
    AnyArray,
    Broken,
    Cast,
    Caster,
    any_of,
    narrowed,
    nulls,
    scalar_caster,
    without,
)

_BLOB: Any = arrow_type(PropertyType(Scalar.BLOB))
_BYTES, _TEXT = pa.large_binary(), pa.string()
#: The object stores the engine reads; a name without one would depend on where it is read.
_ADDRESS = r"\A(?i:file|s3|gs|az|abfss|oss)://[^\s]+\z"


def caster(given: Any, kind: PropertyType, external_blobs: bool) -> Caster | None:
    """Return how a column of a given type becomes a property, None when it cannot."""
    if kind.scalar is Scalar.BLOB:
        return _blob_caster(given, external_blobs)
    if not kind.list and kind.scalar is not Scalar.VECTOR:
        return scalar_caster(given, kind.scalar)
    target = arrow_type(kind)
    if pa.types.is_null(given):
        return partial(nulls, target=target)
    if not _is_list(given):
        return None
    scalar = Scalar.F32 if kind.scalar is Scalar.VECTOR else kind.scalar
    item = scalar_caster(given.value_type, scalar)
    if item is None:
        return None
    if kind.dimension is not None:
        return partial(_vectors, item=item, target=target, dimension=kind.dimension)
    return partial(_lists, item=item, target=target)


def _is_list(given: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(given)
        or pa.types.is_large_list(given)
        or pa.types.is_fixed_size_list(given)
        or pa.types.is_list_view(given)
        or pa.types.is_large_list_view(given)
    )


def _lists(array: AnyArray, item: Caster, target: pa.DataType) -> Cast:
    given = _plain_lists(array)
    flat = given.flatten()
    items = item(flat)
    # Items that are null are the engine's as well: it stores and exports them.
    broken = tuple(replace(b, rows=_rows_of(given, b.rows)) for b in items.broken)
    if items.values is flat:
        return Cast(given.cast(target), broken)
    return Cast(_lists_of(items.values, given, target), broken)


def _vectors(array: AnyArray, item: Caster, target: Any, dimension: int) -> Cast:
    lengths = pc.list_value_length(array)
    wrong = any_of([pc.not_equal(lengths, pa.scalar(dimension, lengths.type))], len(array))
    broken: tuple[Broken, ...] = ()
    if pc.any(wrong).as_py():
        broken = (Broken("vector", f"the vector does not have {dimension} numbers", wrong),)
        array = without(array, wrong)
    given = _plain_lists(array)
    flat = given.flatten()
    if not len(flat):
        # Every row is null. Spark then sends no buffer of items, and Arrow's cast reads it: the
        # process dies.
        return Cast(pa.nulls(len(array), target), broken)
    items = item(flat)
    finite: Any = pc.fill_null(pc.is_finite(cast(Any, items.values)), False)
    if pc.all(finite).as_py() is False:
        rows = _rows_of(given, pc.invert(finite))
        message = "a number of the vector is null, not finite or too large for a 32-bit float"
        broken += (Broken("vector", message, rows),)
        return Cast(without(given, rows).cast(target), broken)
    if not given.null_count:
        return Cast(pa.FixedSizeListArray.from_arrays(items.values, type=target), broken)
    return Cast(given.cast(target), broken)


def _plain_lists(array: Any) -> pa.ListArray[Any]:
    if isinstance(array, pa.ListArray):
        return array
    # Not by a cast: that of list views in Arrow 26 returns offsets from beyond their buffer.
    return _lists_of(array.flatten(), array, pa.list_(array.type.value_type))


def _lists_of(items: AnyArray, like: AnyArray, target: Any) -> pa.ListArray[Any]:
    """Return lists of these items, as long as those of another array and null where they are."""
    # Added up in 64 bits: more items than 32 bits can count are an error, not an overflow.
    ends = narrowed(pc.cumulative_sum(_lengths(like)), pa.int32())
    offsets: Any = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, items, type=target, mask=like.is_null())


def _lengths(lists: AnyArray) -> pa.Int64Array:
    lengths: Any = pc.list_value_length(lists)
    return cast(pa.Int64Array, lengths.fill_null(0).cast(pa.int64()))


def _rows_of(lists: pa.ListArray[Any], items: Any) -> pa.BooleanArray:
    """Mark the lists that hold a marked item."""
    # Arrow's own answer counts what lies below a null list, which `flatten` leaves out.
    parents = np.repeat(np.arange(len(lists)), _lengths(lists).to_numpy())
    marked = np.zeros(len(lists), np.bool_)
    marked[parents[np.asarray(items)]] = True
    return pa.array(marked)


def _blob_caster(given: pa.DataType, external: bool) -> Caster | None:
    if isinstance(given, pa.BaseExtensionType) and given.extension_name == BLOB_EXTENSION:
        inner = _blob_caster(given.storage_type, external)
        return None if inner is None else partial(_stored, caster=inner)
    if pa.types.is_null(given):
        return partial(nulls, target=_BLOB)
    if _is_bytes(given):
        return _blob_bytes
    if external and scalar_caster(given, Scalar.STRING):
        return _blob_addresses
    # As stored: bytes or an address in each row.
    if pa.types.is_struct(given) and {field.name for field in given} == {"data", "uri"}:
        data, uri = given.field("data").type, given.field("uri").type
        null_uri = pa.types.is_null(uri)
        if (_is_bytes(data) or pa.types.is_null(data)) and (
            null_uri or scalar_caster(uri, Scalar.STRING)
        ):
            return partial(_blob_structs, external=external)
    return None


def _stored(array: AnyArray, caster: Caster) -> Cast:
    return caster(cast(Any, array).storage)


def _is_bytes(given: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(given)
        or pa.types.is_large_binary(given)
        or pa.types.is_fixed_size_binary(given)
        or pa.types.is_binary_view(given)
    )


def _blob_bytes(array: AnyArray) -> Cast:
    return Cast(_blobs(array.cast(_BYTES), pa.nulls(len(array), _TEXT)))


def _blob_addresses(array: AnyArray) -> Cast:
    return _checked(pa.nulls(len(array), _BYTES), narrowed(array, _TEXT))


def _blob_structs(array: AnyArray, external: bool) -> Cast:
    # `flatten` lets a null struct have null children, whatever is below it.
    names = [field.name for field in array.type]
    parts = dict(zip(names, cast(pa.StructArray, array).flatten(), strict=True))
    data, uri = parts["data"].cast(_BYTES), narrowed(parts["uri"], _TEXT)
    if not external and uri.null_count < len(uri):
        message = "the blob is an address outside of the graph, which takes allowExternalBlobs"
        return Cast(_blobs(data, uri), (Broken("blob", message, uri.is_valid()),))
    return _checked(data, uri)


def _checked(data: AnyArray, uri: AnyArray) -> Cast:
    broken: tuple[Broken, ...] = ()
    both = any_of([pc.and_(data.is_valid(), uri.is_valid())], len(data))
    if pc.any(both).as_py():
        broken += (Broken("blob", "the blob has both bytes and an address", both),)
    unclear = any_of([pc.invert(pc.match_substring_regex(uri, _ADDRESS))], len(uri))
    if pc.any(unclear).as_py():
        message = "the address of the blob is not one such as s3://bucket/name or file:///name"
        broken += (Broken("blob", message, unclear),)
    return Cast(_blobs(data, uri), broken)


def _blobs(data: AnyArray, uri: AnyArray) -> AnyArray:
    empty = pc.and_(data.is_null(), uri.is_null())
    return pa.StructArray.from_arrays([data, uri], fields=list(_BLOB), mask=empty)
