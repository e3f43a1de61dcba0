"""Short ways to send rows through an intake and to look at what is stored."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.schema.parser import parse_schema
from omnigraph_spark.writing.intake import Intake


@functools.cache
def entity(text: str, name: str | None = None) -> EntityType:
    """Return a type of a schema text, the last one by default."""
    types = {declared.name: declared for declared in parse_schema(text).types()}
    return types[name] if name else list(types.values())[-1]


def taken(
    declared: EntityType, rows: pa.Table, mode: str = "append", batch_rows: int = 3, **more: Any
) -> tuple[pa.Table, list[str]]:
    """Send a table through an intake in small batches; return what is stored and the violations."""
    intake = Intake(declared, rows.schema, mode, **more)
    stored = [intake.convert(batch) for batch in rows.to_batches(max_chunksize=batch_rows)]
    return pa.Table.from_batches(stored, intake.schema), [str(v) for v in intake.violations()]


def stored(declared: EntityType, rows: pa.Table, **more: Any) -> pa.Table:
    """Return what is stored of rows that break no rule."""
    table, violations = taken(declared, rows, **more)
    assert violations == []
    assert table.schema.types == [field.type for field in table.schema]
    return table


def refused(declared: EntityType, rows: pa.Table, **more: Any) -> list[str]:
    """Return the violations of rows that break rules."""
    table, violations = taken(declared, rows, **more)
    assert violations
    assert table.num_rows == 0 or rows.num_rows > 3
    return violations


def column(type_text: str, values: pa.Array[Any], ids: Sequence[str] | None = None) -> Any:
    """Return a type with one property `x` and rows for it, named a, b, c, … or as given."""
    names = ids if ids is not None else [chr(97 + place) for place in range(len(values))]
    declared = entity(f"node T {{ x: {type_text} }}")
    return declared, pa.table({"id": pa.array(names, pa.string()), "x": values})
