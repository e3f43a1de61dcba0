"""The world outside: storage failures, missing sessions, what is not supported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from omnigraph_spark.errors.base import OmnigraphError


@dataclass(eq=False)
class StorageError(OmnigraphError):
    """The object store or file system failed."""

    code = "OMNIGRAPH_STORAGE"
    #: Every kind there is, and what it asks for.
    kinds: ClassVar = {
        "transient": "try again",
        "contention": "others were faster: try again",
        "configuration": "correct the settings the message names",
        "permission": "the keys or the user may not do this",
        "not_found": "a file or version is gone",
        "query": "Lance cannot evaluate the condition",
        "permanent": "see the message",
        "unknown": "it may have happened: look before you repeat a write",
    }
    remedy = f"See the kind: {'; '.join(f'{kind} ({asks})' for kind, asks in kinds.items())}."
    kind: str
    target: str
    detail: str

    def describe(self) -> str:
        return f"{self.kind} storage failure at {self.target!r}: {self.detail}"


@dataclass(eq=False)
class UnsupportedError(OmnigraphError, NotImplementedError):
    """Not possible, or not possible this way."""

    code = "OMNIGRAPH_UNSUPPORTED"
    remedy = "Use the way the message names."
    what: str
    instead: str

    def describe(self) -> str:
        return f"{self.what} is not supported; {self.instead}"


@dataclass(eq=False)
class SessionMissingError(OmnigraphError):
    """A DataFrame was asked for but there is no SparkSession."""

    code = "OMNIGRAPH_SESSION_MISSING"
    remedy = "Start a SparkSession, pass `spark=`, or use `snapshot.arrow(...)`."
    reason: str = "no SparkSession is active"

    def describe(self) -> str:
        return (
            f"{self.reason}; start one with SparkSession.builder.getOrCreate(), "
            f"pass spark= to og.open(), or read without Spark through snapshot.arrow(...)"
        )
