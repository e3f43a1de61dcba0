"""A place to join staged rows with committed ones: relations by name, and SQL over them.

`DuckWorkspace` works in this process, out of core: it holds what does not fit its memory bound in a
temporary folder. `session.workspace` runs the same SQL on Spark. Columns are renamed when a
relation is added, so no name that a user chose ever becomes part of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import pyarrow as pa

from omnigraph_spark.errors import OmnigraphError
from omnigraph_spark.scan import ScanRequest
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.writing.database import Database
from omnigraph_spark.writing.finding import Values, plan_look_up, scan_all
from omnigraph_spark.writing.staged_rows import FILE_NUMBER, StagedSource

# So many values are looked up through Lance, by an index where there is one, instead of reading the
# whole column; a filter of this size still parses in a millisecond.
_LOOKUP_VALUES = 1_000
#: Ids are short; texts of which a megabyte is at hand are not worth a filter.
_LOOKUP_CHARACTERS = 1 << 20
_BATCH_ROWS = 65_536
#: What queries call the columns that say where a row lies, and which it is.
PLACE_NAMES = ("fragment", "place", "row_id")

P = TypeVar("P")


@dataclass(frozen=True)
class Interest:
    """Which committed rows matter: those whose columns are (or are not) in another relation."""

    columns: tuple[str, ...]
    relation: str
    its_columns: tuple[str, ...]
    present: bool = True

    def condition(self, relation: str) -> str:
        """Write the interest as a condition on a relation."""
        pairs = zip(self.columns, self.its_columns, strict=True)
        equal = " AND ".join(f"{relation}.{mine} = x.{its}" for mine, its in pairs)
        exists = f"EXISTS (SELECT 1 FROM {self.relation} x WHERE {equal})"
        return exists if self.present else f"NOT {exists}"


class Workspace(Protocol):
    """What inspection asks of whoever runs its queries."""

    def add_rows(self, name: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Add rows under a name."""

    def add_staged(
        self, name: str, source: StagedSource, columns: Mapping[str, str], numbered: bool = False
    ) -> None:
        """Add staged rows under a name; `columns` maps names in queries to stored columns.

        With `numbered` the column `file` follows, the number of the staged file.
        """

    def add_committed(
        self,
        name: str,
        source: ScanSource,
        columns: Mapping[str, str],
        interests: Sequence[Interest],
        where: str | None = None,
        places: bool = False,
    ) -> None:
        """Add committed rows under a name; `columns` maps names in queries to stored columns.

        Only rows of at least one of the interests are needed; without any, all are. `where` is a
        caller's filter. With `places` the columns `fragment`, `place` and `row_id` follow.
        """

    def add_parts(
        self,
        name: str,
        parts: Sequence[P],
        read: Callable[[P], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> None:
        """Add what `read` yields of every part; both can be pickled and may be read anywhere."""

    def add_mapped(
        self,
        name: str,
        query: str,
        work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> None:
        """Add what `work` makes of the rows of a query, of each of several shares of them.

        It can be pickled and may run anywhere. Where the query is ordered, so are the shares, and
        the rows in each.
        """

    def define(self, name: str, query: str) -> None:
        """Add the result of a query under a name."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query whose answer is small."""

    def table(self, query: str) -> pa.Table:
        """Return the rows of a query whose answer fits in memory."""

    def each_group(self, query: str, by: str, work: Callable[[pa.Table], str]) -> Iterator[str]:
        """Call `work` with the rows of every value of a column of whole numbers.

        `work` can be pickled and may run anywhere, also more than once; its answers are small.
        """

    def run(self, tasks: Sequence[Callable[[], str]]) -> Iterator[str]:
        """Call every task, which can be pickled and may run anywhere; answers are in order."""

    def drop(self, name: str) -> None:
        """Forget a relation."""


class DuckWorkspace:
    """Relations in DuckDB; `few` where it is known that not many rows are staged."""

    def __init__(self, few: bool = False) -> None:
        self._database = Database(few)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._database.close()

    def add_rows(self, name: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Add rows under a name."""
        self._create(name, batches, schema, "")

    def add_staged(
        self, name: str, source: StagedSource, columns: Mapping[str, str], numbered: bool = False
    ) -> None:
        """Add staged rows under a name."""
        stored = list(columns.values())
        schema = source.schema(stored, numbered=numbered)
        named = rename(schema, [*columns, *([FILE_NUMBER] if numbered else ())])
        batches = source.batches(stored, numbered=numbered)
        renamed = (pa.RecordBatch.from_arrays(b.columns, schema=named) for b in batches)
        self._create(name, renamed, named, "")

    def add_committed(
        self,
        name: str,
        source: ScanSource,
        columns: Mapping[str, str],
        interests: Sequence[Interest],
        where: str | None = None,
        places: bool = False,
    ) -> None:
        """Add committed rows under a name, those of interest only."""
        values = few_values(self, source, columns, interests) if where is None else None
        request = ScanRequest(tuple(columns.values()), where)
        parts = [request] if values is None else plan_look_up(source, request, values)
        schema, batches = scan_all(source, request, parts, places)
        names = [*columns, *(PLACE_NAMES if places else ())]
        named = rename(schema, names)
        renamed = (pa.RecordBatch.from_arrays(b.columns, schema=named) for b in batches)
        conditions = " OR ".join(interest.condition("incoming") for interest in interests)
        self._create(name, renamed, named, f"WHERE {conditions}" if conditions else "")

    def add_parts(
        self,
        name: str,
        parts: Sequence[P],
        read: Callable[[P], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> None:
        """Add what `read` yields of every part, one after the other."""
        self._create(name, (batch for part in parts for batch in read(part)), schema, "")

    def add_mapped(
        self,
        name: str,
        query: str,
        work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> None:
        """Add what `work` makes of the rows of a query, of all in one go."""
        # A connection runs one query at a time; a cursor is another one to the same database.
        with self._database.cursor() as reading:
            self._create(name, work(reading.sql(query).to_arrow_reader(_BATCH_ROWS)), schema, "")

    def define(self, name: str, query: str) -> None:
        """Add the result of a query under a name."""
        self.rows(f"CREATE TABLE {name} AS {query}")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query whose answer is small."""
        return self._database.connection.execute(query).fetchall()

    def table(self, query: str) -> pa.Table:
        """Return the rows of a query whose answer fits in memory."""
        table: pa.Table = self._database.connection.sql(query).to_arrow_table()
        return table

    def stream(self, query: str) -> pa.RecordBatchReader:
        """Return the rows of a query as batches."""
        reader: pa.RecordBatchReader = self._database.connection.sql(query).to_arrow_reader(
            _BATCH_ROWS
        )
        return reader

    def each_group(self, query: str, by: str, work: Callable[[pa.Table], str]) -> Iterator[str]:
        """Call `work` with the rows of every value, one after the other."""
        values = self.rows(f"SELECT DISTINCT {by} FROM ({query}) g ORDER BY {by}")
        for (value,) in values:
            yield work(self.table(f"SELECT * FROM ({query}) g WHERE {by} = {int(value)}"))

    def run(self, tasks: Sequence[Callable[[], str]]) -> Iterator[str]:
        """Call every task, one after the other."""
        return (task() for task in tasks)

    def drop(self, name: str) -> None:
        """Forget a relation."""
        self.rows(f"DROP TABLE {name}")

    def _create(
        self, name: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema, where: str
    ) -> None:
        import duckdb

        rows = _Incoming(batches)
        incoming = pa.RecordBatchReader.from_batches(schema, rows.batches())
        self._database.connection.register("incoming", incoming)
        try:
            self.rows(f"CREATE TABLE {name} AS SELECT * FROM incoming {where}")
        except duckdb.Error:
            # DuckDB hides what the rows raised behind a text.
            if rows.failure is not None:
                raise rows.failure from None
            raise
        finally:
            self._database.connection.unregister("incoming")


def few_values(
    space: Workspace,
    source: ScanSource,
    columns: Mapping[str, str],
    interests: Sequence[Interest],
) -> Values | None:
    """Return values of stored columns of text that all rows of interest have one of, where few.

    Of several columns that must be equal together one is enough: others may come along. What is
    null equals nothing, so values that are not whole are of no interest at all.
    """
    if not interests:
        return None
    texts = _text_columns(source)
    # By column: one list of values is one look into its index, and several are as many requests.
    wanted: dict[str, dict[str, None]] = {}
    for interest in interests:
        if not interest.present:
            return None
        pairs = zip(interest.columns, interest.its_columns, strict=True)
        of_text = [(columns[mine], its) for mine, its in pairs if columns[mine] in texts]
        column, its = of_text[0] if of_text else ("", "1")
        whole = " AND ".join(f"{each} IS NOT NULL" for each in interest.its_columns)
        query = f"SELECT DISTINCT {its} FROM {interest.relation} WHERE {whole}"
        values = [value for (value,) in space.rows(f"{query} LIMIT {_LOOKUP_VALUES + 1}")]
        if not values:
            continue
        # A filter cannot hold a null character, which a text can.
        if not of_text or len(values) > _LOOKUP_VALUES or any("\0" in value for value in values):
            return None
        wanted.setdefault(column, {}).update(dict.fromkeys(values))
    if sum(len(value) for values in wanted.values() for value in values) > _LOOKUP_CHARACTERS:
        return None
    return {column: list(values) for column, values in wanted.items()}


def _text_columns(source: ScanSource) -> frozenset[str]:
    """Return the columns that are stored as text, in which equal is equal to Lance as well."""
    schema = source.open().schema
    text = (pa.string(), pa.large_string())
    return frozenset(field.name for field in schema if field.type in text)


def rename(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return a schema with other names."""
    return pa.schema([field.with_name(name) for name, field in zip(names, schema, strict=True)])


class _Incoming:
    """Rows on their way into DuckDB, and what they raised."""

    def __init__(self, rows: Iterable[pa.RecordBatch]) -> None:
        self._rows = rows
        self.failure: Exception | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._rows
        except (OmnigraphError, OSError) as error:
            self.failure = error
            raise
