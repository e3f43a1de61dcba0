"""Random SQL statements on a graph and on a Delta table, side by side; run as a program of its own.

    python -m tests.catalog.beside_delta FOLDER FIRST_SEED SEQUENCES

Each sequence runs the same INSERT, UPDATE, DELETE, MERGE and OVERWRITE statements on both, and all
rows are compared after each. What a graph refuses and a table does not (an id that exists, a
changed key) is left out. It prints a line of JSON: statements run, by kind, and what differed.
Of the seeds 0 to 99 one does, 82, where Delta 4.4 is wrong: a MERGE that updates rows by a
condition on a column that holds -0.0 leaves their old rows there as well.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.catalog.catalogs import new_catalog, rows
from tests.conftest import small_session

STATEMENTS = 6
SCHEMA = "node Item { name: String @key  n: I64?  x: F64?  tag: String?  day: Date? }"
COLUMNS = "id, day, n, name, tag, x"
_TYPES = "id STRING, day DATE, n BIGINT, name STRING, tag STRING, x DOUBLE"
#: Names of rows, few enough to meet again.
NAMES = [f"k{number:02}" for number in range(30)]
#: Conditions on rows of an item, some of which Lance evaluates and some only Spark.
CONDITIONS = [
    "n > 5", "n IS NULL", "NOT n = 3", "tag = 'it''s'", "tag LIKE 'b%'", "x < 0.0", "x = 0.0",
    "n IN (1, 2, NULL)", "n <=> NULL", "day >= date '2026-02-01'", "name < 'k15'", "true",
    "n % 2 = 0", "length(tag) = 1", "x IS NOT NULL AND n + x > 4", "isnan(x)", "tag <> name",
    "n BETWEEN 2 AND 6 OR tag IS NULL", "year(day) = 2026",
]  # fmt: skip
#: What a column may be set to.
VALUES = {
    "n": ["n + 1", "NULL", "n * 2", "length(name)", "7"],
    "x": ["-x", "0.0D", "-0.0D", "double('NaN')", "NULL", "n / 3", "1e300D"],
    "tag": ["NULL", "upper(tag)", "concat(name, '!')", "'it''s'", "''"],
    "day": ["NULL", "date '2026-02-28'", "day + 1", "date '0001-01-01'"],
}


class Sequence:
    """Random statements on one table, which has the same name in both worlds."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        #: What comes first, so that even a few sequences have everything.
        self._first = self._random.sample(["insert", "update", "delete", "merge"], 4)

    def row(self, name: str) -> str:
        choose = self._random.choice
        n = choose(["NULL", "0", "1", "2", "3", "6", "9"])
        x = choose(["NULL", "0.0D", "-0.0D", "1.5D", "-2.25D", "double('NaN')"])
        tag = choose(["NULL", "'a'", "'b'", "'bb'", "'it''s'", "''"])
        day = choose(["NULL", "date '2026-01-31'", "date '2026-02-01'", "date '1969-12-31'"])
        return f"('{name}', {day}, bigint({n}), '{name}', {tag}, {x})"

    def rows(self, names: list[str]) -> str:
        return f"(SELECT * FROM VALUES {', '.join(map(self.row, names))} AS v ({COLUMNS}))"

    def condition(self, alias: str = "") -> str:
        """A condition; `alias` is put before its columns."""
        text = " AND ".join(
            f"({each})" for each in self._random.sample(CONDITIONS, self._random.randint(1, 2))
        )
        return _qualified(text, alias)

    def assignments(self, alias: str = "") -> str:
        chosen = self._random.sample(sorted(VALUES), self._random.randint(1, 3))
        sets = []
        for column in chosen:
            value = self._random.choice(VALUES[column])
            sets.append(f"{column} = {_qualified(value, alias)}")
        return ", ".join(sets)

    def statement(self, present: set[str]) -> str:
        """One statement on the table `{table}`, which holds rows of these names."""
        kinds = ["insert", "update", "delete", "merge", "overwrite"]
        kind = self._first.pop() if self._first else self._random.choices(kinds, [3, 3, 2, 6, 1])[0]
        absent = [name for name in NAMES if name not in present]
        if kind == "insert":
            names = self._random.sample(absent, min(len(absent), self._random.randint(1, 5)))
            return f"INSERT INTO {{table}} SELECT * FROM {self.rows(names)}" if names else ""
        if kind == "update":
            return f"UPDATE {{table}} SET {self.assignments()} WHERE {self.condition()}"
        if kind == "delete":
            return f"DELETE FROM {{table}} WHERE {self.condition()}"
        if kind == "overwrite":
            return f"INSERT OVERWRITE {{table}} SELECT * FROM {self.rows(self._names())}"
        return self.merge()

    def _names(self) -> list[str]:
        return self._random.sample(NAMES, self._random.randint(1, 12))

    def merge(self) -> str:
        maybe = self._random.random
        clauses = []
        if maybe() < 0.4:
            clauses.append(f"WHEN MATCHED AND {self.condition('t')} THEN DELETE")
        if maybe() < 0.4:
            clauses.append(
                f"WHEN MATCHED AND {self.condition('s')} THEN UPDATE SET {self.assignments('t')}"
            )
        if maybe() < 0.6:
            clauses.append("WHEN MATCHED THEN UPDATE SET *")
        if maybe() < 0.3:
            clauses.append(
                f"WHEN NOT MATCHED AND {self.condition('s')} THEN "
                "INSERT (id, name, n) VALUES (s.id, s.name, s.n)"
            )
        if maybe() < 0.7 or not clauses:
            clauses.append("WHEN NOT MATCHED THEN INSERT *")
        if maybe() < 0.3:
            clauses.append(f"WHEN NOT MATCHED BY SOURCE AND {self.condition('t')} THEN DELETE")
        if maybe() < 0.3:
            clauses.append(
                f"WHEN NOT MATCHED BY SOURCE AND {self.condition('t')} THEN "
                f"UPDATE SET {self.assignments('t')}"
            )
        source = self.rows(self._names())
        return f"MERGE INTO {{table}} t USING {source} s ON t.id = s.id {' '.join(clauses)}"


