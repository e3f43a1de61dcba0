"""Names of the SQL catalog: which branch and which table ``og.dev.nodes.Person`` stands for.

A namespace is ``nodes``, ``edges`` or ``system``, alone or below a branch. A branch whose name is
one of these words, and any other, may be written ``branch_<name>``. The three words have no case;
branches and types have, as in the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from omnigraph_spark.errors import NamespaceNotFoundError
from omnigraph_spark.names import AnyRef, Ref, TypeKind, check_commit_id

_BRANCH_PREFIX = "branch_"
_COMMIT_LETTERS = 26


class Group(StrEnum):
    """What a namespace holds: node types, edge types, or tables about the graph."""

    NODES = "nodes"
    EDGES = "edges"
    SYSTEM = "system"

    @property
    def kind(self) -> TypeKind | None:
        """The kind of types in it, if it holds types."""
        return {Group.NODES: TypeKind.NODE, Group.EDGES: TypeKind.EDGE}.get(self)


@dataclass(frozen=True)
class Namespace:
    """A namespace as written: a branch (None is the catalog's own) and a group (None is all)."""

    branch: str | None = None
    group: Group | None = None

    @classmethod
    def parse(cls, parts: Sequence[str]) -> Namespace:
        """Read the parts of a name before the table.

        >>> Namespace.parse(["dev", "nodes"])
        Namespace(branch='dev', group=<Group.NODES: 'nodes'>)
        """
        groups = [_group(part) for part in parts]
        match groups:
            case []:
                return cls()
            case [Group() as group]:
                return cls(group=group)
            case [None]:
                return cls(branch=parts[0])
            case [None, Group() as group]:
                return cls(branch=parts[0], group=group)
        raise NamespaceNotFoundError(".".join(parts), tuple(Group))


def _group(word: str) -> Group | None:
    return Group(word.lower()) if word.lower() in tuple(Group) else None


def resolve_branch(written: str, branches: Collection[str]) -> str:
    """Return the branch a namespace means, or say which there are.

    >>> resolve_branch("branch_nodes", ["main", "nodes"])
    'nodes'
    """
    for name in (written, written.removeprefix(_BRANCH_PREFIX)):
        if name in branches:
            return name
    raise NamespaceNotFoundError(written, (*Group, *map(branch_namespace, branches)))


def branch_namespace(branch: str) -> str:
    """Return how a branch is listed as a namespace."""
    return branch if _group(branch) is None else _BRANCH_PREFIX + branch


def ref_of_version(text: str, branch: str) -> AnyRef:
    """Read what ``VERSION AS OF`` names: a version of the branch, a commit id, or a branch.

    >>> ref_of_version("12", "dev")
    VersionRef(number=12, branch='dev')
    >>> ref_of_version("branch:12", "dev")
    BranchRef(branch='12')
    """
    kind, colon, rest = text.partition(":")
    if colon and kind == "version" and rest.isdecimal():
        return Ref.version(int(rest), branch)
    if colon and kind == "commit":
        return Ref.commit(rest)
    if colon and kind == "branch":
        return Ref.branch(rest)
    if text.isdecimal():
        return Ref.version(int(text), branch)
    return Ref.commit(text) if _is_commit_id(text) else Ref.branch(text)


def _is_commit_id(text: str) -> bool:
    if len(text) != _COMMIT_LETTERS:
        return False
    try:
        check_commit_id(text)
    except ValueError:
        return False
    return True
