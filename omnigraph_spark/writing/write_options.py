"""Options of a write: declared once, for `df.write` and, in Python spelling, for transactions."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnigraph_spark.errors import ConflictingOptionsError, InvalidOptionError, MissingOptionError
from omnigraph_spark.names import MAIN, AnyRef, Ref, TypeKey, check_actor, check_branch_name
from omnigraph_spark.options import COUNT, NAMES, SIZE, SWITCH, TEXT, Kind, Options, choice, option
from omnigraph_spark.writing.pending import WriteMode
from omnigraph_spark.writing.stage import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE, StageLimits
from omnigraph_spark.writing.terms import Checks, OnConflict, WriteTerms


def _versions(text: str) -> dict[str, int]:
    versions = json.loads(text)
    if not isinstance(versions, dict) or not all(type(v) is int for v in versions.values()):
        raise ValueError
    for key in versions:
        TypeKey.parse(key)
    return versions


VERSIONS = Kind('JSON such as `{"node:Person": 7}`', _versions)


@dataclass(frozen=True, kw_only=True)
class WriteOptions(Options):
    """What ``df.write.format("omnigraph")`` accepts."""

    path: str | None = option(
        "path", TEXT, "Root of the graph; `.save(root)` means the same.", shown="required"
    )
    type: str | None = option(
        "type", TEXT, "Type to write: `Person`, `node:Person` or `edge:Knows`.", shown="required"
    )
    branch: str = option("branch", TEXT, "Branch to write to.", default=MAIN)
    create_branch_from: str | None = option(
        "createBranchFrom", TEXT, "Branch to fork `branch` from when it is missing."
    )
    write_mode: str | None = option(
        "writeMode",
        choice(*WriteMode),
        "`append` refuses ids that exist, `merge` replaces them, `overwrite` replaces all rows, "
        "`delete` removes rows by id.",
        shown="Spark's save mode",
    )
    merge_columns: tuple[str, ...] | None = option(
        "mergeColumns",
        NAMES,
        "Columns that a merge changes; others keep their values.",
        shown="all",
    )
    expected_table_versions: Mapping[str, int] | None = option(
        "expectedTableVersions",
        VERSIONS,
        "Publish only if these types are still at these dataset versions.",
        shown="what planning saw",
    )
    if_graph_commit: str | None = option(
        "ifGraphCommit", TEXT, "Publish only if the head of the branch is this commit."
    )
    on_conflict: str | None = option(
        "onConflict",
        choice(*OnConflict),
        "When another commit landed meanwhile: check again and publish on top, without writing the "
        "rows again (at most 5 times), or fail.",
        shown="`rebase` for append and merge, else `fail`",
    )
    txn_app_id: str | None = option(
        "txnAppId", TEXT, "With `txnVersion` names a piece of work; done once, it is not repeated."
    )
    txn_version: str | None = option("txnVersion", TEXT, "See `txnAppId`.")
    actor: str | None = option(
        "actor",
        TEXT,
        "Who writes, recorded in the commit; `omnigraph:*` is reserved.",
        shown="`$OMNIGRAPH_ACTOR`, else the user",
    )
    max_rows_per_file: int = option(
        "maxRowsPerFile", COUNT, "Rows in one data file at most.", default=MAX_ROWS_PER_FILE
    )
    max_bytes_per_file: int = option(
        "maxBytesPerFile",
        SIZE,
        "Bytes in one data file at most.",
        default=MAX_BYTES_PER_FILE,
        shown="`256m`",
    )
    check: str = option(
        "check",
        choice(*Checks),
        "`rows` skips the checks across rows (endpoints, uniqueness, cardinality), for trusted "
        "bulk loads.",
        default="all",
    )

    allow_external_blobs: bool = option(
        "allowExternalBlobs",
        SWITCH,
        "Take text given for a Blob as the address of a file, such as `s3://bucket/name`, which "
        "stays where it is.",
        default=False,
        shown="`false`",
    )

    def root(self) -> str:
        """Return the address of the graph as given."""
        if self.path is None:
            raise MissingOptionError("path", "give the root of the graph with .save(root)")
        return self.path

    def type_name(self) -> str:
        """Return the type to write."""
        if self.type is None:
            raise MissingOptionError("type", "name the node or edge type to write")
        return self.type

    def mode(self, overwrite: bool) -> WriteMode:
        """Return the mode of the write; Spark's save mode says whether it overwrites."""
        spark = WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
        if self.write_mode is None:
            return spark
        mode = WriteMode(self.write_mode)
        if (mode is WriteMode.OVERWRITE) != overwrite:
            rule = f"mode({str(spark)!r}) and writeMode {str(mode)!r} contradict each other"
            raise ConflictingOptionsError(("mode", "writeMode"), rule)
        return mode

    def origin(self) -> AnyRef | None:
        """Return what a missing branch is forked from."""
        return None if self.create_branch_from is None else Ref.branch(self.create_branch_from)

    def terms(self) -> WriteTerms:
        """Return the terms under which the write becomes visible."""
        check_branch_name(self.branch)
        if (self.txn_app_id is None) != (self.txn_version is None):
            raise ConflictingOptionsError(("txnAppId", "txnVersion"), "each needs the other")
        return terms_of(
            self.actor,
            self.on_conflict,
            self.expected_table_versions,
            self.if_graph_commit,
            self.txn_app_id,
            self.txn_version,
            self.check,
            StageLimits(self.max_rows_per_file, self.max_bytes_per_file),
            self.allow_external_blobs,
        )


def terms_of(
    actor: str | None,
    on_conflict: str | None,
    expected_table_versions: Mapping[str, int] | None,
    if_graph_commit: str | None,
    txn_app_id: str | None,
    txn_version: str | int | None,
    check: str,
    limits: StageLimits,
    allow_external_blobs: bool,
) -> WriteTerms:
    """Return the terms of a write from what options and arguments say, in Python spelling."""
    check_word("check", check, Checks)
    if on_conflict is not None:
        check_word("on_conflict", on_conflict, OnConflict)
    if (txn_app_id is None) != (txn_version is None):
        raise ConflictingOptionsError(("txn_app_id", "txn_version"), "each needs the other")
    return WriteTerms(
        actor=actor_or_user(actor),
        on_conflict=None if on_conflict is None else OnConflict(on_conflict),
        expected=dict(expected_table_versions or {}),
        if_commit=if_graph_commit,
        once=None if txn_app_id is None else (txn_app_id, str(txn_version)),
        checks=Checks(check),
        limits=limits,
        external_blobs=allow_external_blobs,
    )


def actor_or_user(actor: str | None) -> str | None:
    """Return the actor given, else ``$OMNIGRAPH_ACTOR``, else the user's name, if it has one."""
    if given := actor or os.environ.get("OMNIGRAPH_ACTOR"):
        return check_actor(given)
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A process without a name, as in some containers: the commit has no actor then.
        return None


def check_word(name: str, value: str, words: type[StrEnum]) -> None:
    """Refuse a value that is none of the words an argument accepts."""
    if value not in tuple(words):
        raise InvalidOptionError(name, value, " or ".join(words))
