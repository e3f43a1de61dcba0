"""The compiled schema as JSON (`_schema.ir.json`) and its hash, byte for byte as the engine's.

Field order is part of the format: the hash is taken over the compact text.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

from omnigraph_spark.schema.ids import property_id, type_id
from omnigraph_spark.schema.ir_shape import in_field_order
from omnigraph_spark.schema.model import (
    Annotation,
    CheckConstraint,
    Constraint,
    EdgeType,
    GraphSchema,
    IndexConstraint,
    Interface,
    KeyConstraint,
    NodeType,
    Property,
    PropertyType,
    RangeConstraint,
    Scalar,
    UniqueConstraint,
)
from omnigraph_spark.schema.rust_text import json_text

IR_VERSION = 1


def to_ir(schema: GraphSchema) -> dict[str, Any]:
    """Return the compiled schema as a JSON value, fields in the order of the format."""
    return {
        "ir_version": IR_VERSION,
        "interfaces": [_interface(interface) for interface in schema.interfaces],
        "nodes": [_node(node) for node in schema.nodes],
        "edges": [_edge(edge) for edge in schema.edges],
    }


def ir_compact(schema: GraphSchema) -> str:
    """Return the compiled schema on one line: the text that is hashed."""
    return json_text(to_ir(schema))


def ir_pretty(schema: GraphSchema) -> str:
    """Return the content of `_schema.ir.json`."""
    return json_text(to_ir(schema), pretty=True)


def ir_hash(schema: GraphSchema) -> str:
    """Return the hash that identifies the schema.

    >>> from omnigraph_spark.schema.parser import parse_schema
    >>> ir_hash(parse_schema(""))
    'sha256:175cac5f031a9979111d2b7cdce27f1ba29597e55e4ecfbeb5840c8671c1c983'
    """
    return _hash(ir_compact(schema))


def hash_of_ir_value(value: Any) -> str:
    """Return the hash of a parsed `_schema.ir.json`, whatever its formatting.

    The engine reads the file and writes it anew before hashing: unknown fields fall away, missing
    optional ones appear, list order stays. What is no compiled schema raises `SchemaRuleError`.
    """
    return _hash(json_text(in_field_order(value)))


def _hash(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _interface(interface: Interface) -> dict[str, Any]:
    return {
        "name": interface.name,
        "type_id": type_id("interface", interface.name),
        "properties": _properties("interface", interface),
    }


def _node(node: NodeType) -> dict[str, Any]:
    return {
        "name": node.name,
        "type_id": type_id("node", node.name),
        "annotations": [_annotation(annotation) for annotation in node.annotations],
        "implements": list(node.implements),
        "properties": _properties("node", node),
        "constraints": [_constraint(constraint) for constraint in node.constraints],
    }


def _edge(edge: EdgeType) -> dict[str, Any]:
    return {
        "name": edge.name,
        "type_id": type_id("edge", edge.name),
        "from_type": edge.from_type,
        "to_type": edge.to_type,
        "cardinality": {"min": edge.cardinality.min, "max": edge.cardinality.max},
        "annotations": [_annotation(annotation) for annotation in edge.annotations],
        "properties": _properties("edge", edge),
        "constraints": [_constraint(constraint) for constraint in edge.constraints],
    }


def _properties(kind: str, owner: Interface | NodeType | EdgeType) -> list[dict[str, Any]]:
    return [_property(kind, owner.name, prop) for prop in owner.properties]


def _property(kind: str, owner: str, prop: Property) -> dict[str, Any]:
    return {
        "name": prop.name,
        "prop_id": property_id(kind, owner, prop.name),
        "prop_type": _type(prop.type),
        "annotations": [_annotation(annotation) for annotation in prop.annotations],
    }


def _type(kind: PropertyType) -> dict[str, Any]:
    vector = kind.scalar is Scalar.VECTOR
    return {
        "scalar": {"Vector": kind.dimension} if vector else str(kind.scalar),
        "nullable": kind.nullable,
        "list": kind.list,
        "enum_values": None if kind.enum_values is None else list(kind.enum_values),
    }


def _annotation(annotation: Annotation) -> dict[str, Any]:
    value: dict[str, Any] = {"name": annotation.name, "value": annotation.value}
    return value | {"kwargs": dict(annotation.kwargs)} if annotation.kwargs else value


def _constraint(constraint: Constraint) -> dict[str, Any]:
    match constraint:
        case KeyConstraint(columns):
            return {"Key": list(columns)}
        case UniqueConstraint(columns):
            return {"Unique": list(columns)}
        case IndexConstraint(columns):
            return {"Index": list(columns)}
        case RangeConstraint(column, low, high):
            return {"Range": {"property": column, "min": _bound(low), "max": _bound(high)}}
        case CheckConstraint(column, pattern):
            return {"Check": {"property": column, "pattern": pattern}}


def _bound(bound: int | float | None) -> dict[str, Any] | None:
    if bound is None:
        return None
    if isinstance(bound, float):
        # JSON has no infinity; the engine writes null and cannot read it back.
        return {"Float": bound if math.isfinite(bound) else None}
    return {"Integer": bound}
