"""The three schema files of a v4 graph: source, compiled IR, and the state that holds its hash.

A graph is opened only when all three agree, by the engine's own rules. One exception is the
engine's too: with both derived files missing and no branch but main, the source alone counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from omnigraph_spark.errors import SchemaError, SchemaFilesError
from omnigraph_spark.schema.ir import hash_of_ir_value, ir_hash, ir_pretty
from omnigraph_spark.schema.model import GraphSchema
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.schema.rust_text import json_text
from omnigraph_spark.storage.objects import ObjectStore
from omnigraph_spark.storage.uri import join

SOURCE_FILE = "_schema.pg"
IR_FILE = "_schema.ir.json"
STATE_FILE = "__schema_state.json"
STATE_FORMAT = 1
_IDENTITY_VERSION = 1


def schema_files(source: str, schema: GraphSchema) -> dict[str, bytes]:
    """Return the three files of a new graph, in the order the engine writes them.

    The first one claims the root: whoever stores it is the one who creates the graph.
    """
    state = {
        "format_version": STATE_FORMAT,
        "schema_ir_hash": ir_hash(schema),
        "schema_identity_version": _IDENTITY_VERSION,
    }
    return {
        SOURCE_FILE: source.encode(),
        IR_FILE: ir_pretty(schema).encode(),
        STATE_FILE: json_text(state, pretty=True).encode(),
    }


def read_schema(root: str, store: ObjectStore, only_main: Callable[[], bool]) -> GraphSchema:
    """Read the schema files, check that they agree, and return what they say."""
    source = store.read(join(root, SOURCE_FILE))
    if source is None:
        raise SchemaFilesError(root, SOURCE_FILE, "it is missing; restore it from a copy")
    schema = parse_source(root, source)
    ir = store.read(join(root, IR_FILE))
    state = store.read(join(root, STATE_FILE))
    if ir is None and state is None and only_main():
        return schema
    for name, content in ((IR_FILE, ir), (STATE_FILE, state)):
        if content is None:
            raise SchemaFilesError(root, name, "it is missing; restore it from a copy")
    return agreed_schema(root, schema, ir or b"", state or b"")


# Every publish has the files read again, and nearly always they are what they were: compiling and
# hashing them takes a small commit as long as its rows do.
@lru_cache(maxsize=16)
def agreed_schema(root: str, schema: GraphSchema, ir: bytes, state: bytes) -> GraphSchema:
    """Return a schema if its two derived files agree with it."""
    stored_hash = _state_hash(root, _parse_json(root, STATE_FILE, state))
    if _ir_file_hash(root, ir) != stored_hash:
        detail = f"its content does not have the hash that {STATE_FILE} records; one was edited"
        raise SchemaFilesError(root, IR_FILE, detail)
    if ir_hash(schema) != stored_hash:
        detail = (
            f"it compiles to another schema than {STATE_FILE} records: it was edited after the "
            f"graph was created; restore it, or change the schema through a schema apply"
        )
        raise SchemaFilesError(root, SOURCE_FILE, detail)
    return schema


@lru_cache(maxsize=16)
def parse_source(root: str, source: bytes) -> GraphSchema:
    """Compile the source of a schema."""
    try:
        return parse_schema(source.decode())
    except UnicodeDecodeError as error:
        raise SchemaFilesError(root, SOURCE_FILE, "it is not UTF-8 text") from error
    except SchemaError as error:
        raise SchemaFilesError(root, SOURCE_FILE, error.describe()) from error


def _parse_json(root: str, name: str, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SchemaFilesError(root, name, f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise SchemaFilesError(root, name, "it is not a JSON object")
    return value


def _state_hash(root: str, state: dict[str, Any]) -> str:
    if state.get("format_version") != STATE_FORMAT:
        found = state.get("format_version")
        detail = f"its format_version is {found!r}; this package reads {STATE_FORMAT}"
        raise SchemaFilesError(root, STATE_FILE, detail)
    recorded = state.get("schema_ir_hash")
    if not isinstance(recorded, str):
        raise SchemaFilesError(root, STATE_FILE, "it has no schema_ir_hash")
    return recorded


def _ir_file_hash(root: str, content: bytes) -> str:
    value = _parse_json(root, IR_FILE, content)
    try:
        return hash_of_ir_value(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SchemaFilesError(root, IR_FILE, "it is not a compiled schema") from error
