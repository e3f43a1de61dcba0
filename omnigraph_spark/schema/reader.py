"""Turns the parse tree of a schema text into declarations: words become values, once.

Owns what one declaration can get wrong on its own: escapes, numbers out of bounds, arguments of the
wrong kind. Rules between declarations are in the `*_rules` modules.
"""

from __future__ import annotations

import re

from lark import Token, Tree

from omnigraph_spark.errors import SchemaSyntaxError
from omnigraph_spark.schema.declarations import (
    Declarations,
    DeclaredAnnotation,
    DeclaredConstraint,
    DeclaredEdge,
    DeclaredInterface,
    DeclaredNode,
    DeclaredProperty,
    Place,
    Reference,
    refuse,
)
from omnigraph_spark.schema.model import (
    COLUMNS_CONSTRAINTS,
    CONSTRAINT_WORDS,
    Annotation,
    Cardinality,
    CheckConstraint,
    Constraint,
    PropertyType,
    RangeConstraint,
    Scalar,
)

Branch = Tree[Token]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_I64 = range(-(2**63), 2**63)
_MAX_U32 = 2**32 - 1
_MAX_DIMENSION = 2**31 - 1


def read_declarations(tree: Branch) -> Declarations:
    """Read everything a text declares, in its order."""
    return Declarations(
        tuple(_interface(part) for part in _parts(tree, "interface")),
        tuple(_node(part) for part in _parts(tree, "node")),
        tuple(_edge(part) for part in _parts(tree, "edge")),
    )


def _interface(tree: Branch) -> DeclaredInterface:
    (name,) = _words(tree, "TYPE_NAME")
    return DeclaredInterface(str(name), _properties(tree), _place(name))


def _node(tree: Branch) -> DeclaredNode:
    (name,) = _words(tree, "TYPE_NAME")
    return DeclaredNode(
        str(name),
        _annotations(tree),
        tuple(
            _reference(word)
            for part in _parts(tree, "implements")
            for word in _words(part, "TYPE_NAME")
        ),
        _properties(tree),
        _constraints(tree),
        _place(name),
    )


def _edge(tree: Branch) -> DeclaredEdge:
    name, source, target = _words(tree, "TYPE_NAME")
    cardinalities = [_cardinality(part, str(name)) for part in _parts(tree, "cardinality")]
    return DeclaredEdge(
        str(name),
        _reference(source),
        _reference(target),
        cardinalities[0] if cardinalities else Cardinality(),
        _annotations(tree),
        _properties(tree),
        _constraints(tree),
        _place(name),
    )


def _cardinality(tree: Branch, edge: str) -> Cardinality:
    word, first, *rest = _words(tree)
    subject = f"@card of edge {edge}"
    if "." in first:  # the grammar shares this word with annotations, where it may be a fraction
        raise _unexpected(first, "a whole number")
    low = _whole(first, 0, _MAX_U32, subject)
    high = _whole(rest[0], 0, _MAX_U32, subject) if rest else None
    if high is not None and low > high:
        refuse(subject, f"its minimum {low} is above its maximum {high}", _place(word))
    return Cardinality(low, high)


def _properties(tree: Branch) -> tuple[DeclaredProperty, ...]:
    return tuple(_property(part) for part in _parts(tree, "property"))


def _property(tree: Branch) -> DeclaredProperty:
    (name,) = _words(tree, "NAME")
    (kind,) = _parts(tree, "type")
    return DeclaredProperty(str(name), _type(kind), _annotations(tree), _place(name))


def _type(tree: Branch) -> PropertyType:
    nullable = bool(_words(tree, "NULLABLE"))
    (core,) = _parts(tree)
    words = _words(core)
    first = words[0]
    match core.data:
        case "enum":
            return PropertyType(Scalar.STRING, nullable, enum_values=_enum_values(words))
        case "vector":
            dimension = _whole(first, 1, _MAX_DIMENSION, "dimension of a Vector")
            return PropertyType(Scalar.VECTOR, nullable, dimension=dimension)
    if core.data == "list" and first == Scalar.BLOB:
        refuse("type [Blob]", "a list cannot hold blobs", _place(first))
    return PropertyType(Scalar(str(first)), nullable, list=core.data == "list")


def _enum_values(words: list[Token]) -> tuple[str, ...]:
    values = set()
    for word in words:
        if word in values:
            refuse(f"enum value {str(word)!r}", "it is listed twice", _place(word))
        values.add(str(word))
    return tuple(sorted(values))


def _annotations(tree: Branch) -> tuple[DeclaredAnnotation, ...]:
    return tuple(_annotation(part) for part in _parts(tree, "annotation"))


