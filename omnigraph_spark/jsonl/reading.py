"""The engine's interchange records into Arrow batches by type, from files, text or lines.

Both functions read the input to its end and check all of it before they return. Batches have the
types users read (`arrow_rows`), so they go where any other input goes: ids, keys and the rules of
the schema are `intake`'s business. What a record must look like is said in `gathering`, what its
values must be in `conversions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from omnigraph_spark.jsonl.gathering import Gatherer
from omnigraph_spark.jsonl.problems import Problems
from omnigraph_spark.jsonl.records import Line, Lines, MalformedError, values_in
from omnigraph_spark.jsonl.sources import Source, Text, texts_of
from omnigraph_spark.jsonl.spool import RowsByType
from omnigraph_spark.schema.model import GraphSchema


def read_jsonl(source: Source, schema: GraphSchema) -> RowsByType:
    """Read records from a file, a folder, a pattern, text that begins with ``{``, or lines.

    Names that end in ``.gz`` are unpacked; in a folder, names that begin with ``.`` or ``_`` are
    left out.

    >>> from omnigraph_spark.schema.parser import parse_schema
    >>> schema = parse_schema("node Person { name: String @key }")
    >>> with read_jsonl('{"type": "Person", "data": {"name": "Alice"}}', schema) as rows:
    ...     [batch.to_pylist() for batch in rows["node:Person"]]
    [[{'id': None, 'name': 'Alice'}]]

    Raises:
        InvalidRecordsError: The input is not JSON, or records do not fit the schema.
    """
    return RowsByType(stream_rows(texts_of(source), schema))


def rows_from_lines(
    lines: Iterable[Line], schema: GraphSchema, *, numbered: bool = True
) -> RowsByType:
    """Read records from lines that somebody else reads, such as a task of Spark.

    Without `numbered`, problems quote the record: the number of a line within a task says nothing.
    """
    return RowsByType(stream_rows([Text(lines)], schema, numbered=numbered))


def stream_rows(
    texts: Iterable[Text], schema: GraphSchema, *, numbered: bool = True
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield batches with their type key as soon as they are full; types come in any order.

    After the first problem nothing more is yielded: what follows is read only to say what else is
    wrong, and the error comes at the end, or once there are as many problems as it shows.
    """
    problems = Problems(numbered)
    gatherer = Gatherer(schema, problems)
    lines_before = 0
    for text in texts:
        problems.begin(lines_before, text.name)
        lines = Lines(text.lines)
        try:
            for portion in values_in(lines):
                yield from gatherer.add(portion, lines_before)
                if problems.enough:
                    problems.refuse()
        except MalformedError as error:
            problems.add(lines_before + error.line, None, error.reason)
            # What waits may have problems, too: they are told in the same error.
            list(gatherer.rest())
            problems.refuse()
        lines_before += lines.taken
    yield from gatherer.rest()
    problems.refuse()
