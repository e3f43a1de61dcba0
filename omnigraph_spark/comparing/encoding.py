"""Values as columns that compare bit by bit, in Arrow, whoever compares them.

SQL engines differ on NaN, on -0.0, on lists. So numbers become whole numbers of the same bits (all
NaN the same one), lists and vectors become bytes, and all that is left is `IS DISTINCT FROM`. Long
bytes stand as a digest of 256 bits. Blobs stand as what their descriptor says: the address of a
file, or a size; equal sizes are settled by `blob_contents`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.blobs import is_blob
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import Scalar

#: Bytes longer than this are compared by their digest, which is half as long.
_LONGEST = 64
#: The one NaN of each width; and null, among the items of a vector.
_NAN32, _NAN64 = 0x7FC00000, 0x7FF8000000000000
_NULL32 = _NAN32 + 1
#: One item of a list: whether it is there, then its bits.
_ITEM = np.dtype([("there", "u1"), ("bits", "<i8")])
#: What a blob's descriptor says, unless it is null: the address of a file, or the size of bytes.
ADDRESS_MARK, SIZE_MARK = "uri:", "size:"
_NO_TEXT = pa.scalar(None, pa.string())


def encoded_field(column: Column, name: str) -> pa.Field[Any]:
    """Return the field that a column becomes."""
    if column.type.list or column.type.scalar is Scalar.VECTOR:
        return pa.field(name, pa.binary())
    textual = column.type.scalar is Scalar.STRING or is_blob(column)
    return pa.field(name, pa.string() if textual else pa.int64())


def encode_columns(
    batch: pa.RecordBatch, columns: Sequence[Column | None], fields: Sequence[pa.Field[Any]]
) -> list[pa.Array[Any]]:
    """Encode the columns of a batch of public rows; one that is not there is null."""
    return [
        pa.nulls(batch.num_rows, field.type)
        if column is None
        else encode(batch.column(column.name), column)
        for column, field in zip(columns, fields, strict=True)
    ]


def encode(array: pa.Array[Any], column: Column) -> pa.Array[Any]:
    """Turn public values of a column into an array that compares bit by bit."""
    if is_blob(column):
        return _described(cast(pa.StructArray, array))
    if column.type.scalar is Scalar.VECTOR:
        return _vectors(cast("pa.FixedSizeListArray[Any]", array))
    if column.type.list:
        texts = column.type.scalar is Scalar.STRING
        return _text_lists(array) if texts else _lists(cast("pa.ListArray[Any]", array))
    return array if column.type.scalar is Scalar.STRING else _bits(array)


def digest(content: bytes) -> bytes:
    """Return 256 bits that stand for bytes of any length."""
    return blake2b(content, digest_size=32).digest()


def _described(descriptors: pa.StructArray) -> pa.Array[Any]:
    kinds, uris, sizes = (cast(Any, descriptors.field(each)) for each in ("kind", "uri", "size"))
    texts: Any = pc.if_else(
        pc.equal(kinds, pa.scalar("external")),
        pc.binary_join_element_wise(ADDRESS_MARK, pc.fill_null(uris, ""), ""),
        pc.binary_join_element_wise(SIZE_MARK, pc.fill_null(sizes, 0).cast(pa.string()), ""),
    )
    found: pa.Array[Any] = pc.if_else(descriptors.is_valid(), texts, _NO_TEXT)
    return found


def _bits(array: pa.Array[Any]) -> pa.Array[Any]:
    """Turn numbers, truth values, dates and times into whole numbers."""
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_uint32(kind):
        return array.cast(pa.int64())
    whole: Any = array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    if pa.types.is_floating(kind):
        nan = pa.scalar(_NAN64 if kind.bit_width == 64 else _NAN32, whole.type)
        whole = pc.if_else(pc.is_nan(array), nan, whole)
    bits: pa.Array[Any] = whole.cast(pa.int64())
    return bits


def _vectors(array: pa.FixedSizeListArray[Any]) -> pa.Array[Any]:
    size = array.type.list_size
    # A null vector has items too, of any value.
    items = array.values.slice(array.offset * size, len(array) * size)
    bits = _numbers(items.view(pa.uint32())).astype(np.uint32)
    bits[np.isnan(bits.view(np.float32))] = _NAN32
    bits[~_there(items)] = _NULL32
    borders = np.arange(len(array) + 1, dtype=np.int64) * size * 4
    return _as_bytes(_cut(bits.tobytes(), borders), array)


def _lists(array: pa.ListArray[Any]) -> pa.Array[Any]:
    ends = array.offsets.to_numpy().astype(np.int64)
    values = array.values.slice(ends[0], ends[-1] - ends[0])
    items = np.zeros(len(values), _ITEM)
    items["there"] = _there(values)
    items["bits"] = _numbers(_bits(values))
    return _as_bytes(_cut(items.tobytes(), (ends - ends[0]) * _ITEM.itemsize), array)


def _text_lists(array: pa.Array[Any]) -> pa.Array[Any]:
    # Null is no text, so lists that differ have texts that differ.
    return _as_bytes(map(orjson.dumps, array.to_pylist()), array)


def _cut(content: bytes, borders: npt.NDArray[np.int64]) -> Iterable[bytes]:
    pairs = zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)
    return (content[start:end] for start, end in pairs)


def _as_bytes(values: Iterable[bytes], rows: pa.Array[Any]) -> pa.Array[Any]:
    """Make a column of bytes, null where the row is; long ones become digests."""
    short = [value if len(value) <= _LONGEST else digest(value) for value in values]
    return pa.array(short, pa.binary(), mask=~_there(rows))


def _numbers(array: pa.Array[Any]) -> npt.NDArray[Any]:
    """Return whole numbers, 0 for null."""
    filled: Any = pc.fill_null(array, pa.scalar(0, array.type))
    return np.array(filled.to_numpy())


def _there(array: pa.Array[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)
