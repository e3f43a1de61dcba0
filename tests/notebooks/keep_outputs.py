"""Runs notebooks and keeps what they show: `python -m tests.notebooks.keep_outputs quickstart`.

Without names it runs all of them. Folders that were made for the run get a name that stays the
same, and what Spark says on stderr while it starts is left out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"
_PATIENCE_S = 300
_MADE_FOLDER = re.compile(r"/tmp/tmp\w+")


def keep_outputs(path: Path) -> None:
    """Run a notebook in an empty folder and write it back with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=_PATIENCE_S,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
        )
        client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [_settled(each) for each in cell.outputs if each.get("name") != "stderr"]
    nbformat.write(notebook, path)


def _settled(value: Any) -> Any:
    """Replace the names of folders that were made for this run, wherever they stand."""
    if isinstance(value, str):
        return _MADE_FOLDER.sub("/tmp/example", value)
    if isinstance(value, dict):
        return type(value)({key: _settled(each) for key, each in value.items()})
    return [_settled(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")):
        keep_outputs(NOTEBOOKS / f"{name}.ipynb")
