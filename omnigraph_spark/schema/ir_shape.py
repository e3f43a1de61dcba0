"""The shape of a compiled schema's JSON: reads a parsed file the way the engine's parser does.

Gives back the same value with known fields only, in the order of the format, so that two files that
mean the same have the same text. Each shape below is a function from a value and its path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

from omnigraph_spark.errors import SchemaRuleError
from omnigraph_spark.schema.model import Scalar

Shape = Callable[[Any, str], Any]


def in_field_order(value: Any) -> Any:
    """Return a parsed IR with its fields in the order of the format; refuse what is none."""
    return _ROOT(value, "IR")


def _refuse(path: str, expected: str) -> NoReturn:
    raise SchemaRuleError(path, f"expected {expected}")


def _text(value: Any, path: str) -> str:
    return value if isinstance(value, str) else _refuse(path, "a text")


def _switch(value: Any, path: str) -> bool:
    return value if isinstance(value, bool) else _refuse(path, "true or false")


def _whole(low: int, high: int) -> Shape:
    def read(value: Any, path: str) -> int:
        # JSON's true is an int to Python, but not to the engine.
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        _refuse(path, f"a whole number from {low} to {high}")

    return read


def _float(value: Any, path: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    _refuse(path, "a finite number")


def _list(item: Shape) -> Shape:
    def read(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            _refuse(path, "a list")
        return [item(element, f"{path}[{number}]") for number, element in enumerate(value)]

    return read


def _optional(shape: Shape) -> Shape:
    def read(value: Any, path: str) -> Any:
        return None if value is None else shape(value, path)

    return read


def _record(required: dict[str, Shape], optional: dict[str, Shape] | None = None) -> Shape:
    """Describe an object; a missing optional field is null. Fields come out in this order."""
    optional = optional or {}

    def read(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            _refuse(path, "an object")
        for name in required:
            if name not in value:
                _refuse(path, f"a field {name!r}")
        known = required | {name: _optional(shape) for name, shape in optional.items()}
        return {name: shape(value.get(name), f"{path}.{name}") for name, shape in known.items()}

    return read


def _one_of(variants: dict[str, Shape]) -> Shape:
    """Describe an object with exactly one field, whose name says what it is."""

    def read(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) != 1 or not variants.keys() >= value.keys():
            _refuse(path, f"one of {', '.join(variants)}")
        ((name, content),) = value.items()
        return {name: variants[name](content, f"{path}.{name}")}

    return read


def _scalar(value: Any, path: str) -> Any:
    if isinstance(value, str):
        if value in tuple(Scalar) and value != Scalar.VECTOR:
            return value
        _refuse(path, "a type of the schema language")
    return _one_of({"Vector": _U32})(value, path)


def _annotation(value: Any, path: str) -> Any:
    plain = _record({"name": _text}, {"value": _text})(value, path)
    kwargs = value.get("kwargs", {})
    if not isinstance(kwargs, dict):
        _refuse(f"{path}.kwargs", "an object")
    ordered = {key: _text(kwargs[key], f"{path}.kwargs.{key}") for key in sorted(kwargs)}
    return plain | {"kwargs": ordered} if ordered else plain


_U32 = _whole(0, 2**32 - 1)
_BOUND = _one_of({"Integer": _whole(-(2**63), 2**63 - 1), "Float": _float})
_CONSTRAINT = _one_of(
    {
        "Key": _list(_text),
        "Unique": _list(_text),
        "Index": _list(_text),
        "Range": _record({"property": _text}, {"min": _BOUND, "max": _BOUND}),
        "Check": _record({"property": _text, "pattern": _text}),
    }
)
_TYPE = _record(
    {"scalar": _scalar, "nullable": _switch, "list": _switch}, {"enum_values": _list(_text)}
)
_ANNOTATIONS = _list(_annotation)
_PROPERTIES = _list(
    _record({"name": _text, "prop_id": _U32, "prop_type": _TYPE, "annotations": _ANNOTATIONS})
)
_INTERFACE = _record({"name": _text, "type_id": _U32, "properties": _PROPERTIES})
_NODE = _record(
    {
        "name": _text,
        "type_id": _U32,
        "annotations": _ANNOTATIONS,
        "implements": _list(_text),
        "properties": _PROPERTIES,
        "constraints": _list(_CONSTRAINT),
    }
)
_EDGE = _record(
    {
        "name": _text,
        "type_id": _U32,
        "from_type": _text,
        "to_type": _text,
        "cardinality": _record({"min": _U32}, {"max": _U32}),
        "annotations": _ANNOTATIONS,
        "properties": _PROPERTIES,
        "constraints": _list(_CONSTRAINT),
    }
)
_ROOT = _record(
    {
        "ir_version": _U32,
        "interfaces": _list(_INTERFACE),
        "nodes": _list(_NODE),
        "edges": _list(_EDGE),
    }
)
