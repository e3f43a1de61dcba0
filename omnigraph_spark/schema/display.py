"""A schema at a glance: the short table a prompt or notebook shows. The full text is `to_pg()`."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from omnigraph_spark.schema.model import EdgeType, EntityType, GraphSchema

#: Width of the table's last column in text; with the others it fits a terminal of 100.
_WIDTH = 60


class _Row(NamedTuple):
    type: str
    key: str
    properties: tuple[str, ...]


def schema_text(schema: GraphSchema) -> str:
    """Show types, keys and properties, one line per type.

    >>> from omnigraph_spark.schema.parser import parse_schema
    >>> parse_schema("node Person { name: String @key age: I32? } edge Knows: Person -> Person")
    GraphSchema: 1 node type, 1 edge type
      node Person                   key name  age: I32?, name: String
      edge Knows: Person -> Person
    """
    rows = list(_rows(schema))
    keys = [f"key {row.key}" if row.key else "" for row in rows]
    type_width = max((len(row.type) for row in rows), default=0)
    key_width = max(map(len, keys), default=0)
    lines = (
        f"  {row.type:{type_width}}  {key:{key_width}}  {_cut(row.properties)}".rstrip()
        for row, key in zip(rows, keys, strict=True)
    )
    return "\n".join([_title(schema), *lines])


def schema_html(schema: GraphSchema) -> str:
    """Show the same as an HTML table, every word escaped."""
    rows = "".join(
        f"<tr><td>{escape(row.type)}</td><td>{escape(row.key)}</td>"
        f"<td>{escape(', '.join(row.properties))}</td></tr>"
        for row in _rows(schema)
    )
    return (
        f"<table><caption>{escape(_title(schema))}</caption>"
        f"<thead><tr><th>type</th><th>key</th><th>properties</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _title(schema: GraphSchema) -> str:
    nodes, edges = len(schema.nodes), len(schema.edges)
    return f"GraphSchema: {_count(nodes, 'node type')}, {_count(edges, 'edge type')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _rows(schema: GraphSchema) -> Iterator[_Row]:
    for entity in schema.types():
        properties = tuple(f"{prop.name}: {prop.type}" for prop in entity.properties)
        key = "" if isinstance(entity, EdgeType) else ", ".join(entity.key)
        yield _Row(_headline(entity), key, properties)


def _headline(entity: EntityType) -> str:
    if isinstance(entity, EdgeType):
        return f"edge {entity.name}: {entity.from_type} -> {entity.to_type}"
    implements = f" ({', '.join(entity.implements)})" if entity.implements else ""
    return f"node {entity.name}{implements}"


def _cut(properties: tuple[str, ...]) -> str:
    shown = ""
    for number, text in enumerate(properties):
        longer = f"{shown}, {text}" if shown else text
        if shown and len(longer) > _WIDTH:
            return f"{shown} and {len(properties) - number} more"
        shown = longer
    return shown