def _qualified(text: str, alias: str) -> str:
    """Put an alias before the columns of a text, outside of quotes."""
    if not alias:
        return text
    parts = re.split(r"('(?:[^']|'')*')", text)
    column = r"\b(name|tag|day|n|x)\b(?!\()"
    return "".join(
        part if part.startswith("'") else re.sub(column, rf"{alias}.\1", part) for part in parts
    )


def session(packages: str) -> SparkSession:
    """A session that knows Delta tables; graphs become catalogs of it one by one."""
    builder = og.configure(small_session(), og="/nowhere")
    builder = (
        builder.config("spark.jars.packages", packages)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.sql.shuffle.partitions", "1")
    )
    return builder.getOrCreate()


def run(spark: SparkSession, folder: Path, seed: int) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Run one sequence on a graph and a table of its own; return what ran and what differed."""
    graph = og.create(folder / f"graph-{seed}", SCHEMA)
    ours = f"{new_catalog(spark, graph.root)}.nodes.Item"
    theirs = f"delta.`{folder}/delta-{seed}`"
    dvs = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    rows(spark, f"CREATE TABLE {theirs} ({_TYPES}) USING delta {dvs}")
    sequence, ran = Sequence(seed), Counter[str]()
    history: list[str] = []
    expected: list[tuple[Any, ...]] = []
    while len(history) < STATEMENTS:
        statement = sequence.statement({row[0] for row in expected})
        if not statement:
            continue
        history.append(statement)
        before = len(graph.refresh().history())
        for table in (theirs, ours):
            rows(spark, statement.replace("{table}", table))
        # As text: NaN equals itself, and zeros keep their signs.
        shown = "id, day, n, name, tag, cast(x AS STRING)"
        queries = [f"SELECT {shown} FROM {table} ORDER BY id" for table in (theirs, ours)]
        expected, found = (rows(spark, query) for query in queries)
        commits = len(graph.refresh().history()) - before
        if found != expected or commits > 1:
            return ran, [{"seed": seed, "history": history, "commits": commits}]
        ran[statement.split()[0]] += 1
    return ran, []


def main() -> None:
    """Run sequences and print what came of them."""
    folder, first, count, packages = sys.argv[1:5]
    spark = session(packages)
    spark.sparkContext.setLogLevel("ERROR")
    ran, differed = Counter[str](), []
    for seed in range(int(first), int(first) + int(count)):
        done, broken = run(spark, Path(folder), seed)
        ran += done
        differed += broken
        print(f"sequence {seed}: {sum(done.values())} statements", file=sys.stderr, flush=True)
    spark.stop()
    print(json.dumps({"ran": ran, "differed": differed}))


if __name__ == "__main__":
    main()
