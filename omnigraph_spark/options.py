"""Options of the data source: declared once, read once; README tables are printed from here.

Keys are camelCase and matched without case. Settings of the object store go under ``storage.`` and
pass through; their values are secrets and are never printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Self

from omnigraph_spark.errors import (
    ConflictingOptionsError,
    InvalidNameError,
    InvalidOptionError,
    MissingOptionError,
    UnknownOptionError,
)
from omnigraph_spark.names import MAIN, AnyRef, Ref

STORAGE_PREFIX = "storage."
#: The table that is a change feed, and the options that only it has.
CHANGES = "changes"
#: The options that choose of the rows of a type; tables about the graph do not take them.
ROWS_OF_TYPES = ("columns", "where", "limit")
_FEED_ONLY = {"starting_version": "startingVersion", "ending_version": "endingVersion"}


@dataclass(frozen=True)
class Kind:
    """How an option's text becomes a value, and how to say what is accepted."""

    accepts: str
    read: Callable[[str], Any]


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _natural(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


_SIZE = re.compile(r"(\d+)\s*(?:([kmg])i?)?b?", re.ASCII)
_UNITS = {None: 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _bytes(text: str) -> int:
    size = _SIZE.fullmatch(text.strip().lower())
    if size is None:
        raise ValueError
    return _positive(size[1]) * _UNITS[size[2]]


def _names(text: str) -> tuple[str, ...]:
    return tuple(_text(name) for name in text.split(","))


def _switch(text: str) -> bool:
    return bool(["false", "true"].index(text.strip().lower()))


def choice(*words: str) -> Kind:
    """Accept one of some words, whatever their case."""
    return Kind(
        " or ".join(f"`{word}`" for word in words),
        lambda text: words[[word.lower() for word in words].index(text.strip().lower())],
    )


TEXT = Kind("text", _text)
COUNT = Kind("a whole number above zero", _positive)
NATURAL = Kind("a whole number, zero or more", _natural)
SIZE = Kind("a number of bytes, such as `64m`", _bytes)
SWITCH = Kind("`true` or `false`", _switch)
NAMES = Kind("names separated by commas", _names)


def option(
    key: str, kind: Kind, doc: str, default: Any = None, also: str | None = None, shown: str = ""
) -> Any:
    """Declare one option as a dataclass field.

    `also` is another key with the same meaning; `shown` is how the README prints the default.
    """
    metadata = {"key": key, "kind": kind, "doc": doc, "also": also, "shown": shown}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of option sets: reads text by the declarations of its fields."""

    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: What to say when `path` is missing; Spark loses options in one way users run into.
    PATH_ADVICE: ClassVar[str] = (
        "give the root of the graph with .load(root); CREATE TABLE … USING omnigraph loses its "
        "options: use CREATE TEMPORARY VIEW … USING omnigraph OPTIONS (…)"
    )

    @classmethod
    def declared(cls) -> list[Field[Any]]:
        """Return the fields that are options, in order of declaration."""
        return [declared for declared in fields(cls) if "key" in declared.metadata]

    @classmethod
    def keys(cls) -> set[str]:
        """Return every key an option may be given by, in small letters."""
        about = [declared.metadata for declared in cls.declared()]
        return {key.lower() for each in about for key in (each["key"], each["also"]) if key}

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Read options as Spark hands them over: text, keys in any case."""
        by_key: dict[str, Field[Any]] = {}
        for declared in cls.declared():
            by_key[declared.metadata["key"].lower()] = declared
            if also := declared.metadata["also"]:
                by_key[also.lower()] = declared
        values: dict[str, Any] = {}
        storage: dict[str, str] = {}
        seen: dict[str, str] = {}
        for key, text in given.items():
            if key.lower().startswith(STORAGE_PREFIX):
                storage[key[len(STORAGE_PREFIX) :].lower()] = text
                continue
            if key.lower() not in by_key:
                known = tuple(declared.metadata["key"] for declared in cls.declared())
                raise UnknownOptionError(key, known)
            declared = by_key[key.lower()]
            if declared.name in seen:
                rule = "they mean the same"
                raise ConflictingOptionsError((seen[declared.name], key), rule)
            seen[declared.name] = key
            values[declared.name] = _read(declared, text)
        return cls(**values, storage=storage)


def _read(declared: Field[Any], text: str) -> Any:
    kind: Kind = declared.metadata["kind"]
    try:
        return kind.read(text)
    except (ValueError, KeyError) as error:
        raise InvalidOptionError(declared.metadata["key"], text, kind.accepts) from error


@dataclass(frozen=True, kw_only=True)
class ReadOptions(Options):
    """What ``spark.read.format("omnigraph")`` accepts."""

    path: str | None = option(
        "path", TEXT, "Root of the graph; `.load(root)` means the same.", shown="required"
    )
    type: str | None = option(
        "type",
        TEXT,
        "Type to read: `Person`, `node:Person` or `edge:Knows`; a bare name must not be both.",
        shown="`type` or `table`",
    )
    table: str | None = option("table", TEXT, "A table about the graph, instead of `type`.")
    branch: str = option("branch", TEXT, "Branch whose head is read.", default=MAIN)
    commit: str | None = option("commit", TEXT, "Read at this graph commit.")
    version: int | None = option(
        "version", COUNT, "Read at this manifest version of the branch.", also="versionAsOf"
    )
    timestamp: str | None = option(
        "timestamp",
        TEXT,
        "Read at the branch's last commit made at or before this time (UTC without a zone).",
        also="timestampAsOf",
    )
    columns: tuple[str, ...] | None = option(
        "columns", NAMES, "Columns to read, in this order.", shown="all"
    )
    where: str | None = option("where", TEXT, "Rows to read, as SQL; evaluated by Lance.")
    limit: int | None = option("limit", NATURAL, "Rows to read at most; evaluated by Lance.")
    blobs: str = option(
        "blobs",
        choice("descriptor", "bytes", "none"),
        "Blob columns as a struct of kind, size and uri, as binary, or left out.",
        default="descriptor",
    )
    vectors: str = option(
        "vectors", choice("array"), "Vector columns as `array<float>`.", default="array"
    )
    batch_size: int | None = option(
        "batchSize", COUNT, "Rows in one Arrow batch.", shown="about 2 MiB"
    )
    split_bytes: int | None = option(
        "splitBytes",
        SIZE,
        "Bytes one task reads, of the columns chosen.",
        shown="`256m`, more above 20,000 tasks",
    )
    pushdown: bool = option(
        "pushdown",
        SWITCH,
        "Whether Lance evaluates filters, limits and aggregates of a query; only with the jar.",
        default=True,
        shown="`true`",
    )
    shared_memory: bool = option(
        "sharedMemory",
        SWITCH,
        "Whether workers hand batches to the JVM in shared memory; only with the jar.",
        default=True,
        shown="`true`",
    )
    read_change_feed: bool | None = option(
        "readChangeFeed",
        SWITCH,
        "Read what commits of the branch did to the type; `table=changes` means the same.",
        shown="`false`",
    )
    starting_version: str | None = option(
        "startingVersion",
        TEXT,
        "First commit of the change feed: a manifest version or a commit id, included.",
        shown="the first",
    )
    ending_version: str | None = option(
        "endingVersion", TEXT, "Last commit of the change feed, included.", shown="the head"
    )

    def root(self) -> str:
        """Return the address of the graph as given."""
        if self.path is None:
            raise MissingOptionError("path", self.PATH_ADVICE)
        return self.path

    def ref(self) -> AnyRef:
        """Return the snapshot these options name."""
        given = {
            "commit": self.commit,
            "version": self.version,
            "timestamp": self.timestamp,
        }
        chosen = [key for key, value in given.items() if value is not None]
        if len(chosen) > 1:
            raise ConflictingOptionsError(tuple(chosen), "give at most one besides branch")
        try:
            if self.commit is not None:
                return Ref.commit(self.commit)
            if self.version is not None:
                return Ref.version(self.version, self.branch)
            if self.timestamp is not None:
                return Ref.timestamp(self.timestamp, self.branch)
            return Ref.branch(self.branch)
        except InvalidNameError as error:
            key = chosen[0] if chosen and error.what != "branch name" else "branch"
            raise InvalidOptionError(key, error.name, error.rule) from error

    @property
    def is_feed(self) -> bool:
        """Tell whether changes are asked for, and not a snapshot."""
        return bool(self.read_change_feed) or self.table == CHANGES

    def feed(self) -> tuple[str, str | int | None, str | int | None]:
        """Return the type of a change feed, its first and its last commit."""
        if self.type is None:
            raise MissingOptionError("type", "a change feed is of one node or edge type")
        if self.table not in (None, CHANGES):
            raise ConflictingOptionsError(("table", "readChangeFeed"), "read one of them")
        for name in ("commit", "version", "timestamp", *ROWS_OF_TYPES):
            if getattr(self, name) is not None:
                rule = "choose commits with startingVersion and endingVersion, rows in Spark"
                raise ConflictingOptionsError((name, "readChangeFeed"), rule)
        return self.type, _commit_name(self.starting_version), _commit_name(self.ending_version)

    def subject(self) -> tuple[str | None, str | None]:
        """Return (type, table): exactly one of them is not None."""
        self._refuse_feed_options()
        if self.type is not None and self.table is not None:
            raise ConflictingOptionsError(("type", "table"), "one DataFrame reads one of them")
        if self.type is None and self.table is None:
            advice = "name a node or edge type, or a table about the graph with 'table'"
            raise MissingOptionError("type", advice)
        if self.table is not None:
            self._refuse_with_table()
        return self.type, self.table

    def _refuse_feed_options(self) -> None:
        for name, key in _FEED_ONLY.items():
            if getattr(self, name) is not None:
                raise MissingOptionError("readChangeFeed", f"{key} is about a change feed")

    def _refuse_with_table(self) -> None:
        for name in ROWS_OF_TYPES:
            if getattr(self, name) is not None:
                raise ConflictingOptionsError(("table", name), "select from the DataFrame instead")


def _commit_name(text: str | None) -> str | int | None:
    return int(text) if text is not None and text.isdecimal() else text


def options_table(options: type[Options]) -> str:
    """Print the README table of an option set."""
    lines = ["| option | default | accepts | meaning |", "|---|---|---|---|"]
    for declared in options.declared():
        about = declared.metadata
        default = about["shown"] or (
            "none" if declared.default is None else f"`{declared.default}`"
        )
        also = f" `{about['also']}` means the same." if about["also"] else ""
        key, accepts, doc = about["key"], about["kind"].accepts, about["doc"]
        lines.append(f"| `{key}` | {default} | {accepts} | {doc}{also} |")
    lines.append(
        "| `storage.*` | environment | text | Passed to the object store; never printed. |"
    )
    return "\n".join(lines)
