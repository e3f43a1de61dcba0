"""The README's SQL runs as it stands, on the graph of the demonstration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph_spark.demo import unpack_demo_graph
from tests.catalog.catalogs import new_catalog, rows

README = Path(__file__).parent.parent.parent / "README.md"


def test_every_sql_block_runs(spark: SparkSession, tmp_path: Path) -> None:
    name = new_catalog(spark, unpack_demo_graph(tmp_path))
    blocks = re.findall(r"```sql\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    statements = [text for block in blocks for text in block.split(";\n") if text.strip()]
    assert len(statements) >= 10
    for statement in statements:
        rows(spark, re.sub(r"\bog\b", name, statement))


def test_sql_blocks_with_output_print_what_they_say(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = new_catalog(spark, unpack_demo_graph(tmp_path))
    pattern = r"```sql\n((?:(?!```).)*)```\s*```text\n(.*?)```"
    blocks = re.findall(pattern, README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for statement, expected in blocks:
        capsys.readouterr()
        spark.sql(re.sub(r"\bog\b", name, statement.strip().removesuffix(";"))).show()
        assert capsys.readouterr().out.strip() == expected.strip()
