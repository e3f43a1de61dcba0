"""FNV-1a, the hash behind type ids, property ids and dataset folder names.

The names are the engine's, so the ids must be too; nothing here is for security or for Python's own
dictionaries.
"""

from __future__ import annotations

_BASIS_32, _PRIME_32 = 0x811C9DC5, 0x01000193
_BASIS_64, _PRIME_64 = 0xCBF29CE484222325, 0x00000100000001B3


def fnv1a_32(data: bytes) -> int:
    """Hash bytes to 32 bits.

    >>> fnv1a_32(b"node:Person")
    3227219152
    """
    value = _BASIS_32
    for byte in data:
        value = (value ^ byte) * _PRIME_32 & 0xFFFFFFFF
    return value


def fnv1a_64(data: bytes) -> int:
    """Hash bytes to 64 bits.

    >>> f"{fnv1a_64(b'Company'):016x}"
    '7cb4e55c59663b1c'
    """
    value = _BASIS_64
    for byte in data:
        value = (value ^ byte) * _PRIME_64 & 0xFFFFFFFFFFFFFFFF
    return value
