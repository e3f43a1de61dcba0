"""Names that callers type, turned from text into a type once, at the edge: types, branches, refs.

Nothing here touches storage. A name that passed these checks is safe as a folder or dataset branch;
a predicate never contains one.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from omnigraph_spark.errors import InvalidNameError

MAIN = "main"
#: The engine takes this branch of `__manifest` as its schema-apply lock; users never see it.
SCHEMA_APPLY_LOCK = "__schema_apply_lock__"

_TYPE_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*\Z", re.ASCII)
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}\Z", re.ASCII)


class TypeKind(StrEnum):
    """The two kinds of types a graph has."""

    NODE = "node"
    EDGE = "edge"


@dataclass(frozen=True, order=True)
class TypeKey:
    """A node or edge type, written ``node:Person`` or ``edge:Knows``.

    >>> TypeKey.parse("edge:Knows").name
    'Knows'
    """

    kind: TypeKind
    name: str

    @classmethod
    def parse(cls, text: str) -> TypeKey:
        """Read ``node:Name`` or ``edge:Name``; a bare name has no kind and is refused."""
        kind, colon, name = text.partition(":")
        if not colon or kind not in tuple(TypeKind):
            raise InvalidNameError("type key", text, "write 'node:Name' or 'edge:Name'")
        return cls(TypeKind(kind), check_type_name(name))

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def check_type_name(name: str) -> str:
    """Return a bare type name unchanged, or say why it cannot be one."""
    if not _TYPE_NAME.match(name):
        raise InvalidNameError(
            "type name", name, "an upper-case ASCII letter, then letters, digits or '_'"
        )
    return name


def check_branch_name(name: str) -> str:
    """Return a branch name unchanged, or say why it cannot be one; reserved names are refused."""
    segments = name.split("/")
    well_formed = (
        all(segment and all(map(_in_branch_name, segment)) for segment in segments)
        and not any(segment == "." or ".." in segment for segment in segments)
        and not name.endswith(".lock")
    )
    if not well_formed:
        rule = "letters, digits, '.', '-', '_' between single slashes, not ending in '.lock'"
        raise InvalidNameError("branch name", name, rule)
    if name == SCHEMA_APPLY_LOCK:
        raise InvalidNameError("branch name", name, "it is reserved for schema changes")
    return name


def _in_branch_name(letter: str) -> bool:
    # Lance's rule: alphabetic or numeric in Unicode's sense, in any script, or one of these. Vowel
    # signs (category M) are alphabetic to Unicode but not to Python.
    return letter in "._-" or letter.isalnum() or unicodedata.category(letter).startswith("M")


def is_commit_id(text: str) -> bool:
    """Tell whether a text has the shape of a commit id; a branch may be named like one."""
    return _ULID.match(text) is not None


def check_commit_id(text: str) -> str:
    """Return a commit id unchanged, or say why it cannot be one."""
    if not is_commit_id(text):
        raise InvalidNameError("commit id", text, "a ULID of 26 upper-case characters")
    return text


def check_actor(name: str) -> str:
    """Return an actor's name unchanged; those of the engine itself are reserved."""
    if not name.strip() or name.startswith("omnigraph:"):
        rule = "some text that does not start with 'omnigraph:', which is reserved"
        raise InvalidNameError("actor", name, rule)
    return name


@dataclass(frozen=True)
class BranchRef:
    """The head of a branch."""

    branch: str


@dataclass(frozen=True)
class CommitRef:
    """One graph commit."""

    commit_id: str


@dataclass(frozen=True)
class VersionRef:
    """A manifest version on a branch's own line of versions."""

    number: int
    branch: str


@dataclass(frozen=True)
class TimestampRef:
    """The last commit of a branch at or before a time."""

    at_us: int
    branch: str


AnyRef = BranchRef | CommitRef | VersionRef | TimestampRef


class Ref:
    """The ways to name a snapshot.

    >>> Ref.branch("dev")
    BranchRef(branch='dev')
    >>> Ref.version(12)
    VersionRef(number=12, branch='main')
    """

    @staticmethod
    def branch(name: str = MAIN) -> BranchRef:
        """Name the head of a branch."""
        return BranchRef(check_branch_name(name))

    @staticmethod
    def commit(commit_id: str) -> CommitRef:
        """Name one graph commit, on whatever branch it was made."""
        return CommitRef(check_commit_id(commit_id))

    @staticmethod
    def version(number: int, branch: str = MAIN) -> VersionRef:
        """Name a manifest version of a branch."""
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise InvalidNameError("manifest version", str(number), "a whole number above zero")
        return VersionRef(number, check_branch_name(branch))

    @staticmethod
    def timestamp(at: str | dt.datetime, branch: str = MAIN) -> TimestampRef:
        """Name the last commit of a branch made at or before a time; no zone means UTC."""
        return TimestampRef(_microseconds(at), check_branch_name(branch))


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _microseconds(at: str | dt.datetime) -> int:
    moment = _parse_timestamp(at) if isinstance(at, str) else at
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    try:
        return (moment.astimezone(dt.UTC) - _EPOCH) // dt.timedelta(microseconds=1)
    except OverflowError as error:
        rule = "a time between the years 1 and 9999 in UTC"
        raise InvalidNameError("timestamp", str(at), rule) from error


def _parse_timestamp(text: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text.strip())
    except ValueError as error:
        rule = "ISO 8601 text such as '2026-11-01T00:00:00Z'"
        raise InvalidNameError("timestamp", text, rule) from error


def timestamp_text(at_us: int) -> str:
    """Write a time in microseconds as ISO 8601 text in UTC.

    >>> timestamp_text(0)
    '1970-01-01T00:00:00+00:00'
    """
    return (_EPOCH + dt.timedelta(microseconds=at_us)).isoformat()
