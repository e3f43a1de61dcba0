"""Filter text: what a caller's `where` may contain before Lance sees it, and how we write our own.

Lance parses the first condition of a text and ignores what follows, and takes double quotes for
text instead of names. Both would give wrong rows without an error, so they are refused here. Some
literals Lance's parser knows and its planner does not: it would panic on them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from omnigraph_spark.errors import InvalidFilterError

# Quoted runs first, so that what stands inside quotes is never looked at.
_TOKEN = re.compile(
    r"""
    (?P<text>'(?:[^']|'')*')
  | (?P<name>`[^`]+`)
  | (?P<panics>\b[bnr]'|\$|\?|(?<!:):(?!:))
  | (?P<paren>[()])
  | (?P<refused>;|"|--|/\*|'|`|\0)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_REASONS = {
    ";": "';' would end the condition; write a single condition",
    '"': "double quotes would make text, not a name; write names in backticks, text in '...'",
    "--": "comments are not allowed in a condition",
    "/*": "comments are not allowed in a condition",
    "'": "a single quote is not closed; a quote inside text is written twice",
    "`": "a backtick is not closed",
    "\0": "it contains a null character",
}


def check_filter_text(text: str) -> str:
    """Return a filter unchanged, or say what in its text would not mean what it seems to.

    >>> check_filter_text("name = 'O''Neill' and `age` > 30")
    "name = 'O''Neill' and `age` > 30"
    """
    if not text.strip():
        raise InvalidFilterError(text, "it is empty")
    depth = 0
    for token in _TOKEN.finditer(text):
        if refused := token["refused"]:
            raise InvalidFilterError(text, _REASONS[refused])
        if literal := token["panics"]:
            reason = f"Lance has no {literal} here; write values out, text in '...'"
            raise InvalidFilterError(text, reason)
        if parenthesis := token["paren"]:
            depth += 1 if parenthesis == "(" else -1
        if depth < 0:
            raise InvalidFilterError(text, "a parenthesis is closed that was not opened")
    if depth:
        raise InvalidFilterError(text, "a parenthesis is not closed")
    return text


def as_one_condition(text: str) -> str:
    """Write a checked filter so that Lance must take all of it, or fail at what is left over.

    >>> as_one_condition("age > 30")
    '(age > 30)'
    """
    return f"({text})"


def equals_text(column: str, value: str) -> str:
    """Write the condition that a text column has exactly this value.

    >>> equals_text("id", "O'Neill")
    "`id` = 'O''Neill'"
    """
    quoted = value.replace("'", "''")
    return f"`{column}` = '{quoted}'"


def in_texts(column: str, values: Sequence[str]) -> str:
    """Write the condition that a text column has one of these values.

    >>> in_texts("id", ["a", "it's"])
    "`id` IN ('a', 'it''s')"
    >>> in_texts("id", [])
    'false'
    """
    if not values:
        return "false"
    quoted = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    return f"`{column}` IN ({quoted})"


def is_present(column: str) -> str:
    """Write the condition that a column has a value.

    >>> is_present("age")
    '`age` IS NOT NULL'
    """
    return f"`{column}` IS NOT NULL"
