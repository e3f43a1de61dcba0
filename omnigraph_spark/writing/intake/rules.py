"""Rules of the schema that one row breaks by itself: enum, `@range`, `@check`.

As the engine enforces them: null breaks none, NaN breaks every range, bounds belong to it, a match
may be anywhere in the text, `@range` and `@check` do not look into lists. Where the engine compares
large integers as floats we compare exactly: that refuses what it rounds away, and accepts nothing
it refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.errors.base import known_names
from omnigraph_spark.schema.model import (
    CheckConstraint,
    EntityType,
    Property,
    RangeConstraint,
    Scalar,
)
from omnigraph_spark.writing.intake.casts import AnyArray, Broken, any_of
from omnigraph_spark.writing.intake.patterns import Pattern
from omnigraph_spark.writing.intake.regex_tree import PatternError

#: Looks at a stored array and says which rows break the rule, if any do.
Rule = Callable[[AnyArray], "Broken | None"]

_FLOATS = (Scalar.F32, Scalar.F64)


def rules_of(declared: EntityType, prop: Property) -> tuple[Rule, ...]:
    """Return the rules the values of one property have to keep."""
    return tuple(_rules(declared, prop))


def _rules(declared: EntityType, prop: Property) -> Iterator[Rule]:
    if prop.type.enum_values is not None:
        yield partial(_enum, allowed=prop.type.enum_values)
    if prop.type.list:
        return
    for constraint in declared.constraints:
        match constraint:
            case RangeConstraint(property=prop.name):
                yield _range_rule(constraint, prop.type.scalar)
            case CheckConstraint(property=prop.name):
                yield _check_rule(constraint, declared)
            case _:
                pass


def _enum(values: AnyArray, allowed: tuple[str, ...]) -> Broken | None:
    known = pc.is_in(values, value_set=pa.array(allowed, pa.string()))
    return _broken("enum", f"the value is not one of {known_names(allowed)}", values, known)


def _range_rule(constraint: RangeConstraint, scalar: Scalar) -> Rule:
    low, high = constraint.min, constraint.max
    if scalar in _FLOATS:
        low, high = _float_bound(low, math.inf), _float_bound(high, -math.inf)
    else:
        low = None if low is None else math.ceil(low)
        high = None if high is None else math.floor(high)
    return partial(_range, low=low, high=high, message=_range_text(constraint))


def _float_bound(bound: float | None, inwards: float) -> float | None:
    """Return the float next to a bound that lies within it: not every integer is a float."""
    if bound is None:
        return None
    near = float(bound)
    outside = near < bound if inwards > 0 else near > bound
    return math.nextafter(near, inwards) if outside else near


def _range_text(constraint: RangeConstraint) -> str:
    if constraint.min is None:
        return f"the value is not {constraint.max} or less"
    if constraint.max is None:
        return f"the value is not {constraint.min} or more"
    return f"the value is not between {constraint.min} and {constraint.max}"


def _range(values: AnyArray, low: float | None, high: float | None, message: str) -> Broken | None:
    within: Any = pc.invert(pc.is_nan(values)) if pa.types.is_floating(values.type) else None
    for bound, inside, reached in ((low, pc.greater_equal, 1), (high, pc.less_equal, -1)):
        if bound is None:
            continue
        mask = _compared(values, bound, inside, reached)
        within = mask if within is None else pc.and_(within, mask)
    if within is None:
        return None
    return _broken("range", message, values, within)


def _compared(values: AnyArray, bound: float, inside: Any, reached: int) -> Any:
    if isinstance(bound, float):
        return inside(values, pa.scalar(bound, pa.float64()))
    try:
        return inside(values, pa.scalar(bound, values.type))
    except (pa.ArrowInvalid, OverflowError):
        # No value of the type gets as far as the bound: all are inside, or none is.
        return pa.repeat(pa.scalar((bound < 0) == (reached > 0)), len(values))


def _check_rule(constraint: CheckConstraint, declared: EntityType) -> Rule:
    try:
        pattern = Pattern.of(constraint.pattern)
    except PatternError as error:
        where = f"{declared.type_key}.{constraint.property}"
        raise UnsupportedError(
            f"the pattern {constraint.pattern!r} of @check on {where} ({error})",
            "write it another way, or load the rows with the engine if it takes them",
        ) from error
    return partial(_check, pattern=pattern, message=f"no match of {constraint.pattern!r}")


def _check(values: AnyArray, pattern: Pattern, message: str) -> Broken | None:
    return _broken("check", message, values, pattern.matches(values))


def _broken(rule: str, message: str, values: AnyArray, kept: Any) -> Broken | None:
    """Name the rows that have a value but do not keep the rule."""
    if pc.all(kept).as_py() is not False:
        return None
    rows = any_of([pc.and_(values.is_valid(), pc.invert(kept))], len(values))
    return Broken(rule, message, rows) if pc.any(rows).as_py() else None
