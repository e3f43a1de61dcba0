"""The syntax of Rust's `regex`, which the engine's patterns are written in: read into trees.

What the engine refuses is refused here, and so is what a tree cannot say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from omnigraph_spark.writing.intake.letters import (
    ANY,
    POSIX,
    Ranges,
    complement,
    difference,
    digits,
    intersection,
    property_ranges,
    spaces,
    union,
    words,
)
from omnigraph_spark.writing.intake.regex_tree import (
    Chars,
    Choice,
    Node,
    PatternError,
    Place,
    Repeat,
    Sequence,
)


@dataclass(frozen=True)
class _Flags:
    fold: bool = False
    lines: bool = False
    dot_all: bool = False


#: Where the engine stops, too; and trees are walked by recursion.
_DEEPEST = 250
_NAMED: dict[str, Callable[[], Ranges]] = {"d": digits, "s": spaces, "w": words}
_FLAG_NAMES = {"i": "fold", "m": "lines", "s": "dot_all"}
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_PLACES = {"A": "text_start", "z": "text_end", "b": "boundary", "B": "no_boundary"}
_HALF_BOUNDARY = re.compile(r"\{[a-z-]+\}")
_BRACED = re.compile(r"\{([^}]*)\}")
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_COUNT = re.compile(r"\{ *(\d+) *(?:(,) *(\d+)? *)?\}", re.ASCII)
#: With another name it is a class of these characters inside a class.
_POSIX_CLASS = re.compile(rf"\[:(\^?)({'|'.join(POSIX)}):\]")
_GROUP_NAME = re.compile(r"\?P?<([^\W\d][\w.\[\]]*)>")
_FLAG_GROUP = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")


def parse(pattern: str) -> Node:
    """Read a pattern by the rules of Rust's `regex`."""
    parser = _Parser(pattern)
    node = parser.choice(_Flags())
    if parser.at < len(pattern):
        raise PatternError("a parenthesis is closed that was not opened", parser.at)
    return node


