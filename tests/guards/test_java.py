"""The Java of the SQL catalog: small in all, laid out alike, every class says what it owns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

JAVA = Path(__file__).parent.parent.parent / "catalog" / "java"
SOURCES = sorted(JAVA.rglob("*.java"))
#: The jar knows nothing of the format: it asks. More lines of code would know something.
MOST_LINES_OF_CODE = 2_000
#: With what explains it, blank lines and all.
MOST_LINES = 2_750
_IMPORT = re.compile(r"^import (?:static )?([\w.$]+);$", re.MULTILINE)
_CLASS = re.compile(
    r"^(?:public |abstract |final |sealed )*(?:class|interface|record|enum) (\w+)", re.MULTILINE
)
_HEAD = re.compile(
    r"\s*(?!.*\b(?:class|record|interface|enum|try|else|do|catch|finally|switch|synchronized \())"
    r"[^/*]*\)(?: throws [\w, ]+)? \{$"
)
# Spark's own packages that no release promises to keep.
_INTERNAL = re.compile(r"org\.apache\.spark\.sql\.(?:execution\.(?!metric)|catalyst\.Query)[\w.]+")


def name(path: Path) -> str:
    return path.stem


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def is_code(line: str) -> bool:
    """Whether a line is more than a comment or nothing; imports are code."""
    return not re.match(r"\s*(?:$|//|/\*|\*)", line)


def test_the_jar_has_under_2000_lines_of_code_imports_among_them() -> None:
    assert SOURCES
    lines = "".join(map(text, SOURCES)).splitlines()
    assert sum(map(is_code, lines)) < MOST_LINES_OF_CODE
    assert len(lines) < MOST_LINES


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_lines_are_short_and_end_where_they_end(path: Path) -> None:
    assert text(path).endswith("}\n")
    wrong = [
        f"{number}: {line}"
        for number, line in enumerate(text(path).splitlines(), start=1)
        if len(line) > 100 or "\t" in line or line != line.rstrip()
    ]
    assert wrong == []


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_code_is_indented_by_two_and_what_is_one_statement_stands_in_one_line(path: Path) -> None:
    lines = text(path).splitlines()
    odd = [line for line in lines if is_code(line) and (len(line) - len(line.lstrip())) % 2]
    assert odd == []
    blocks = zip(lines, lines[1:], lines[2:], strict=False)
    short = [
        f"{head} {body.strip()} }}"
        for head, body, end in blocks
        if _HEAD.match(head) and head.count("(") == head.count(")")
        if body.endswith(";") and end.strip() == "}"
    ]
    # Guards, loops and methods, where they fit.
    assert [block for block in short if len(block) <= 100] == []


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_imports_are_sorted_used_and_not_by_star(path: Path) -> None:
    source = text(path)
    imports = _IMPORT.findall(source)
    assert len(imports) == len(re.findall(r"^import ", source, re.MULTILINE))
    assert imports == sorted(imports)
    code = _IMPORT.sub("", source)
    unused = [
        each
        for each in imports
        if not re.search(rf"\b{re.escape(each.rpartition('.')[2])}(?!\w)", code)
    ]
    assert unused == []


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_every_class_says_what_it_owns(path: Path) -> None:
    found = _CLASS.search(text(path))
    assert found
    assert found[1] == path.stem
    before = text(path)[: found.start()].rstrip()
    # Between the comment and the class there may be annotations.
    assert re.search(r"/\*\*(?:(?!\*/).)*\*/(?:\s*@\w+(?:\(.*\))?)*$", before, re.DOTALL)


def test_only_three_classes_name_what_spark_may_change() -> None:
    naming = {path.stem for path in SOURCES if _INTERNAL.search(text(path))}
    assert naming <= {"Bridge", "KnownRows", "PlanPins"}
