"""The graph on disk: another format, damage, disagreeing schema files."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph_spark.errors.base import OmnigraphError


@dataclass(eq=False)
class FormatError(OmnigraphError):
    """The stored graph has another format, or is damaged; base of the errors that say which."""

    code = "OMNIGRAPH_FORMAT"
    remedy = "Follow the remedy in the message."


@dataclass(eq=False)
class FormatTooOldError(FormatError):
    """The graph was written in an older storage format."""

    code = "OMNIGRAPH_FORMAT_TOO_OLD"
    remedy = (
        "Export the graph with the engine release that wrote it, then load it with a current one."
    )
    root: str
    found: int
    supported: int

    def describe(self) -> str:
        return (
            f"graph {self.root!r} has storage format {self.found}, "
            f"this package reads format {self.supported}; "
            f"export it with the engine release that wrote it, "
            f"then load it with a current one"
        )


@dataclass(eq=False)
class FormatTooNewError(FormatError):
    """The graph was written in a newer storage format."""

    code = "OMNIGRAPH_FORMAT_TOO_NEW"
    remedy = "Install a newer omnigraph-spark."
    root: str
    found: int
    supported: int

    def describe(self) -> str:
        return (
            f"graph {self.root!r} has storage format {self.found}, "
            f"this package reads format {self.supported}; "
            f"install a newer omnigraph-spark"
        )


@dataclass(eq=False)
class FormatStampMissingError(FormatError):
    """The manifest has no format stamp."""

    code = "OMNIGRAPH_FORMAT_STAMP_MISSING"
    remedy = (
        "Export the graph with the engine release that wrote it (the first format had no stamp) "
        "and load it with a current one, or create it anew."
    )
    root: str

    def describe(self) -> str:
        return (
            f"the __manifest of graph {self.root!r} has no format stamp: it was written in "
            f"storage format 1 or its creation was interrupted; export it with the engine release "
            f"that wrote it, then load it with a current one, or create it anew"
        )


@dataclass(eq=False)
class FormatStampInvalidError(FormatError):
    """The format stamp of the manifest is not a number."""

    code = "OMNIGRAPH_FORMAT_STAMP_INVALID"
    remedy = "Restore `__manifest` from a copy; something other than OmniGraph wrote the stamp."
    root: str
    found: str

    def describe(self) -> str:
        return (
            f"the format stamp of graph {self.root!r} is {self.found!r}, not a number; "
            f"restore __manifest from a copy"
        )


@dataclass(eq=False)
class DamagedGraphError(FormatError):
    """A file of the graph is missing or holds something impossible."""

    code = "OMNIGRAPH_GRAPH_DAMAGED"
    remedy = "Restore the part the message names from a copy of the graph."
    root: str
    detail: str

    def describe(self) -> str:
        return f"graph {self.root!r} is damaged: {self.detail}"


@dataclass(eq=False)
class SchemaFilesError(FormatError):
    """The three schema files of the graph do not agree."""

    code = "OMNIGRAPH_SCHEMA_FILES"
    remedy = "Restore `_schema.pg`, `_schema.ir.json` and `__schema_state.json` from one moment."
    root: str
    file: str
    detail: str

    def describe(self) -> str:
        return f"schema file {self.file!r} of graph {self.root!r}: {self.detail}"
