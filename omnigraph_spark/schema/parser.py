"""`.pg` text to `GraphSchema`: the one entry, and syntax errors in words a person uses.

The grammar is `grammar.lark`; what the parse tree means is `reader`; rules and canonical order are
`compile`. Accepts exactly what the released engine accepts, its oddities included: a graph whose
schema the engine reads must never fail here.
"""

from __future__ import annotations

import functools
import re

from lark import Lark, UnexpectedInput, UnexpectedToken

from omnigraph_spark.errors import SchemaSyntaxError
from omnigraph_spark.schema.compile import compile_schema
from omnigraph_spark.schema.model import GraphSchema, Scalar
from omnigraph_spark.schema.reader import read_declarations

#: How to say what was expected, for the terminals whose pattern does not say it.
_EXPECTED = {
    "$END": "the end of the text",
    "ANNOTATION": "an annotation such as @index",
    "BOOL": "true or false",
    "CARD": "@card(min..max)",
    "CONSTRAINT": "a constraint such as @unique(a, b)",
    "ENUM_VALUE": "an enum value of letters, digits, '_' or '-'",
    "INTEGER": "a whole number",
    "NAME": "a name that starts in lower case",
    "NUMBER": "a number",
    "SCALAR": f"a type ({', '.join(scalar for scalar in Scalar if scalar != Scalar.VECTOR)})",
    "SIGNED_NUMBER": "a number",
    "STRING": "a text in quotes",
    "TYPE_NAME": "a type name that starts in upper case",
}
_SHOWN = re.compile(r"@?\w+|->|\.\.|\S")


def parse_schema(text: str) -> GraphSchema:
    """Read a schema text.

    >>> schema = parse_schema("node Person { name: String @key }")
    >>> schema.node_types["Person"].key
    ('name',)
    >>> parse_schema("node Person { name: string }")
    Traceback (most recent call last):
    ...
    omnigraph_spark.errors.usage.SchemaSyntaxError: [OMNIGRAPH_SCHEMA_SYNTAX] line 1, column 21: ...
    """
    try:
        tree = _grammar().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(error, text) from error
    return compile_schema(read_declarations(tree))


@functools.cache
def _grammar() -> Lark:
    return Lark.open_from_package(
        "omnigraph_spark.schema", "grammar.lark", parser="lalr", lexer="contextual"
    )


def _syntax_error(error: UnexpectedInput, text: str) -> SchemaSyntaxError:
    # Lark puts an error at the end of the text on the last token before it.
    ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    offset = len(text) if ended or error.pos_in_stream is None else error.pos_in_stream
    before = text[:offset]
    line, column = before.count("\n") + 1, offset - before.rfind("\n")
    accepted: set[str] = error.interactive_parser.accepts()  # type: ignore[no-untyped-call]
    expected = sorted({_words(terminal) for terminal in accepted})
    return SchemaSyntaxError(line, column, _found(text[offset:]), tuple(expected))


def _words(terminal: str) -> str:
    if terminal in _EXPECTED:
        return _EXPECTED[terminal]
    pattern = _grammar().get_terminal(terminal).pattern
    return repr(pattern.value.replace("\\", ""))


def _found(rest: str) -> str:
    if not rest:
        return "end of the text"
    if rest.startswith('"'):
        return "text without a closing quote" if rest.count('"') == 1 else "text"
    if rest.startswith("/*"):
        return "comment without a closing '*/'"
    match = _SHOWN.match(rest)
    return repr(match[0] if match else rest[0])
