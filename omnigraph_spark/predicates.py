"""Filter trees of Spark's planner, written as conditions that Lance evaluates exactly as Spark.

The jar sends trees: ``{"op": "and", "args": [tree, …]}``, also ``or`` and ``not``, above
comparisons of one column with literals of its own type, ``{"op": "<", "args": [{"col": "age"},
{"lit": 30}]}``; a null test has no literal, ``in`` has many. What Lance would evaluate otherwise
is written otherwise, or not sent: `FILTERABLE` says which columns may be compared at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import Scalar

#: One node of a tree, as JSON gave it.
Tree = Mapping[str, Any]

#: Scalars that Lance compares as Spark does; texts by their bytes, floats with one zero and one NaN
#: above everything.
FILTERABLE = frozenset(Scalar) - {Scalar.VECTOR, Scalar.BLOB}
#: Scalars that Lance sorts as Spark does; among floats it would put -0.0 before 0.0.
SORTABLE = FILTERABLE - {Scalar.F32, Scalar.F64}

_MICROSECONDS = 1_000
_UNSIGNED = {Scalar.U32: (1 << 32) - 1, Scalar.U64: (1 << 64) - 1}
_SMALLEST_I64 = -(1 << 63)
_TEXT_TESTS = frozenset({"starts_with", "ends_with", "contains"})


def is_filterable(column: Column) -> bool:
    """Tell whether Lance compares a column exactly as Spark does."""
    return column.type.scalar in FILTERABLE and not column.type.list


def is_sortable(column: Column) -> bool:
    """Tell whether Lance sorts by a column exactly as Spark does."""
    return column.type.scalar in SORTABLE and not column.type.list


def lance_condition(trees: Sequence[Tree], columns: Mapping[str, Scalar]) -> str | None:
    """Write the condition that all of these trees hold, or None when there is none.

    >>> tree = {"op": ">", "args": [{"col": "age"}, {"lit": 30}]}
    >>> lance_condition([tree], {"age": Scalar.I32})
    '`age` > 30'
    """
    return " and ".join(_written(tree, columns) for tree in trees) if trees else None


def looked_up(trees: Sequence[Tree]) -> dict[str, int]:
    """Return the columns that must have one of some values, and how many values these are.

    >>> looked_up([{"op": "in", "args": [{"col": "id"}, {"lit": "a"}, {"lit": "b"}]}])
    {'id': 2}
    """
    asked = [tree["args"] for tree in trees if tree["op"] in ("=", "in")]
    return {args[0]["col"]: len(args) - 1 for args in asked}


def _written(tree: Tree, columns: Mapping[str, Scalar]) -> str:
    op, args = tree["op"], tree["args"]
    if op in ("and", "or"):
        return "(" + f" {op} ".join(_written(arg, columns) for arg in args) + ")"
    if op == "not":
        return f"(not {_written(args[0], columns)})"
    name = args[0]["col"]
    values = [arg["lit"] for arg in args[1:]]
    return _comparison(op, f"`{name}`", columns[name], values)


def _comparison(op: str, column: str, scalar: Scalar, values: list[Any]) -> str:
    if op in ("is_null", "is_not_null"):
        return f"{column} {op.replace('_', ' ')}"
    if op in _TEXT_TESTS:
        return f"{op}({column}, {_literal(values[0], scalar)})"
    if op == "in":
        return _in(column, scalar, values)
    [value] = values
    if op == "<=>":
        # Lance has no IS NOT DISTINCT FROM; under `not` this must be false for nulls, not unknown.
        if value is None:
            return f"{column} is null"
        return f"({column} is not null and {_comparison('=', column, scalar, [value])})"
    if scalar in _UNSIGNED and not 0 <= int(value) <= _UNSIGNED[scalar]:
        return _beyond(op, column, below=int(value) < 0)
    if scalar is Scalar.DATETIME:
        return _instant(op, column, value)
    return f"{column} {op} {_literal(value, scalar)}"


def _in(column: str, scalar: Scalar, values: list[Any]) -> str:
    """Leave out what no value of the column can be; a null in the list stays, as it is no match."""
    storable = [value for value in values if value is None or _is_storable(value, scalar)]
    if not storable:
        return _never(column)
    if scalar is Scalar.DATETIME:
        storable = [None if v is None else v // _MICROSECONDS for v in storable]
        listed = ", ".join("null" if v is None else _milliseconds(v) for v in storable)
    else:
        listed = ", ".join(_literal(value, scalar) for value in storable)
    return f"{column} in ({listed})"


def _is_storable(value: Any, scalar: Scalar) -> bool:
    if scalar in _UNSIGNED:
        return 0 <= int(value) <= _UNSIGNED[scalar]
    return scalar is not Scalar.DATETIME or value % _MICROSECONDS == 0


def _beyond(op: str, column: str, below: bool) -> str:
    """Compare an unsigned column with a number outside its range, which Lance refuses."""
    always = {"<>", ">", ">="} if below else {"<>", "<", "<="}
    return _always(column) if op in always else _never(column)


def _instant(op: str, column: str, microseconds: int) -> str:
    """Compare stored milliseconds with microseconds, in whole numbers.

    Lance's own timestamps go through nanoseconds and end in the years 1677 and 2262.
    """
    floor, rest = divmod(microseconds, _MICROSECONDS)
    if rest and op == "=":
        return _never(column)
    if rest and op == "<>":
        return _always(column)
    # A stored value is below (or not below) a fraction as it is below the next whole number.
    bound = floor + 1 if rest and op in ("<", ">=") else floor
    return f"{column} {op} {_milliseconds(bound)}"


def _milliseconds(value: int) -> str:
    return f"arrow_cast({_integer(value)}, 'Date64')"


def _always(column: str) -> str:
    """Write what is true of every value, and unknown for null."""
    return f"{column} = {column}"


def _never(column: str) -> str:
    """Write what is false for every value, and unknown for null."""
    return f"{column} <> {column}"


def _literal(value: Any, scalar: Scalar) -> str:
    if value is None:
        return "null"
    match scalar:
        case Scalar.STRING:
            return "'" + str(value).replace("'", "''") + "'"
        case Scalar.BOOL:
            return "true" if value else "false"
        case Scalar.F32 | Scalar.F64:
            # The fewest digits that are this double, which for a float is its exact value.
            return repr(float(value))
        case Scalar.DATE:
            return f"arrow_cast({int(value)}, 'Date32')"
        case _:
            return _integer(int(value))


def _integer(value: int) -> str:
    # Lance negates after parsing, and 2^63 is no bigint.
    return f"cast('{value}' as bigint)" if value == _SMALLEST_I64 else str(value)
