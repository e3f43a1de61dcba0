"""Records of all types, in any order, become batches of one type each.

Records wait, type by type, until there are enough for a batch. How many wait is bounded by rows and
by the size of their text, of one type and of all together: the values of a record take a few times
the memory of its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from omnigraph_spark.arrow_rows import public_schema
from omnigraph_spark.blobs import Blobs, is_blob
from omnigraph_spark.errors.base import hint
from omnigraph_spark.jsonl.conversions import Conversion, UnfitError, conversion_of, shown
from omnigraph_spark.jsonl.problems import Problems
from omnigraph_spark.jsonl.records import Portion
from omnigraph_spark.schema.arrow import arrow_type
from omnigraph_spark.schema.columns import Column
from omnigraph_spark.schema.model import EdgeType, EntityType, GraphSchema, PropertyType, Scalar

#: Rows of one batch; larger ones are read a little slower, and wait in more memory.
BATCH_ROWS = 16_384
#: Text of one type that makes a batch however few its rows are: vectors and blobs are long.
BATCH_TEXT_BYTES = 16 << 20
#: Text of all types together that may wait.
WAITING_TEXT_BYTES = 64 << 20

_ID = conversion_of(PropertyType(Scalar.STRING, nullable=True))
_NODE_FIELDS = frozenset({"type", "data"})
_EDGE_FIELDS = frozenset({"edge", "from", "to", "data"})


class _Waiting:
    """Records of one type that are not a batch yet."""

    def __init__(self, declared: EntityType) -> None:
        self.name = declared.name
        self.key = str(declared.type_key)
        self.is_edge = isinstance(declared, EdgeType)
        self.schema = batch_schema(declared)
        self._known = frozenset({"id", *(p.name for p in declared.properties)})
        self._properties = [(p.name, p.type, conversion_of(p.type)) for p in declared.properties]
        self.clear()

    def clear(self) -> None:
        self.lines: list[int] = []
        self.data: list[dict[str, Any]] = []
        self.sources: list[Any] = []
        self.targets: list[Any] = []
        #: Bytes of text of these records, and how many of them are counted in it.
        self.size = self._measured = 0

    def measure(self, size_each: int) -> None:
        """Count the records that came since the last time, each as large as the others."""
        self.size += size_each * (len(self.lines) - self._measured)
        self._measured = len(self.lines)

    def batch(self, problems: Problems) -> pa.RecordBatch | None:
        """Turn what waits into a batch; None when some of it does not fit, which is noted."""
        rows = self.data
        columns = [self._column("id", "String?", _ID, [row.get("id") for row in rows], problems)]
        if self.is_edge:
            # From and to are checked one by one as they come.
            columns += [pa.array(self.sources, pa.string()), pa.array(self.targets, pa.string())]
        for name, kind, conversion in self._properties:
            values = [row.get(name) for row in rows]
            columns.append(self._column(name, str(kind), conversion, values, problems))
        if not self._known.issuperset(set().union(*rows)):
            self._note_unknown(problems)
        if problems:
            return None
        return pa.RecordBatch.from_arrays([c for c in columns if c is not None], schema=self.schema)

    def _column(
        self, name: str, kind: str, conversion: Conversion, values: list[Any], problems: Problems
    ) -> pa.Array[Any] | None:
        try:
            return conversion.column(values)
        except UnfitError as error:
            for fault in error.faults:
                data = self.data[fault.row]
                found = fault.found if name in data else "nothing"
                what = f"{self.name}.{name} is {kind}: found {found}; expected {fault.expected}"
                problems.add(self.lines[fault.row], data, what)
            return None

    def _note_unknown(self, problems: Problems) -> None:
        known = tuple(sorted(self._known))
        for line, data in zip(self.lines, self.data, strict=True):
            for name in data.keys() - self._known:
                what = f"{self.name} has no property {name!r}{hint(name, known)}"
                problems.add(line, data, what)


def batch_schema(declared: EntityType) -> pa.Schema:
    """Return the columns of a type's batches: as users read them, but blobs as they are written.

    `id` is null where a record has none.
    """
    columns = [Column(p.name, p.type) for p in declared.properties]
    fields = [
        pa.field(field.name, arrow_type(column.type), field.nullable) if is_blob(column) else field
        for column, field in zip(columns, public_schema(columns, Blobs.DESCRIPTOR), strict=True)
    ]
    ends = ["src", "dst"] if isinstance(declared, EdgeType) else []
    identity = [pa.field("id", pa.string()), *(pa.field(e, pa.string(), False) for e in ends)]
    return pa.schema([*identity, *fields])


class Gatherer:
    """Takes records of a whole input and gives batches whenever there are enough."""

    def __init__(self, schema: GraphSchema, problems: Problems) -> None:
        self._problems = problems
        self._nodes = {node.name: _Waiting(node) for node in schema.nodes}
        self._edges = {edge.name: _Waiting(edge) for edge in schema.edges}
        # The engine finds an edge type by its exact name, else ignoring case.
        self._edges_folded = {name.lower(): waiting for name, waiting in self._edges.items()}
        self._all = [*self._nodes.values(), *self._edges.values()]

    def add(self, portion: Portion, lines_before: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Take records of a text before which there were so many lines."""
        self._place_all(portion, lines_before)
        share = portion.size // len(portion.values)
        waiting_bytes = 0
        for waiting in self._all:
            waiting.measure(share)
            if len(waiting.lines) >= BATCH_ROWS or waiting.size >= BATCH_TEXT_BYTES:
                yield from self._flush(waiting)
            waiting_bytes += waiting.size
        if waiting_bytes >= WAITING_TEXT_BYTES:
            yield from self._flush(max(self._all, key=lambda waiting: waiting.size))

    def rest(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Give what still waits."""
        for waiting in self._all:
            if waiting.lines:
                yield from self._flush(waiting)

    def _flush(self, waiting: _Waiting) -> Iterator[tuple[str, pa.RecordBatch]]:
        batch = waiting.batch(self._problems)
        waiting.clear()
        if batch is not None:
            yield waiting.key, batch

    def _place_all(self, portion: Portion, lines_before: int) -> None:
        """Put records where their types wait; the usual ones here, the others one by one."""
        nodes, edges = self._nodes, self._edges
        for line, value in zip(portion.lines, portion.values, strict=True):
            try:
                data = value["data"]
                if len(value) == 2:
                    waiting = nodes[value["type"]]
                    usual = type(data) is dict
                else:
                    waiting = edges[value["edge"]]
                    source, target = value["from"], value["to"]
                    usual = type(data) is dict and type(source) is type(target) is str
                    usual = usual and len(value) == 4
            except (KeyError, TypeError):
                usual = False
            if not usual:
                self._place(line + lines_before, value)
                continue
            waiting.lines.append(line + lines_before)
            waiting.data.append(data)
            if waiting.is_edge:
                waiting.sources.append(source)
                waiting.targets.append(target)

    def _place(self, line: int, record: Any) -> None:
        """Put one record where its type waits, or note why it has no place."""
        try:
            waiting = self._type_of(record)
            data = record.get("data")
            if data is not None and type(data) is not dict:
                raise _MisplacedError(
                    f"data of {waiting.name}: found {shown(data)}; expected an object of properties"
                )
            ends = [_end(record, end, waiting.name) for end in ("from", "to") if waiting.is_edge]
            _check_fields(record, waiting)
        except _MisplacedError as error:
            self._problems.add(line, record, str(error))
            return
        waiting.lines.append(line)
        waiting.data.append(data or {})
        if waiting.is_edge:
            waiting.sources.append(ends[0])
            waiting.targets.append(ends[1])

    def _type_of(self, record: Any) -> _Waiting:
        if type(record) is not dict:
            raise _MisplacedError(f"found {shown(record)}; expected an object")
        for field, a_kind, known in (
            ("type", "a node", self._nodes),
            ("edge", "an edge", self._edges),
        ):
            name = record.get(field)
            if name is None:
                continue
            if type(name) is not str:
                expected = f"expected the name of {a_kind} type as text"
                raise _MisplacedError(f"{field!r} is {shown(name)}; {expected}")
            found = known.get(name)
            if found is None and field == "edge":
                found = self._edges_folded.get(name.lower())
            if found is None:
                what = f"there is no {a_kind.split()[1]} type {name!r}"
                raise _MisplacedError(f"{what}{hint(name, tuple(known))}")
            return found
        raise _MisplacedError(
            "found neither 'type' nor 'edge'; expected one of them with the name of a type"
        )


class _MisplacedError(Exception):
    """A record that belongs to no type, or does not have the shape of one."""


def _end(record: dict[str, Any], field: str, name: str) -> str:
    value = record.get(field)
    if type(value) is not str:
        found = shown(value) if field in record else "nothing"
        expected = "expected the id of a node as text"
        raise _MisplacedError(f"{name} needs {field!r}: found {found}; {expected}")
    return value


def _check_fields(record: dict[str, Any], waiting: _Waiting) -> None:
    """Refuse fields a record does not have; those of the other kind may be there and null."""
    fields = _EDGE_FIELDS if waiting.is_edge else _NODE_FIELDS
    for name, value in record.items():
        if name in fields or (value is None and name in _EDGE_FIELDS | _NODE_FIELDS):
            continue
        raise _MisplacedError(
            f"a record of {waiting.name} has no field {name!r}; it has {', '.join(sorted(fields))}"
        )
