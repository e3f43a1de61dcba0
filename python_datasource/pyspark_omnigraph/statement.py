"""What the jar says of the SQL statement a write belongs to, and the terms that follow from it.

A statement reads its tables at one manifest version. It is published only if the types it read are
still as they were then: what it writes may depend on every row of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph_spark.errors import UnsupportedError
from omnigraph_spark.filters import is_present
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.names import Ref
from omnigraph_spark.options import ReadOptions
from omnigraph_spark.predicates import Tree, is_filterable, lance_condition
from omnigraph_spark.recovery.sweep import heal
from omnigraph_spark.scan_source import ScanSource
from omnigraph_spark.schema.arrow import arrow_schema
from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import canonical_root
from omnigraph_spark.writing.terms import WriteTerms
from omnigraph_spark.writing.write import Write
from omnigraph_spark.writing.write_options import WriteOptions
from pyspark_omnigraph.held import Held, OpenTransaction
from pyspark_omnigraph.jar_options import TRANSACTION, with_session

#: Options of the jar: the manifest version a statement reads, the types it reads, whether its rows
#: say what becomes of each of them, and the condition on the rows that they take the place of.
PIN, READS, DELTA, REPLACED = "__pin", "__reads", "__delta", "__replace"
#: Options of a catalog that leave rows out of its tables.
_LEAVING_OUT = ("where", "limit")


@dataclass(frozen=True)
class Statement:
    """A write of the jar's, or of a user's, who reads nothing in it."""

    options: WriteOptions
    pin: int | None = None
    reads: tuple[str, ...] = ()
    is_delta: bool = False
    replaced: Sequence[Tree] | None = None
    #: The transaction it waits in.
    transaction: str | None = None
    #: The options by which its table does not show all rows.
    leaves_out: tuple[str, ...] = ()

    @property
    def is_sql(self) -> bool:
        """Whether it is a statement of SQL, whose table says what its columns are."""
        return self.pin is not None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Statement:
        """Read the options of a write."""
        known = with_session(options)
        given = {key: text for key, text in known.items() if not key.startswith("__")}
        if PIN not in options:
            return cls(WriteOptions.parse(given))
        return cls(
            WriteOptions.parse(_without_read_options(given)),
            int(options[PIN]),
            tuple(json.loads(options[READS])),
            options.get(DELTA) == "true",
            json.loads(options[REPLACED]) if REPLACED in options else None,
            options.get(TRANSACTION),
            tuple(key for key in given if key.lower() in _LEAVING_OUT),
        )

    def refuse_unseen_rows(self) -> None:
        """Refuse to take away rows that the table does not show."""
        if self.leaves_out:
            advice = f"use a catalog without the option {' and '.join(self.leaves_out)}"
            raise UnsupportedError("replacing rows that the table does not show", advice)

    def refuse_unseen_columns(self, declared: EntityType, seen: Collection[str]) -> None:
        """Refuse rows in the place of others, whose values in columns not shown would be lost."""
        unseen = [name for name in arrow_schema(declared).names if name not in seen]
        if self.is_sql and unseen:
            what = f"replacing rows of {declared.type_key} without their {', '.join(unseen)}"
            raise UnsupportedError(what, "use a catalog whose options show all columns")

    def begin(self) -> Write:
        """Begin the write on the newest commit of its branch."""
        options = self.options
        if self.transaction is not None:
            OpenTransaction(self.transaction).check(options.branch)
        reader = self._reader()
        # Before the snapshot is taken, which then holds what is recovered here.
        heal(reader.manifest, options.branch, held=False)
        terms = self._terms(reader)
        mixed = self.is_delta or self.replaced is not None or self.transaction is not None
        return Write(reader, options.branch, terms, options.origin(), mixed=mixed)

    def source(self, type_name: str) -> ScanSource:
        """Return a type at the version that the statement reads."""
        if self.pin is None:
            raise AssertionError("what is no statement of SQL reads nothing")
        return ScanSource.of(
            self._reader().resolve(Ref.version(self.pin, self.options.branch)), type_name
        )

    def _reader(self) -> GraphReader:
        settings = StorageSettings.resolve(self.options.storage)
        return GraphReader.open(canonical_root(self.options.root()), settings)

    def end(
        self,
        write: Write,
        staged: Mapping[str, list[str]] | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Commit | None:
        """Publish what a write was given, or have it wait; the others say what that is."""
        if self.transaction is None:
            return write.commit_or_abort()
        held = Held(self.options.type_name(), staged or {}, where, dict(write.expected), columns)
        try:
            OpenTransaction(self.transaction).hold(held)
        except BaseException:
            write.abort()
            raise
        return None

    def _terms(self, reader: GraphReader) -> WriteTerms:
        terms = self.options.terms()
        if self.pin is None or not self.reads:
            return terms
        read = reader.resolve(Ref.version(self.pin, self.options.branch))
        versions = {key: read.entries[key].dataset_version for key in self.reads}
        return replace(terms, expected={**versions, **terms.expected})


def condition(write: Write, type_name: str, trees: Sequence[Tree]) -> str:
    """Write the condition that all trees hold for rows of a type; without any, it always holds."""
    columns = ScanSource.of(write.base, type_name).columns()
    scalars = {column.name: column.type.scalar for column in columns if is_filterable(column)}
    return lance_condition(trees, scalars) or is_present("id")


def _without_read_options(options: Mapping[str, str]) -> dict[str, str]:
    """Drop options of a catalog that are about reading: they hold for all it does."""
    reading = ReadOptions.keys() - WriteOptions.keys()
    return {key: text for key, text in options.items() if key.lower() not in reading}
