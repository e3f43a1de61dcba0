"""The shape of the repository: modules say what they own, none is too long, no machine is named."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent.parent
PRODUCT = sorted(
    path
    for folder in ("omnigraph_spark", "python_datasource")
    for path in (REPOSITORY / folder).rglob("*.py")
)
#: At this many lines a module has a noun inside that wants its own file.
MOST_LINES = 400
MEDIAN_LINES = 200

# None of these patterns matches its own text.
UNWANTED = {
    "a path of one machine": re.compile(r"(?<![\w.\-])/(?:work|root)/"),
    "a package registry": re.compile(
        r"pypi\.\w|pythonhosted\.|artifac[t]ory|jfro[g]|\bdevpi\b|index[-_]url|crates\.io"
        r"|registry\.npmjs|maven\.(?:org|apache)|repo1?\.maven",
        re.IGNORECASE,
    ),
}


def relative(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def repository_files() -> list[Path]:
    """Every file git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True).stdout
    files = [REPOSITORY / name for name in listed.decode().split("\0") if name]
    # A file may be deleted and not yet committed.
    return [path for path in files if path.is_file()]


@pytest.mark.parametrize("path", PRODUCT, ids=relative)
def test_every_module_opens_by_saying_what_it_owns(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring
    assert docstring.splitlines()[0].endswith((".", ":"))


def test_every_test_module_opens_by_saying_what_it_is_about() -> None:
    silent = [
        relative(path)
        for path in (REPOSITORY / "tests").rglob("*.py")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_no_module_is_too_long() -> None:
    assert {relative(path): lines(path) for path in PRODUCT if lines(path) > MOST_LINES} == {}


def test_modules_are_short_as_a_rule() -> None:
    assert statistics.median(map(lines, PRODUCT)) < MEDIAN_LINES


def unwanted_in(text: str) -> list[str]:
    return [what for what, pattern in UNWANTED.items() if pattern.search(text)]


def test_no_file_of_the_repository_knows_a_machine_or_a_package_registry() -> None:
    found = {}
    for path in repository_files():
        content = path.read_bytes()
        if b"\0" not in content and (unwanted := unwanted_in(content.decode())):
            found[relative(path)] = unwanted
    assert found == {}


@pytest.mark.parametrize(
    "halves",
    [
        ("cd /", "work/main"),
        ("/", "root/.cache"),
        ('"/', 'work/shared"'),
        ("https://pypi", ".org/simple"),
        ("pip --index", "-url x"),
        ("https://repo1.mav", "en.org"),
    ],
)
def test_the_search_finds_what_it_looks_for(halves: tuple[str, str]) -> None:
    assert unwanted_in("".join(halves))
    assert unwanted_in("\n".join(halves)) == []


def test_the_search_leaves_alone_what_only_looks_like_it() -> None:
    assert unwanted_in("/home/runner/work/lance and rework/ and ~/root and /data/work/x") == []
