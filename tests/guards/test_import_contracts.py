"""The import contracts bite: a violation of each kind, planted in a copy, is found by its name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent.parent

DATA_SOURCE = "the data source stands on the engine"
LAYERS = "the engine's layers point one way"
LANCE = "lance enters only through storage"
PYSPARK = "pyspark enters only through session and the data source"

#: Lines planted in modules, each with the contract that must break.
PLANTED = [
    ("omnigraph_spark/scan.py", "import pyspark_omnigraph.source", DATA_SOURCE),
    ("omnigraph_spark/names.py", "import omnigraph_spark.graph", LAYERS),
    ("omnigraph_spark/storage/uri.py", "import omnigraph_spark.schema.model", LAYERS),
    ("omnigraph_spark/manifest.py", "import lance", LANCE),
    ("omnigraph_spark/session/frames.py", "import lance", LANCE),
    ("python_datasource/pyspark_omnigraph/source.py", "import lance", LANCE),
    ("omnigraph_spark/graph.py", "import pyspark.sql", PYSPARK),
    ("omnigraph_spark/storage/uri.py", "import pyspark", PYSPARK),
]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The packages and their contracts, apart from the repository."""
    ignored = shutil.ignore_patterns("__pycache__", "*.zip")
    for folder in ("omnigraph_spark", "python_datasource"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    return tmp_path


def lint(root: Path) -> tuple[int, str]:
    """Check the contracts of a copy; its modules are found before the installed ones."""
    search = os.pathsep.join([str(root), str(root / "python_datasource")])
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def imports(module: str, line: str) -> str:
    """How a report speaks of a planted line."""
    name = module.removeprefix("python_datasource/").removesuffix(".py").replace("/", ".")
    imported = line.removeprefix("import ")
    # What is forbidden is named as a whole, whatever part of it is imported.
    ours = imported.startswith(("omnigraph_spark", "pyspark_omnigraph"))
    return f"{name} -> {imported if ours else imported.split('.')[0]} "


def test_every_planted_violation_is_found_under_its_contract(copied: Path) -> None:
    _, clean = lint(copied)
    assert [planted for *planted, _ in PLANTED if imports(*planted) in clean] == []
    for module, line, _ in PLANTED:
        path = copied / module
        path.write_text(path.read_text(encoding="utf-8") + f"\n\n{line}\n", encoding="utf-8")
    code, said = lint(copied)
    assert code == 1
    for module, line, contract in PLANTED:
        # A part of the report is headed by the contract's name, underlined.
        _, headed, report = said.partition(f"\n{contract}\n{'-' * len(contract)}\n")
        assert headed, f"{contract} is not broken"
        assert imports(module, line) in report, f"{module}: {line}"


def test_a_module_that_nobody_placed_in_the_layers_is_found(copied: Path) -> None:
    (copied / "omnigraph_spark" / "stray.py").write_text('"""Nobody knows where this belongs."""\n')
    code, said = lint(copied)
    assert code == 1
    assert f"{LAYERS} BROKEN" in said
    assert "stray" in said
