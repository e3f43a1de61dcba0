"""What an exported table holds: the mark it carries, and what a repeated export has to do. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from omnigraph_spark.manifest import Entry
from omnigraph_spark.snapshot import SnapshotState

#: The key under which a mark stands in the text that other tools show as well.
_KEY = "omnigraph"


class Step(StrEnum):
    """What an export did to a table."""

    FULL = "full"
    CHANGES = "changes"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Exported:
    """One table of an export: where it is, what was done, and how many rows that touched."""

    type_key: str
    path: str
    step: Step
    rows: int
    #: The commit whose rows the table holds.
    commit: str


@dataclass(frozen=True)
class Mark:
    """Which state of a type a table holds; it is written together with the rows, or last."""

    #: The first commit of the graph, which no other graph has.
    graph: str
    type_key: str
    branch: str
    commit: str
    dataset: str

    @classmethod
    def of(cls, state: SnapshotState, first_commit: str, type_key: str) -> Mark:
        """Return the mark of a type at a snapshot."""
        entry = state.entries[type_key]
        return cls(first_commit, type_key, state.branch, state.commit.id, _dataset(entry))

    def to_json(self) -> str:
        """Write the mark as text."""
        return json.dumps({_KEY: asdict(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | None) -> Mark | None:
        """Read a mark; None when the text is something else.

        >>> Mark.from_json("written by hand") is None
        True
        """
        if not text or _KEY not in text:
            return None
        try:
            found = json.loads(text)[_KEY]
            return cls(**found)
        except (ValueError, KeyError, TypeError):
            return None

    def same_rows(self, other: Mark) -> bool:
        """Tell whether both are of the same dataset version, whatever else was committed."""
        return (self.graph, self.type_key, self.dataset) == (
            other.graph,
            other.type_key,
            other.dataset,
        )


def _dataset(entry: Entry) -> str:
    tag = "" if entry.tag is None else f"#{entry.tag}"
    return f"{entry.path}@{entry.dataset_branch or 'main'}:{entry.dataset_version}{tag}"


def folder_of(type_key: str) -> str:
    """Return where the table of a type lies below the folder of an export.

    >>> folder_of("node:Person"), folder_of("edge:Knows")
    ('nodes/Person', 'edges/Knows')
    """
    kind, _, name = type_key.partition(":")
    return f"{kind}s/{name}"


def marks_from(state: Mapping[str, object]) -> dict[str, tuple[Mark, str]]:
    """Read marks and folders by type key, as a state file holds them."""
    found = {}
    for key, about in state.items():
        if isinstance(about, dict):
            mark = Mark.from_json(json.dumps({_KEY: about.get("mark")}))
            if mark is not None and isinstance(about.get("folder"), str):
                found[key] = (mark, str(about["folder"]))
    return found
