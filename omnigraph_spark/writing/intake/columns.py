"""Which given column becomes which stored one: decided once, from schemas, before any row is read.

Names are exact. A column nobody asked for, one that is missing, or one of a type that cannot become
the declared type is an error that says what would work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from omnigraph_spark.errors import ColumnNotFoundError, SchemaMismatchError, UnsupportedError
from omnigraph_spark.schema.model import EdgeType, EntityType, PropertyType, Scalar
from omnigraph_spark.schema.storable import SYSTEM_COLUMNS
from omnigraph_spark.writing.intake.casts import Caster
from omnigraph_spark.writing.intake.nested import caster
from omnigraph_spark.writing.intake.rules import Rule, rules_of

#: Other names for the ends of an edge, as in the engine's own files.
_OTHER_NAMES = {"src": "from", "dst": "to"}

_TAKES: dict[Scalar, str] = {
    Scalar.STRING: "text",
    Scalar.BOOL: "booleans",
    Scalar.I32: "integers",
    Scalar.I64: "integers",
    Scalar.U32: "integers",
    Scalar.U64: "integers and decimals without a fraction",
    Scalar.F32: "floats and integers",
    Scalar.F64: "floats and integers",
    Scalar.DATE: "dates (date32)",
    Scalar.DATETIME: "timestamps, in UTC where they have no zone",
    Scalar.VECTOR: "lists of floats",
    Scalar.BLOB: "bytes (text only as addresses, with allowExternalBlobs)",
}


@dataclass(frozen=True)
class Source:
    """A given column, how it becomes a stored one, and which rules its values keep."""

    #: Its place in the given batches; None is a column that was not given and becomes null.
    index: int | None
    name: str
    type: PropertyType
    cast: Caster
    rules: tuple[Rule, ...] = ()


class Sources:
    """The given columns of one write, taken one by one."""

    def __init__(self, declared: EntityType, given: pa.Schema, external_blobs: bool) -> None:
        self._declared = declared
        self._given = given
        self._external_blobs = external_blobs
        self._type = str(declared.type_key)
        self._names = _names_for_ends(declared, given)
        known = {"id", *self._names.values(), *(p.name for p in declared.properties)}
        for name in given.names:
            self._check_name(name, known)

    def _check_name(self, name: str, known: Iterable[str]) -> None:
        if name in SYSTEM_COLUMNS:
            raise UnsupportedError(f"writing {name!r}", "Lance computes it: leave the column out")
        if name not in known:
            raise ColumnNotFoundError(self._type, name, tuple(sorted(known)))
        if self._given.names.count(name) > 1:
            raise SchemaMismatchError(self._type, name, "several columns", "one")

    def has(self, name: str) -> bool:
        """Tell whether a stored column is given."""
        return self._names.get(name, name) in self._given.names

    def text(self, name: str) -> Source:
        """Take the id or an end of an edge."""
        return self._source(name, PropertyType(Scalar.STRING))

    def property(self, name: str) -> Source:
        """Take a property with its rules."""
        prop = self._declared.property(name)
        if prop is None:
            known = tuple(p.name for p in self._declared.properties)
            raise ColumnNotFoundError(self._type, name, known)
        return self._source(name, prop.type, rules_of(self._declared, prop))

    def _source(self, name: str, kind: PropertyType, rules: tuple[Rule, ...] = ()) -> Source:
        given = self._names.get(name, name)
        index = self._given.get_field_index(given)
        if index < 0 and not kind.nullable:
            raise SchemaMismatchError(self._type, given, "nothing", f"{kind}, never null")
        arrow = pa.null() if index < 0 else self._given.field(index).type
        step = caster(arrow, kind, self._external_blobs)
        if step is None:
            raise SchemaMismatchError(self._type, given, str(arrow), _takes(kind))
        return Source(index if index >= 0 else None, given, kind, step, rules)


def _names_for_ends(declared: EntityType, given: pa.Schema) -> dict[str, str]:
    """Say under which names the ends of an edge are given; a property of that name comes first."""
    if not isinstance(declared, EdgeType):
        return {}
    names = {}
    for end, other in _OTHER_NAMES.items():
        taken = other in given.names and declared.property(other) is None
        if taken and end in given.names:
            rule = f"the same as {end!r}: give one of the two"
            raise SchemaMismatchError(str(declared.type_key), other, "a column", rule)
        names[end] = other if taken else end
    return names


def _takes(kind: PropertyType) -> str:
    takes = _TAKES[kind.scalar]
    if kind.list:
        takes = f"lists of {takes}"
    return f"{kind}, which takes {takes}: cast the column first"
