"""What a schema may say but storage cannot hold: checked before a graph is created or changed.

Apart from parsing, because a graph that exists is read with whatever its schema says.
"""

from __future__ import annotations

import math

from omnigraph_spark.errors import SchemaRuleError
from omnigraph_spark.schema.model import EdgeType, EntityType, GraphSchema, RangeConstraint

#: Columns that Lance computes for every dataset. On the first three the engine fails as it creates
#: the dataset; with the other two it creates one and crashes at the first load.
SYSTEM_COLUMNS = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    }
)


def check_storable(schema: GraphSchema) -> None:
    """Refuse names that storage needs for itself, and bounds that cannot be written down."""
    for entity in schema.types():
        for prop in entity.properties:
            if use := _reserved(entity, prop.name):
                rule = f"the name is reserved for {use}; choose another"
                raise SchemaRuleError(f"property {entity.name}.{prop.name}", rule)
        for constraint in entity.constraints:
            if isinstance(constraint, RangeConstraint) and not all(
                bound is None or math.isfinite(bound) for bound in (constraint.min, constraint.max)
            ):
                # The engine writes such a bound as null and then cannot open its own graph.
                rule = "a bound of @range is too large for a 64-bit float"
                raise SchemaRuleError(f"property {entity.name}.{constraint.property}", rule)


def _reserved(entity: EntityType, name: str) -> str | None:
    if name == "id":
        return f"the id of every {entity.type_key.kind}"
    if name in ("src", "dst") and isinstance(entity, EdgeType):
        return "the ends of every edge"
    return "a system column of Lance" if name in SYSTEM_COLUMNS else None
