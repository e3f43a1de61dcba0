"""The README's tables are printed from the declarations, so they cannot say something else."""

from __future__ import annotations

import re

import pytest

from tests.guards.write_readme_tables import README, TABLES, between_markers, with_tables

REWRITE = "run: python -m tests.guards.write_readme_tables"


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_the_readme_equals_its_declarations(name: str) -> None:
    written = between_markers(README.read_text(encoding="utf-8"), name)
    assert written == TABLES[name]() + "\n", REWRITE


def test_the_readme_has_no_markers_of_tables_nobody_writes() -> None:
    markers = re.findall(r"<!-- /?([\w:]+) -->", README.read_text(encoding="utf-8"))
    assert set(markers) == set(TABLES)


def test_writing_the_tables_replaces_what_is_stale_and_nothing_else() -> None:
    stale = "".join(
        f"about {name}\n<!-- {name} -->\n| old |\n<!-- /{name} -->\n" for name in TABLES
    )
    fresh = with_tables(f"# Title\n{stale}the end \\1\n")
    assert (
        fresh
        == "# Title\n"
        + "".join(
            f"about {name}\n<!-- {name} -->\n{table()}\n<!-- /{name} -->\n"
            for name, table in TABLES.items()
        )
        + "the end \\1\n"
    )
    assert with_tables(fresh) == fresh


def test_a_table_whose_markers_are_missing_or_twice_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="there 0 times"):
        with_tables("no markers")
    twice = "<!-- errors -->\n<!-- /errors -->\n" * 2
    with pytest.raises(ValueError, match="there 2 times"):
        between_markers(twice, "errors")
