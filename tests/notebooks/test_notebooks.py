"""Every notebook runs top to bottom, and shows what the outputs kept in it show."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent.parent / "notebooks").glob("*.ipynb"))
#: A cell that starts Spark, and fetches a jar, on a busy machine.
_PATIENCE_S = 300


#: What differs from run to run: made ids, folders, times, the last digits of sums, and with them
#: the widths of columns.
_DIFFERS = (
    (re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b"), "<id>"),
    (re.compile(r"/tmp/(?:tmp\w+|example)"), "<folder>"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?"), "<time>"),
    (re.compile(r"(\d\.\d{6})\d+"), r"\1"),
    (re.compile(r"[+-]{3,}| +"), ""),
)
#: Its ranks are sums of doubles in no order, and equal ones may change places.
UNORDERED = ("analytics",)
#: Notebooks with a picture of the schema or of the history.
PICTURES = ("branches_and_merge", "quickstart")


def shown(cell: nbformat.NotebookNode) -> tuple[str, set[str]]:
    """The text that a cell shows, without what differs from run to run, and kinds of pictures."""
    outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    text = "".join(output.get("text") or output.data.get("text/plain", "") for output in outputs)
    for pattern, stays in _DIFFERS:
        text = pattern.sub(stays, text)
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    return text, {kind for kind in kinds if kind.startswith("image/")}


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


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
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert len(outputs) >= 3
    assert all(output.output_type != "error" for output in outputs)


@pytest.mark.parametrize("name", PICTURES)
def test_a_notebook_keeps_its_pictures_as_svg(name: str) -> None:
    [path] = [path for path in NOTEBOOKS if path.stem == name]
    outputs = [output.get("data", {}) for cell in code_cells(path) for output in cell.outputs]
    pictures = [data["image/svg+xml"] for data in outputs if "image/svg+xml" in data]
    assert pictures
    assert all("<svg" in picture and "</svg>" in picture for picture in pictures)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_top_to_bottom_and_shows_what_it_keeps(path: Path, tmp_path: Path) -> None:
    notebook = read(path)
    client = NotebookClient(
        notebook,
        timeout=_PATIENCE_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if path.stem not in UNORDERED:
        assert list(map(shown, cells)) == list(map(shown, code_cells(path)))
