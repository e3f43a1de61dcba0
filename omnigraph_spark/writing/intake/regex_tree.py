"""Regular expressions as trees, without the syntax of any matcher."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_spark.writing.intake.letters import Ranges


class PatternError(ValueError):
    """A pattern that the engine refuses too, or that cannot be checked here; says which."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason if position is None else f"{reason} at character {position + 1}")


@dataclass(frozen=True)
class Chars:
    """One character of a set; `fold` ignores case, and then negation comes after folding."""

    ranges: Ranges
    negated: bool = False
    fold: bool = False


@dataclass(frozen=True)
class Place:
    r"""A place between characters: `\A`, `\z`, start and end of a line, `\b`, `\B`."""

    kind: str


@dataclass(frozen=True)
class Repeat:
    """A node some number of times; greed does not matter to whether a text matches."""

    node: Node
    least: int
    most: int | None


@dataclass(frozen=True)
class Sequence:
    """Nodes one after another."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """One of several nodes."""

    nodes: tuple[Node, ...]


Node = Chars | Place | Repeat | Sequence | Choice
