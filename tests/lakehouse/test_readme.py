"""The README's examples with Delta run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import omnigraph_spark as og
from tests.lakehouse.tables import small_graph

README = Path(__file__).parent.parent.parent / "README.md"
_BLOCK = re.compile(r"```python delta\n(.*?)```", re.DOTALL)


def test_every_block_with_delta_runs(spark: SparkSession, tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    here = text.replace('"lake/', f'"{tmp_path}/lake/').replace('"data/', f'"{tmp_path}/data/')
    blocks = _BLOCK.findall(here)
    assert blocks
    names: dict[str, Any] = {"og": og, "graph": small_graph(tmp_path / "graph", spark)}
    for code in blocks:
        exec(compile(code, "README.md", "exec"), names)
    people = names["copy"].snapshot().rows("Person")
    assert people == names["graph"].snapshot().rows("Person")
    assert {path.name for path in tmp_path.iterdir()} == {"graph", "data", "lake"}
