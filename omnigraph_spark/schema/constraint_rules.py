"""Rules about constraints: which columns they may name, of which types, how many keys."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_spark.errors.base import hint
from omnigraph_spark.schema.declarations import (
    Declarations,
    DeclaredConstraint,
    DeclaredEdge,
    DeclaredEntity,
    refuse,
)
from omnigraph_spark.schema.model import (
    CheckConstraint,
    Constraint,
    IndexConstraint,
    KeyConstraint,
    PropertyType,
    RangeConstraint,
    Scalar,
    UniqueConstraint,
)

_NUMERIC = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.F32, Scalar.F64})
_WORDS: dict[type[Constraint], str] = {
    KeyConstraint: "@key",
    UniqueConstraint: "@unique",
    IndexConstraint: "@index",
    RangeConstraint: "@range",
    CheckConstraint: "@check",
}


def check_constraints(declared: Declarations) -> None:
    """Check the constraints of every node and edge, written or implied."""
    for entity in declared.entities():
        keys = 0
        for given in entity.constraints:
            _check(entity, given)
            keys += isinstance(given.constraint, KeyConstraint)
            if keys > 1:
                refuse(entity, "it has more than one @key; write @key(a, b) once", given.place)


def _check(entity: DeclaredEntity, given: DeclaredConstraint) -> None:
    constraint = given.constraint
    word = _WORDS[type(constraint)]
    on_edge = isinstance(entity, DeclaredEdge)
    if on_edge and not isinstance(constraint, UniqueConstraint | IndexConstraint):
        refuse(entity, f"an edge can have @unique and @index, not {word}", given.place)
    types = {prop.name: prop.type for prop in entity.properties}
    for column in columns_of(constraint):
        if on_edge and column in ("src", "dst"):
            continue
        if column not in types:
            rule = f"{word} names {column!r}, which it does not have{hint(column, tuple(types))}"
            refuse(entity, rule, given.place)
        if reason := _unfit(constraint, column, types):
            refuse(f"property {entity.name}.{column}", f"{word} {reason}", given.place)


def columns_of(constraint: Constraint) -> tuple[str, ...]:
    """Return the columns a constraint names."""
    if isinstance(constraint, RangeConstraint | CheckConstraint):
        return (constraint.property,)
    return constraint.columns


def _unfit(constraint: Constraint, column: str, types: Mapping[str, PropertyType]) -> str | None:
    """Say what a column lacks for a constraint; only what the engine asks for, no more."""
    kind = types[column]
    match constraint:
        case KeyConstraint() if kind.nullable:
            return "needs a property that is never null; drop the '?'"
        case KeyConstraint() if kind.list or kind.scalar in (Scalar.VECTOR, Scalar.BLOB):
            return f"cannot stand on {kind}"
        case IndexConstraint() if kind.scalar is Scalar.BLOB:
            return "cannot stand on a blob"
        case RangeConstraint() if kind.scalar not in _NUMERIC:
            return f"needs a number, and this is {kind}"
        case CheckConstraint() if kind.scalar is not Scalar.STRING:
            return f"needs a String, and this is {kind}"
        case _:
            return None
