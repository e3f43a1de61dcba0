"""Every notebook runs top to bottom, and the outputs kept in it are of a run without errors."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent.parent / "notebooks").glob("*.ipynb"))
#: A cell that starts Spark, and fetches a jar, on a busy machine.
_PATIENCE_S = 300


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def test_the_notebooks_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "analytics",
        "branches_and_merge",
        "databricks_emr",
        "lakehouse",
        "quickstart",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_its_outputs_without_errors(path: Path) -> None:
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert len(outputs) >= 3
    assert all(output.output_type != "error" for output in outputs)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_top_to_bottom(path: Path, tmp_path: Path) -> None:
    notebook = read(path)
    client = NotebookClient(
        notebook,
        timeout=_PATIENCE_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
