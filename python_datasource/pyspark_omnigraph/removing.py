"""Statements that only take rows away: no row comes from Spark, so each is one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.predicates import Tree
from omnigraph_spark.writing.pending import WriteMode
from pyspark_omnigraph.catalog import Answer, GraphCatalog
from pyspark_omnigraph.statement import Statement, condition


def delete_where(_: GraphCatalog, statement: Mapping[str, str], filters: Sequence[Tree]) -> Answer:
    """Delete the rows that all filters hold for, and the edges of deleted nodes."""
    asked = Statement.parse(statement)
    write, type_name = asked.begin(), asked.options.type_name()
    where = condition(write, type_name, filters)
    write.delete_where(type_name, where)
    return _commit_id(asked.end(write, where=where))


def truncate(_: GraphCatalog, statement: Mapping[str, str]) -> Answer:
    """Put nothing in the place of all rows; edges that would lose an end refuse it."""
    asked = Statement.parse(statement)
    asked.refuse_unseen_rows()
    write, type_name = asked.begin(), asked.options.type_name()
    write.add(type_name, write.task(type_name, WriteMode.OVERWRITE), [])
    return _commit_id(asked.end(write))


def _commit_id(commit: Commit | None) -> Answer:
    return None if commit is None else commit.id
