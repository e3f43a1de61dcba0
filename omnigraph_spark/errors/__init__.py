"""Every error raised on purpose: one root, a code in the text, facts in fields, safe to pickle.

Spark carries an error's text across processes but not its class, so the text starts with the code:
``[OMNIGRAPH_BRANCH_NOT_FOUND] branch 'dev' does not exist; this graph has main``.
The README table of codes is printed from these classes by `errors_table`.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_spark.errors.base import OmnigraphError, nearest
from omnigraph_spark.errors.merging import Conflict, ConflictKind, MergeConflictsError
from omnigraph_spark.errors.missing import (
    BranchNotFoundError,
    ColumnNotFoundError,
    CommitNotFoundError,
    GraphNotFoundError,
    HistoryReclaimedError,
    NamespaceNotFoundError,
    NotFoundError,
    ProcedureNotFoundError,
    SchemaBoundaryError,
    TimestampNotFoundError,
    TypeAmbiguousError,
    TypeNotFoundError,
    VersionNotFoundError,
)
from omnigraph_spark.errors.outcome import (
    AlreadyExistsError,
    BranchExistsError,
    BranchInUseError,
    ConflictError,
    ConstraintViolationError,
    DriftError,
    ExpectedVersionError,
    ForeignCommitError,
    GraphExistsError,
    HeadMovedError,
    KeyConflictError,
    MixedModesError,
    OutcomeUnknownError,
    RecoveryRequiredError,
    SchemaApplyInProgressError,
)
from omnigraph_spark.errors.outside import SessionMissingError, StorageError, UnsupportedError
from omnigraph_spark.errors.records import InvalidRecordsError
from omnigraph_spark.errors.stored import (
    DamagedGraphError,
    FormatError,
    FormatStampInvalidError,
    FormatStampMissingError,
    FormatTooNewError,
    FormatTooOldError,
    SchemaFilesError,
)
from omnigraph_spark.errors.usage import (
    ConflictingOptionsError,
    InvalidFilterError,
    InvalidNameError,
    InvalidOptionError,
    MissingOptionError,
    OptionError,
    SchemaError,
    SchemaMismatchError,
    SchemaRuleError,
    SchemaSyntaxError,
    UnknownOptionError,
)

__all__ = [
    "AlreadyExistsError",
    "BranchExistsError",
    "BranchInUseError",
    "BranchNotFoundError",
    "ColumnNotFoundError",
    "CommitNotFoundError",
    "Conflict",
    "ConflictError",
    "ConflictKind",
    "ConflictingOptionsError",
    "ConstraintViolationError",
    "DamagedGraphError",
    "DriftError",
    "ExpectedVersionError",
    "ForeignCommitError",
    "FormatError",
    "FormatStampInvalidError",
    "FormatStampMissingError",
    "FormatTooNewError",
    "FormatTooOldError",
    "GraphExistsError",
    "GraphNotFoundError",
    "HeadMovedError",
    "HistoryReclaimedError",
    "InvalidFilterError",
    "InvalidNameError",
    "InvalidOptionError",
    "InvalidRecordsError",
    "KeyConflictError",
    "MergeConflictsError",
    "MissingOptionError",
    "MixedModesError",
    "NamespaceNotFoundError",
    "NotFoundError",
    "OmnigraphError",
    "OptionError",
    "OutcomeUnknownError",
    "ProcedureNotFoundError",
    "RecoveryRequiredError",
    "SchemaApplyInProgressError",
    "SchemaBoundaryError",
    "SchemaError",
    "SchemaFilesError",
    "SchemaMismatchError",
    "SchemaRuleError",
    "SchemaSyntaxError",
    "SessionMissingError",
    "StorageError",
    "TimestampNotFoundError",
    "TypeAmbiguousError",
    "TypeNotFoundError",
    "UnknownOptionError",
    "UnsupportedError",
    "VersionNotFoundError",
    "all_errors",
    "errors_table",
    "nearest",
]


def all_errors() -> Iterator[type[OmnigraphError]]:
    """Yield every error class, the root first, subclasses in order of declaration."""

    def walk(cls: type[OmnigraphError]) -> Iterator[type[OmnigraphError]]:
        yield cls
        for child in cls.__subclasses__():
            yield from walk(child)

    return walk(OmnigraphError)


def errors_table() -> str:
    """Print the README table of codes: meaning and what to do."""
    lines = ["| code | class | meaning | what to do |", "|---|---|---|---|"]
    for cls in all_errors():
        meaning = (cls.__doc__ or "").strip().splitlines()[0]
        lines.append(f"| `{cls.code}` | `{cls.__name__}` | {meaning} | {cls.remedy} |")
    return "\n".join(lines)
