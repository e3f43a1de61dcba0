"""What texts tell users to call is there: in errors, remedies, help, docstrings and in Java."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph_spark as og
from omnigraph_spark.errors.outside import StorageError

ROOT = Path(__file__).parent.parent.parent
PYTHON = [*ROOT.glob("omnigraph_spark/**/*.py"), *ROOT.glob("python_datasource/**/*.py")]
JAVA = [*ROOT.glob("catalog/java/**/*.java")]
#: What a name before a dot stands for in a text.
OWNERS: dict[str, object] = {
    "graph": og.Graph,
    "snapshot": og.Snapshot,
    "snap": og.Snapshot,
    "tx": og.Transaction,
    "og": og,
}
_CALL = re.compile(r"(?<![\w.])(graph|snapshot|snap|tx|og)\.(\w+)(?=\()")
#: A name that belongs to the engine, or is still to come, is not written like a call of ours.
_PLANNED = re.compile(r"apply_schema\(|plan_schema\(|cleanup\(|og\.upgrade\(")
_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def texts(path: Path) -> Iterator[str]:
    """Yield what a source file may say: its literals, docstrings too."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".java":
        yield from _TEXT.findall(source)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("language", [PYTHON, JAVA], ids=["Python", "Java"])
def test_every_call_that_a_text_names_can_be_made(language: list[Path]) -> None:
    said = {(path.name, text) for path in language for text in texts(path)}
    named = {(name, *call) for name, text in said for call in _CALL.findall(text)}
    missing = [call for call in named if not hasattr(OWNERS[call[1]], call[2])]
    assert missing == []
    assert [name for name, text in said if _PLANNED.search(text)] == []


def test_the_texts_do_name_calls() -> None:
    named = {call for path in PYTHON for text in texts(path) for call in _CALL.findall(text)}
    assert {("graph", "recover"), ("og", "open"), ("snapshot", "arrow")} <= named


def test_the_remedy_of_a_storage_failure_names_every_kind_there_is() -> None:
    used = set(re.findall(r'StorageError\(\s*"(\w+)"', "".join(map(Path.read_text, PYTHON))))
    modules = {path.stem: path for path in (ROOT / "omnigraph_spark" / "storage").glob("*.py")}
    translate = modules["translate"].read_text()
    used |= set(re.findall(r'return "(\w+)"', translate.partition("def _kind(")[2]))
    used |= set(re.findall(r'^[A-Z_]+ = "([a-z_]+)"$', translate, re.MULTILINE))
    assert used
    assert used | {"transient"} == set(StorageError.kinds)
    assert all(kind in StorageError.remedy for kind in StorageError.kinds)
