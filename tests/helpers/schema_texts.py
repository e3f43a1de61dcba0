"""Random schema texts that the engine accepts: every form, in any order, with odd values.

Valid by construction: types, annotations and constraints are drawn together, so that each rule of
the language holds. Drawn from a seed with `random`, because drawing every word through a property
testing library takes far longer than what is tested.
"""

from __future__ import annotations

import random
import string
from dataclasses import dataclass, field

_LOWER = string.ascii_lowercase + "_"
_WORD = string.ascii_letters + string.digits + "_"
_SCALARS = ("String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
_NUMERIC = ("I32", "I64", "U32", "U64", "F32", "F64")
_GAPS = (" ", "\n", "\t", "\r\n", "  ", "/* gap */", "// gap\n", "/**/ //*\n")
_LETTERS = ' "\\\n\r\t\x00\x1f\x7f/*@(){}.,:?-aZ0é漢\u2028\u3000\U0001f600'


def random_schema_text(seed: int) -> str:
    """Draw a whole schema text; the same seed gives the same text."""
    return _Drawing(random.Random(seed)).schema()


@dataclass
class _Property:
    name: str
    kind: str
    words: list[str] = field(default_factory=list)

    @property
    def scalar(self) -> str:
        return self.kind.rstrip(" ?").strip("[]").partition("(")[0]

    def __str__(self) -> str:
        return " ".join([f"{self.name}: {self.kind}", *self.words])


class _Drawing:
    def __init__(self, source: random.Random) -> None:
        self.random = source

    def schema(self) -> str:
        interfaces = self.type_names(0, 2)
        nodes = self.type_names(1, 4)
        blocks = [
            f"interface {name} {{{self.gap()}{self.body(self.properties(f'i{number}_'), [])}}}"
            for number, name in enumerate(interfaces)
        ]
        blocks += [self.node(name, interfaces) for name in nodes]
        blocks += [self.edge(f"E{number}{name}", nodes) for number, name in enumerate(nodes)]
        return self.gap().join(self.shuffled(blocks)) + self.gap()

    def node(self, name: str, interfaces: list[str]) -> str:
        properties = self.properties("n_")
        lines = self.key(properties) + self.values(properties) + self.columns([], properties)
        head = [f"node {name}", *self.head()]
        if interfaces and self.chance():
            parents = self.random.choices(interfaces, k=self.random.randint(1, 3))
            head.append(f"implements {', '.join(parents)}")
        return f"{self.gap().join(head)} {{{self.gap()}{self.body(properties, lines)}}}"

    def edge(self, name: str, nodes: list[str]) -> str:
        source, target = self.random.choices(nodes, k=2)
        low = self.random.randint(0, 2**32 - 1)
        high = self.random.choice(["", str(self.random.randint(low, 2**32 - 1))])
        card = self.random.choice(["", f"@card({low}..{high})", "@card", "@card(7)"])
        properties = self.properties()
        lines = self.columns(["src", "dst"], properties)
        head = " ".join([f"edge {name}: {source} -> {target}", card, *self.head()])
        body = self.body(properties, lines)
        return f"{head} {{{body}}}" if body or self.chance() else head

    def body(self, properties: list[_Property], lines: list[str]) -> str:
        return self.gap().join(self.shuffled([*map(str, properties), *lines]))

    def properties(self, prefix: str = "p_") -> list[_Property]:
        names = {prefix + self.word(_WORD, 0, 5) for _ in range(self.random.randint(0, 4))}
        return [self.property(name) for name in sorted(names)]

    def property(self, name: str) -> _Property:
        scalar = self.random.choice(_SCALARS)
        kind = self.random.choice(
            [scalar, scalar, f"[{scalar}]", self.enum(), self.vector(), "Blob"]
        )
        words = self.annotations()
        single = not kind.startswith(("[", "Blob"))
        if single and self.chance():
            words.append("@index")
        if single and not kind.startswith("Vector") and self.chance():
            words.append("@unique")
        if self.chance():
            words.append(f"@description({self.quoted('d')})")
        return _Property(name, kind + self.random.choice(["", "?", " ?"]), self.shuffled(words))

    def enum(self) -> str:
        values = {self.word(_WORD + "-", 1, 5) for _ in range(self.random.randint(1, 4))}
        return f"enum({', '.join(self.shuffled(sorted(values)))})"

    def vector(self) -> str:
        return f"Vector({self.random.choice([1, 3, 1536, 2**31 - 1])})"

    def key(self, properties: list[_Property]) -> list[str]:
        unfit = ("[", "Vector", "Blob")
        able = [p for p in properties if not (p.kind.startswith(unfit) or p.kind.endswith("?"))]
        if not able or self.chance():
            return []
        if self.chance():
            self.random.choice(able).words.append("@key")
            return []
        return [f"@key({self.names(able)})"]

    def values(self, properties: list[_Property]) -> list[str]:
        lines = []
        for prop in properties:
            for _ in range(self.random.randint(0, 2)):
                if prop.scalar in _NUMERIC:
                    lines.append(f"@range({prop.name}, {self.bounds()})")
                elif prop.scalar in ("String", "enum"):
                    lines.append(f"@check({prop.name}, {self.quoted()})")
        return lines

    def columns(self, ends: list[str], properties: list[_Property]) -> list[str]:
        everything = [_Property(end, "String") for end in ends] + properties
        indexable = [prop for prop in everything if prop.scalar != "Blob"]
        lines = []
        if everything and self.chance():
            lines.append(f"@unique({self.names(everything)})")
        if indexable and self.chance():
            lines.append(f"@index({self.names(indexable)})")
        return lines

    def names(self, properties: list[_Property]) -> str:
        chosen = self.random.choices(properties, k=self.random.randint(1, 3))
        return ", ".join(prop.name for prop in chosen)

    def bounds(self) -> str:
        low, high = self.number(), self.number()
        return self.random.choice([f"{low}..{high}", f"{low} ..", f"..{high}", f"{low}.. {high}"])

    def number(self) -> str:
        size = 10 ** self.random.randint(-9, 22)
        number = self.random.uniform(-1, 1) * size
        return self.random.choice([str(int(number)), f"{number:.18f}", f"{round(number, 3):.3f}"])

    def head(self) -> list[str]:
        words = self.annotations()
        for name in ("description", "instruction"):
            if self.chance():
                words.append(f"@{name}({self.quoted('d')})")
        return self.shuffled(words)

    def annotations(self) -> list[str]:
        return [self.annotation() for _ in range(self.random.randint(0, 2))]

    def annotation(self) -> str:
        name = "x" + self.word("ab_1", 0, 2)
        keys = [self.word(_LOWER, 1, 2) for _ in range(self.random.randint(0, 2))]
        keywords = [f"{key}={self.random.choice([self.quoted(), '1.5', 'true'])}" for key in keys]
        values = ["", self.quoted(), "w" + self.word(_WORD, 0, 4), "007", "1.50", "false"]
        value = self.random.choice(values)
        return f"@{name}({', '.join([value, *keywords])})" if value else f"@{name}"

    def quoted(self, start: str = "") -> str:
        text = start + self.word(_LETTERS, 0, 8)
        escapes = {"\\": "\\\\", '"': '\\"', "\r": "\\r", "\n": self.random.choice(["\n", "\\n"])}
        return '"' + "".join(escapes.get(letter, letter) for letter in text) + '"'

    def type_names(self, low: int, high: int) -> list[str]:
        count = self.random.randint(low, high)
        return [f"T{number}{self.word(_WORD, 0, 4)}" for number in range(count)]

    def word(self, letters: str, low: int, high: int) -> str:
        return "".join(self.random.choices(letters, k=self.random.randint(low, high)))

    def gap(self) -> str:
        return self.random.choice(_GAPS)

    def chance(self) -> bool:
        return self.random.random() < 0.4

    def shuffled(self, items: list[str]) -> list[str]:
        return self.random.sample(items, len(items))
