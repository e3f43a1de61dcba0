"""The shape of a procedure: what ``CALL og.system.…`` takes and returns, as the jar is told of it.

A procedure is declared in Python alone; the jar builds it from the description. What one leaves to
the session, such as who writes from now on, are options that the jar sends with everything later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from omnigraph_spark.graph import Graph
from omnigraph_spark.names import Ref
from omnigraph_spark.session.types import spark_arrow_schema
from omnigraph_spark.snapshot import GraphReader, SnapshotState
from pyspark_omnigraph.tunnel import as_text

TEXT, LONG, FLAG, TEXTS = StringType(), LongType(), BooleanType(), ArrayType(StringType())
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Parameter:
    """One argument; `default` is SQL text, and an argument without one is required."""

    name: str
    type: DataType
    about: str
    default: str | None = None


@dataclass(frozen=True)
class Call:
    """What a procedure works on: the graph on a branch, and the session that calls."""

    reader: GraphReader
    branch: str
    actor: str | None = None
    #: The folder of the transaction that the session is in.
    transaction: str | None = None
    #: Options that hold for the rest of the session; None takes one back.
    session: dict[str, str | None] = field(default_factory=dict)

    @cached_property
    def graph(self) -> Graph:
        """The graph, bound to the branch."""
        return Graph(self.reader, self.branch, actor=self.actor)

    def head(self) -> SnapshotState:
        """Return the newest snapshot of the branch."""
        return self.reader.resolve(Ref.branch(self.branch))


@dataclass(frozen=True)
class Procedure:
    """One procedure: arguments in order, columns of its rows, and what it does."""

    name: str
    about: str
    run: Callable[..., Iterable[Row]]
    result: Mapping[str, DataType]
    parameters: tuple[Parameter, ...] = ()

    def signature(self) -> str:
        """Return how it is written, with its defaults."""
        arguments = (
            p.name if p.default is None else f"{p.name} => {p.default}" for p in self.parameters
        )
        return f"{self.name}({', '.join(arguments)})"

    def describe(self) -> dict[str, Any]:
        """Describe it to the jar."""
        return {
            "name": self.name,
            "about": self.about,
            "result": self._columns().json(),
            "parameters": [
                {"name": p.name, "type": p.type.json(), "about": p.about, "default": p.default}
                for p in self.parameters
            ],
        }

    def __call__(self, call: Call, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run it; the answer holds its rows in Arrow, and what the session is to remember."""
        schema = spark_arrow_schema(self._columns())
        rows = list(self.run(call, **arguments))
        values = [pa.array([row[n] for row in rows], each.type) for n, each in enumerate(schema)]
        batch = pa.RecordBatch.from_arrays(values, schema=schema)
        return {"rows": as_text(batch), "session": call.session}

    def _columns(self) -> StructType:
        return StructType([StructField(name, type_) for name, type_ in self.result.items()])
