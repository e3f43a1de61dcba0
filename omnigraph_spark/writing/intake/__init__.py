"""Rows on their way in: given batches become stored ones, and rows that break a rule are named.

Runs where the rows are, batch by batch. What a row breaks by itself is checked here: types, ids,
required values, enums, ranges, patterns, vectors, blobs. What takes other rows to know
(duplicates, ends of edges, cardinality) is checked over what was staged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.schema.model import EntityType
from omnigraph_spark.writing.intake.casts import AnyArray, Broken, Cast, any_of
from omnigraph_spark.writing.intake.columns import Source
from omnigraph_spark.writing.intake.ids import Ids, completed, ids_of_key, labels
from omnigraph_spark.writing.intake.plan import plan_intake
from omnigraph_spark.writing.violations import Violation, merge, violation_of

__all__ = ["Intake"]


class Intake:
    """The way into one type for rows of one given schema.

    `mode` is append, merge, overwrite or delete. A merge of some columns (`merge_columns`) takes
    these and the id, a delete the id alone; other columns of the type may be there and are left
    aside. What is wrong with the columns themselves is an error at once. Rows that break rules are
    collected: ask for `violations` at the end. It can be pickled at any time.
    """

    def __init__(
        self,
        declared: EntityType,
        given: pa.Schema,
        mode: str,
        merge_columns: Sequence[str] | None = None,
        *,
        allow_external_blobs: bool = False,
    ) -> None:
        self._plan = plan_intake(declared, given, mode, merge_columns, allow_external_blobs)
        self._given = given.remove_metadata()
        self._rows = 0
        self._violations: tuple[Violation, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The stored columns that `convert` returns."""
        return self._plan.schema

    def violations(self) -> tuple[Violation, ...]:
        """Return the rules that rows broke so far, in a fixed order."""
        return self._violations

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows as they are stored.

        From the first row on that breaks a rule no rows are returned: nothing of the write will be
        kept, and the rest is only checked.
        """
        if batch.schema.names != self._given.names or batch.schema.types != self._given.types:
            raise ValueError(f"a batch of {batch.schema} among batches of {self._given}")
        arrays: list[AnyArray] = []
        broken: list[tuple[str, Broken]] = []
        for source in self._plan.sources:
            values, found = _column(source, batch)
            arrays.append(values)
            broken += [(source.name, each) for each in found]
        ids = self._ids(batch, arrays)
        broken += [("id", each) for each in ids.broken]
        if broken:
            self._collect(broken, self._labels(ids, arrays))
        self._rows += batch.num_rows
        if self._violations:
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        return pa.RecordBatch.from_arrays([completed(ids.known), *arrays], schema=self.schema)

    def _ids(self, batch: pa.RecordBatch, arrays: Sequence[AnyArray]) -> Ids:
        cast = None if self._plan.id is None else _cast(self._plan.id, batch)
        given = None if cast is None else cast.values
        misfits = () if cast is None else cast.broken
        key, written = self._plan.key, self._plan.place_of_key
        if key is None:
            ids = Ids(pa.nulls(batch.num_rows, pa.string()) if given is None else given)
        else:
            if written is None:
                found = _cast(key, batch)
                values, misfits = found.values, (*misfits, *found.broken)
            else:
                values = arrays[written]
            ids = ids_of_key(values, key.type.scalar, given)
        ids = replace(ids, broken=(*ids.broken, *misfits))
        if self._plan.makes_ids or not ids.known.null_count:
            return ids
        # What did not fit is null by now, and was named already.
        named = any_of([each.rows for each in misfits], batch.num_rows)
        missing = pc.and_not(ids.known.is_null(), named)
        if written is not None:
            # A key that is null was named already.
            missing = pc.and_(missing, arrays[written].is_valid())
        return replace(ids, broken=(*ids.broken, *_required(missing)))

    def _labels(self, ids: Ids, arrays: Sequence[AnyArray]) -> AnyArray:
        ends = (arrays[0], arrays[1]) if self._plan.has_ends else None
        return labels(ids.known, ends, self._rows + 1)

    def _collect(self, broken: Iterable[tuple[str, Broken]], names: AnyArray) -> None:
        new = (
            violation_of(
                each.rule, self._plan.type_key, column, each.message, names.filter(each.rows)
            )
            for column, each in broken
        )
        self._violations = merge((*self._violations, *new))


def _cast(source: Source, batch: pa.RecordBatch) -> Cast:
    if source.index is None:
        return source.cast(pa.nulls(batch.num_rows))
    return source.cast(batch.column(source.index))


def _column(source: Source, batch: pa.RecordBatch) -> tuple[AnyArray, list[Broken]]:
    """Return a stored column and every rule that rows of it break."""
    cast = _cast(source, batch)
    broken = [*cast.broken, *filter(None, (rule(cast.values) for rule in source.rules))]
    if not source.type.nullable and cast.values.null_count:
        # What did not fit is null by now, and was named already.
        misfits = any_of([each.rows for each in cast.broken], batch.num_rows)
        broken += _required(pc.and_not(cast.values.is_null(), misfits))
    return cast.values, broken


def _required(missing: pa.BooleanArray) -> tuple[Broken, ...]:
    if not pc.any(missing).as_py():
        return ()
    return (Broken("required", "the value is null", missing),)