@dataclass
class _Parser:
    text: str
    at: int = field(default=0, init=False)
    depth: int = field(default=0, init=False)
    names: set[str] = field(default_factory=set, init=False)

    def _peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def _take(self) -> str:
        self.at += 1
        return self.text[self.at - 1 : self.at]

    def _match(self, rule: re.Pattern[str]) -> re.Match[str] | None:
        if found := rule.match(self.text, self.at):
            self.at = found.end()
        return found

    def _deeper(self, by: int) -> None:
        self.depth += by
        if self.depth > _DEEPEST:
            raise PatternError("groups and classes are nested too deeply", self.at)

    def choice(self, flags: _Flags) -> Node:
        """Read alternatives up to the end of the group."""
        branches: list[list[Node]] = [[]]
        while (letter := self._peek()) not in ("", ")"):
            if letter == "|":
                self.at += 1
                branches.append([])
            elif letter in "*+?{":
                self._repeat(branches[-1])
            elif letter == "(":
                node, flags = self._group(flags)
                branches[-1] += [node] if node is not None else []
                if node is None and self._peek() in ("*", "+", "?", "{"):
                    raise PatternError("there is nothing to repeat", self.at)
            else:
                branches[-1].append(self._atom(flags))
        nodes = [branch[0] if len(branch) == 1 else Sequence(tuple(branch)) for branch in branches]
        return nodes[0] if len(nodes) == 1 else Choice(tuple(nodes))

    def _repeat(self, branch: list[Node]) -> None:
        start = self.at
        if not branch:
            raise PatternError("there is nothing to repeat", start)
        if self._peek() == "{":
            if not (count := self._match(_COUNT)):
                raise PatternError("'{' does not begin a count such as {2,3}", start)
            least = int(count[1])
            most = least if count[2] is None else int(count[3]) if count[3] else None
        else:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self._take()]
        if most is not None and most < least:
            raise PatternError("a count ends before it begins", start)
        if self._peek() == "?":  # as few as possible: finds the same texts
            self.at += 1
        branch[-1] = Repeat(branch[-1], least, most)

    def _group(self, flags: _Flags) -> tuple[Node | None, _Flags]:
        """Read a group; what has flags and no body holds to the end of the group around it."""
        start = self.at
        self.at += 1
        inner = flags
        if name := self._match(_GROUP_NAME):
            if name[1] in self.names:
                raise PatternError(f"two groups are called {name[1]}", start)
            self.names.add(name[1])
        elif self._peek() == "?":
            if not (given := self._match(_FLAG_GROUP)):
                raise PatternError("a group begins in a way the engine does not know", start)
            inner = _with(flags, given[1], given[2] or "", start)
            if given[3] == ")":
                return None, inner
        self._deeper(1)
        node = self.choice(inner)
        self._deeper(-1)
        if self._take() != ")":
            raise PatternError("a parenthesis is not closed", start)
        # A tuple of one keeps a repetition after the group from reaching into it.
        return Sequence((node,)), flags

    def _atom(self, flags: _Flags) -> Node:
        letter = self._take()
        if letter == "[":
            return self._class(flags.fold)
        if letter == ".":
            return Chars(ANY if flags.dot_all else complement(((10, 10),)))
        if letter in "^$":
            side = "start" if letter == "^" else "end"
            return Place(f"line_{side}" if flags.lines else f"text_{side}")
        if letter != "\\":
            return _letter(ord(letter), flags)
        escaped = self._escape(inside_class=False)
        if isinstance(escaped, Place):
            return escaped
        return replace(escaped, fold=flags.fold)

    def _escape(self, inside_class: bool) -> Chars | Place:
        start = self.at - 1
        letter = self._take()
        if not letter:
            raise PatternError("it ends in a backslash", start)
        if letter in _PLACES and not inside_class:
            if letter == "b" and self._match(_HALF_BOUNDARY):
                raise PatternError("half word boundaries cannot be checked here", start)
            return Place(_PLACES[letter])
        if letter in "dDsSwW":
            ranges = _NAMED[letter.lower()]()
            return Chars(complement(ranges) if letter.isupper() else ranges)
        if letter in "pP":
            return Chars(self._property(letter == "P", start))
        if letter in _CONTROLS:
            return _point(_CONTROLS[letter])
        if letter in _HEX_DIGITS:
            return _point(self._hex(letter, start))
        if letter in "<>":
            raise PatternError("the word boundaries \\< and \\> cannot be checked here", start)
        if letter.isascii() and not letter.isalnum():
            return _point(ord(letter))
        raise PatternError(f"the engine does not know the escape \\{letter}", start)

    def _hex(self, letter: str, start: int) -> int:
        if self._peek() == "{":
            number = self._braced(start)
        else:
            end = self.at + _HEX_DIGITS[letter]
            number, self.at = self.text[self.at : end].ljust(_HEX_DIGITS[letter]), end
        code = int(number, 16) if re.fullmatch("[0-9A-Fa-f]{1,8}", number) else -1
        if not any(low <= code <= high for low, high in ANY):
            raise PatternError("hexadecimal digits do not name a character", start)
        return code

    def _braced(self, start: int) -> str:
        if not (found := self._match(_BRACED)):
            raise PatternError("a brace is not closed", start)
        return found[1]

    def _property(self, negated: bool, start: int) -> Ranges:
        name = self._braced(start) if self._peek() == "{" else self._take()
        ranges = property_ranges(name)
        if ranges is None:
            reason = (
                f"the property {name!r} cannot be checked here: write a general category such as "
                f"\\p{{Lu}} or a script such as \\p{{Greek}}"
            )
            raise PatternError(reason, start)
        return complement(ranges) if negated else ranges

    def _class(self, fold: bool) -> Chars:
        """Read a class; the bracket is read already."""
        start = self.at - 1
        negated = self._peek() == "^"
        self.at += negated
        self._deeper(1)
        ranges, plain = self._class_items(start, fold)
        self._deeper(-1)
        if fold and not plain:
            raise PatternError("nested classes without regard to case cannot be checked", start)
        if fold:
            return Chars(ranges, negated, fold)
        return Chars(complement(ranges) if negated else ranges)

    def _class_items(self, start: int, fold: bool) -> tuple[Ranges, bool]:
        """Return the set, and whether it is a plain list of characters and ranges."""
        items: list[Ranges] = []
        while self._peek() == "-":  # in front it is a letter
            self.at += 1
            items.append(((45, 45),))
        if not items and self._peek() == "]":  # and so is this
            self.at += 1
            items.append(((93, 93),))
        left: Ranges | None = None
        operation, plain = "", True
        while self._peek() != "]":
            if not self._peek():
                raise PatternError("a class is not closed", start)
            two = self._peek() + self._peek(1)
            if two in ("&&", "--", "~~"):
                left, items = _combined(left, operation, union(*items)), []
                operation, plain = two, False
                self.at += 2
            elif self._peek() == "[" and not _POSIX_CLASS.match(self.text, self.at):
                self.at += 1
                items.append(self._class(fold).ranges)
                plain = False
            else:
                items.append(self._class_item(start))
        self.at += 1
        return _combined(left, operation, union(*items)), plain

    def _class_item(self, start: int) -> Ranges:
        if posix := self._match(_POSIX_CLASS):
            return complement(POSIX[posix[2]]) if posix[1] else POSIX[posix[2]]
        first = self._class_letter(start)
        if self._peek() != "-" or self._peek(1) in ("]", "-", ""):
            return first
        self.at += 1
        last = self._class_letter(start)
        (low, high), (begin, end) = first[0], last[-1]
        if (low, begin) != (high, end) or len(first) + len(last) > 2 or low > end:
            raise PatternError("a range does not go from one character up to another", start)
        return ((low, end),)

    def _class_letter(self, start: int) -> Ranges:
        letter = self._take()
        if letter != "\\":
            return ((ord(letter), ord(letter)),)
        escaped = self._escape(inside_class=True)
        if isinstance(escaped, Place):
            raise PatternError("a class holds a place instead of a character", start)
        return escaped.ranges


def _with(flags: _Flags, on: str, off: str, start: int) -> _Flags:
    if not on and not off:
        return flags
    if "u" in off or "R" in on or "x" in on:
        raise PatternError("the flags x, R and -u cannot be checked here", start)
    if unknown := set(on + off) - set("imsUuxR"):
        raise PatternError(f"the engine does not know the flag {min(unknown)}", start)
    switched = {_FLAG_NAMES[name]: True for name in on if name in _FLAG_NAMES}
    switched |= {_FLAG_NAMES[name]: False for name in off if name in _FLAG_NAMES}
    return replace(flags, **switched)


def _point(code: int) -> Chars:
    return Chars(((code, code),))


def _letter(code: int, flags: _Flags) -> Chars:
    return Chars(((code, code),), fold=flags.fold)


def _combined(left: Ranges | None, operation: str, right: Ranges) -> Ranges:
    if left is None:
        return right
    if operation == "&&":
        return intersection(left, right)
    if operation == "--":
        return difference(left, right)
    return union(difference(left, right), difference(right, left))
