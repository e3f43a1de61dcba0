"""Which rows a change of one in a hundred is about; nothing here needs one line of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: `a` has a million values, so each of a hundred ranges holds one row in a hundred.
_RANGE = 10_000


def one_in_a_hundred(number: int) -> str:
    """Return the condition of one of a hundred ranges.

    >>> one_in_a_hundred(2)
    'a >= 20000 AND a < 30000'
    """
    return f"a >= {number * _RANGE} AND a < {(number + 1) * _RANGE}"


def changed(rows: DataFrame, turn: int) -> DataFrame:
    """Return one row in a hundred with another value; one in ten of them is new."""
    new = f"CASE WHEN b % 10 = 0 THEN concat(id, '-{turn}') ELSE id END AS id"
    others = (c if c != "d" else "d + 1 AS d" for c in rows.columns[1:])
    return rows.where(one_in_a_hundred(turn)).selectExpr(new, *others)
