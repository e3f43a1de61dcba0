"""Graphs in a notebook's kernel, as it is installed with nothing but a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

WORK = """
import sys
sys.modules["ipywidgets"] = None
import pyarrow as pa
import omnigraph_spark as og
graph = og.create({root!r}, "node Person {{ name: String @key }} edge Knows: Person -> Person")
with graph.transaction() as tx:
    tx.append("Person", pa.table({{"name": ["ada", "bob"]}}))
    tx.append("Knows", pa.table({{"src": ["ada"], "dst": ["bob"]}}))
print(graph.snapshot().rows("Person"))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_graph_is_written_in_a_notebook_without_ipywidgets(tmp_path: Path) -> None:
    notebook = new_notebook(cells=[new_code_cell(WORK.format(root=str(tmp_path / "graph")))])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    printed = "".join(
        output.text for output in notebook.cells[0].outputs if output.get("name") == "stdout"
    )
    assert printed == "2\n"
