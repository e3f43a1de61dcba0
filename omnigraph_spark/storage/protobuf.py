"""The little of protobuf that Lance's manifests need: fields taken apart and put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_LENGTH_DELIMITED = 2
_FIXED_SIZES = {1: 8, 5: 4}


def fields_of(message: bytes) -> Iterator[tuple[int, bytes | None, bytes]]:
    """Yield (field number, content when length-delimited, raw bytes) of a protobuf message."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _read_varint(message, at)
        kind, value = tag & 7, None
        if kind == _LENGTH_DELIMITED:
            size, at = _read_varint(message, at)
            value = message[at : at + size]
            at += size
        elif kind == 0:
            _, at = _read_varint(message, at)
        else:
            at += _FIXED_SIZES[kind]
        yield tag >> 3, value, message[start:at]


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def number_of(raw: bytes) -> int:
    """Decode a field of a number, given with its tag."""
    _, at = _read_varint(raw, 0)
    return _read_varint(raw, at)[0]


def varint(value: int) -> bytes:
    """Encode a number that is not negative."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def delimited(number: int, content: bytes) -> bytes:
    """Encode a field of text, bytes or a message."""
    tag = number << 3 | _LENGTH_DELIMITED
    return varint(tag) + varint(len(content)) + content


def scalar(number: int, value: int) -> bytes:
    """Encode a field of a number that is not negative."""
    return varint(number << 3) + varint(value)


def packed(number: int, values: Iterable[int]) -> bytes:
    """Encode a repeated field of numbers that are not negative."""
    return delimited(number, b"".join(map(varint, values)))
