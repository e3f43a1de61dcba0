"""A graph of one test's own as a catalog of the shared session, and SQL statements on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.catalog.catalogs import new_catalog, rows
from tests.helpers.files import listing
from tests.helpers.sources import failure


class Statements:
    """SQL on one graph, which statements call `og`."""

    def __init__(self, spark: SparkSession, graph: og.Graph, **options: str) -> None:
        self.spark = spark
        self.graph = graph
        self.name = new_catalog(spark, graph.root, **options)

    def written(self, sql: str) -> str:
        """A statement with the name that the catalog has in this session."""
        return sql.replace("og.", f"{self.name}.")

    def __call__(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return rows(self.spark, self.written(sql))

    def refused(self, sql: str) -> str:
        """Run a statement that fails without a trace, and return what it says."""
        before, files = self.commits(), listing(Path(self.graph.root))
        said = failure(lambda: self(sql))
        assert self.commits() == before
        assert listing(Path(self.graph.root)) == files
        return said

    def commits(self) -> list[str]:
        """The commits of the branch, newest first."""
        return [commit.id for commit in self.graph.refresh().history()]

    def one_commit(self, sql: str) -> None:
        """Run a statement, which is one commit."""
        before = self.commits()
        self(sql)
        assert self.commits()[1:] == before