def _annotation(tree: Branch) -> DeclaredAnnotation:
    word, *values = _words(tree)
    name = _name_in(word)
    for part in _parts(tree, "misplaced_range"):
        advice = "@card(min..max) right after the ends of an edge, before other annotations"
        raise _unexpected(word, advice, found=f"range in '@{name}({_first(part)}..'")
    if values and name in CONSTRAINT_WORDS:
        advice = f"@{name} alone on a property, or @{name}(...) between the braces of a type"
        raise _unexpected(word, advice, found=f"'@{name}('")
    # Of two equal keywords the engine keeps the last.
    kwargs = {str(key): _text(value) for key, value in map(_words, _parts(tree, "keyword"))}
    value = _text(values[0]) if values else None
    return DeclaredAnnotation(Annotation(name, value, tuple(sorted(kwargs.items()))), _place(word))


def _constraints(tree: Branch) -> tuple[DeclaredConstraint, ...]:
    return tuple(_constraint(part) for part in _parts(tree, "constraint"))


def _constraint(tree: Branch) -> DeclaredConstraint:
    word, *arguments = tree.children
    first = _first(word)
    return DeclaredConstraint(_constraint_value(_name_in(first), first, arguments), _place(first))


def _constraint_value(name: str, word: Token, arguments: list[Branch | Token]) -> Constraint:
    for argument in arguments:
        # The grammar cannot tell these from the start of a range.
        if isinstance(argument, Tree) and argument.data == "number" and "-" in _first(argument):
            raise _unexpected(_first(argument), "a range such as -1..1, a property name or a text")
    if name in COLUMNS_CONSTRAINTS:
        return COLUMNS_CONSTRAINTS[name](tuple(map(_column, arguments)))
    wanted = "bounds such as 0..10" if name == "range" else "a pattern in quotes"
    column = _column(arguments[0])
    if len(arguments) < 2:
        raise _unexpected(word, f"{wanted} after the property", found=f"'@{name}({column})'")
    # Whatever follows the second argument is ignored, as the engine does.
    second = arguments[1]
    if name == "check" and isinstance(second, Token) and second.type == "STRING":
        return CheckConstraint(column, _text(second))
    if name == "range" and isinstance(second, Tree) and second.data != "number":
        # The engine takes the first bound it sees as the minimum, also in `..10`.
        low, *high = map(_bound, _words(second))
        return RangeConstraint(column, low, high[0] if high else None)
    raise _unexpected(_first(second), wanted)


def _column(argument: Branch | Token) -> str:
    if isinstance(argument, Token) and argument.type == "NAME":
        return str(argument)
    raise _unexpected(_first(argument), "a property name")


def _bound(word: Token) -> int | float:
    # More digits than an i64 has make a float, as in the engine; int() would refuse thousands.
    if "." not in word and len(word.lstrip("-0")) < 20 and int(word) in _I64:
        return int(word)
    return float(word)


def _whole(word: Token, low: int, high: int, subject: str) -> int:
    digits = word.lstrip("0") or "0"
    if len(digits) > len(str(high)) or not low <= int(digits) <= high:
        refuse(subject, f"it must be between {low} and {high}", _place(word))
    return int(digits)


def _text(word: Token) -> str:
    """Read a literal or bare word; every value is kept as text."""
    if word.type != "STRING":
        return str(word)
    for match in _ESCAPE.finditer(word):
        if match[1] not in _ESCAPES:
            place = _place_within(word, match.start())
            known = tuple(f"\\{letter}" for letter in _ESCAPES)
            raise SchemaSyntaxError(place.line, place.column, f"escape {match[0]}", known)
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]], word[1:-1])


def _name_in(word: Token) -> str:
    """The name in `@name`, `@ name` or `@name (`; comments between may hold other words."""
    return _COMMENT.sub("", word).strip("@( \t\r\n")


def _words(tree: Branch, kind: str | None = None) -> list[Token]:
    return [
        child
        for child in tree.children
        if isinstance(child, Token) and (kind is None or child.type == kind)
    ]


def _parts(tree: Branch, rule: str | None = None) -> list[Branch]:
    return [
        child
        for child in tree.children
        if isinstance(child, Tree) and (rule is None or child.data == rule)
    ]


def _first(part: Branch | Token) -> Token:
    return part if isinstance(part, Token) else _words(part)[0]


def _reference(word: Token) -> Reference:
    return Reference(str(word), _place(word))


def _place(word: Token) -> Place:
    return Place(word.line or 1, word.column or 1)


def _place_within(word: Token, offset: int) -> Place:
    start, before = _place(word), word[:offset]
    lines = before.count("\n")
    column = offset - before.rfind("\n") if lines else start.column + offset
    return Place(start.line + lines, column)


def _unexpected(word: Token, expected: str, found: str | None = None) -> SchemaSyntaxError:
    place = _place(word)
    return SchemaSyntaxError(place.line, place.column, found or repr(str(word)), (expected,))
