"""Writes the README's tables anew from their declarations.

    python -m tests.guards.write_readme_tables

A table stands between a pair of markers such as ``<!-- errors -->`` and ``<!-- /errors -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from pyspark_omnigraph.procedures import procedures_table

from omnigraph_spark.errors import errors_table
from omnigraph_spark.options import ReadOptions, options_table
from omnigraph_spark.tables import tables_table
from omnigraph_spark.writing.write_options import WriteOptions
from tests.helpers.jsonl_cases import differences_table
from tests.helpers.jsonl_loads import loads_differences

README = Path(__file__).parent.parent.parent / "README.md"

#: What prints each table, by the name in its markers.
TABLES: dict[str, Callable[[], str]] = {
    "options:read": lambda: options_table(ReadOptions),
    "options:write": lambda: options_table(WriteOptions),
    "errors": errors_table,
    "differences": lambda: "\n\n".join([differences_table(), loads_differences()]),
    "tables": tables_table,
    "procedures": procedures_table,
}


def between_markers(text: str, name: str) -> str:
    """Return what stands between the markers of a table; they must be there exactly once."""
    found = re.findall(_pattern(name), text, re.DOTALL)
    if len(found) != 1:
        raise ValueError(f"the markers of table {name!r} are there {len(found)} times, not once")
    return str(found[0])


def with_tables(text: str) -> str:
    """Return a text with every table written anew."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        stale = f"{begin}{between_markers(text, name)}{end}"
        text = text.replace(stale, f"{begin}{table()}\n{end}")
    return text


def _pattern(name: str) -> str:
    return rf"<!-- {re.escape(name)} -->\n(.*?)<!-- /{re.escape(name)} -->"


def main() -> None:
    """Rewrite the README in place and say whether it changed."""
    before = README.read_text(encoding="utf-8")
    after = with_tables(before)
    README.write_text(after, encoding="utf-8")
    print("README.md: tables written anew" if after != before else "README.md: nothing to change")


if __name__ == "__main__":
    main()
