"""How graphs and snapshots show themselves: one line of text, and a small table in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def counted(count: int, what: str) -> str:
    """Write a number with its noun.

    >>> counted(1, "branch"), counted(1200, "row")
    ('1 branch', '1,200 rows')
    """
    plural = what + ("es" if what.endswith("ch") else "s")
    return f"{count:,} {what if count == 1 else plural}"


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table for notebooks; everything is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<div><strong>{escape(title)}</strong><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
