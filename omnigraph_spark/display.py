"""How graphs and snapshots show themselves: one line of text, and a small table in notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

#: Notebooks put everything to the right; words read better from the left.
_TABLE = "border-collapse:collapse;margin:4px 0 12px"
_HEAD = "text-align:{};padding:3px 14px 3px 0;border-bottom:1px solid #8888"
_CELL = "text-align:{};padding:3px 14px 3px 0;vertical-align:top"
_NUMBER = set("0123456789,.-")


def counted(count: int, what: str) -> str:
    """Write a number with its noun.

    >>> counted(1, "branch"), counted(1200, "row")
    ('1 branch', '1,200 rows')
    """
    plural = what + ("es" if what.endswith("ch") else "s")
    return f"{count:,} {what if count == 1 else plural}"


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table for notebooks, numbers to the right; everything is escaped.

    Without rows it is its title.
    """
    texts = [[str(cell) for cell in row] for row in rows]
    titled = f"<div><strong>{escape(title)}</strong>"
    if not texts:
        return f"{titled}</div>"
    sides = [
        "right" if all(set(cell) <= _NUMBER for cell in column) else "left"
        for column in zip(*texts, strict=True)
    ]
    head = _cells("th", _HEAD, header, sides)
    body = "".join(f"<tr>{_cells('td', _CELL, row, sides)}</tr>" for row in texts)
    return (
        f'{titled}<table style="{_TABLE}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(tag: str, style: str, texts: Sequence[str], sides: Sequence[str]) -> str:
    return "".join(
        f'<{tag} style="{style.format(side)}">{escape(text)}</{tag}>'
        for text, side in zip(texts, sides, strict=True)
    )


def row_words(row: Mapping[str, Any] | None, columns: Iterable[str], longest: int) -> str:
    """Write some columns of a row for people; a row that is not there is a dash.

    >>> row_words({"id": "ada", "age": 36, "city": None}, ["age", "city"], 40)
    'age: 36, city: null'
    """
    if row is None:
        return "—"
    text = ", ".join(
        f"{name}: {json.dumps(row[name], default=str, ensure_ascii=False)}"
        for name in columns
        if name in row
    )
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def telling_columns(*rows: Mapping[str, Any] | None) -> list[str]:
    """Return the columns in which rows differ; of a single row those that have a value.

    >>> telling_columns({"id": "a", "x": 1, "y": 2}, None, {"id": "a", "x": 1, "y": 3})
    ['y']
    >>> telling_columns(None, {"id": "a", "x": 1, "y": None})
    ['x']
    """
    first, *others = [row for row in rows if row is not None] or [{}]
    if not others:
        return [name for name, value in first.items() if name != "id" and value is not None]
    names = dict.fromkeys(name for row in (first, *others) for name in row)
    return [
        name
        for name in names
        if any(repr(row.get(name)) != repr(first.get(name)) for row in others)
    ]
