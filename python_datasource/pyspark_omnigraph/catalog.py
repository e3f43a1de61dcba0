"""What the SQL catalog asks about a graph: namespaces, tables, and one table at one snapshot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.types import StructType

from omnigraph_spark.errors import (
    NamespaceNotFoundError,
    ProcedureNotFoundError,
    TypeNotFoundError,
)
from omnigraph_spark.names import AnyRef, BranchRef, Ref, TimestampRef
from omnigraph_spark.options import ReadOptions
from omnigraph_spark.session.types import check_user_schema
from omnigraph_spark.snapshot import GraphReader
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.uri import canonical_root
from omnigraph_spark.tables import METADATA_TABLES
from pyspark_omnigraph.change_ends import ChangeEnds
from pyspark_omnigraph.described import described_feed, described_table, described_type
from pyspark_omnigraph.feed import FeedSubject
from pyspark_omnigraph.identifiers import (
    Group,
    Namespace,
    branch_namespace,
    ref_of_version,
    resolve_branch,
)
from pyspark_omnigraph.jar_options import TRANSACTION, reading_options
from pyspark_omnigraph.metadata import MetadataSubject
from pyspark_omnigraph.procedure import Call
from pyspark_omnigraph.procedures import PROCEDURES
from pyspark_omnigraph.pushed import PushedScan, pushed_reader
from pyspark_omnigraph.reader import TypeSubject
from pyspark_omnigraph.tunnel import as_text

#: An answer: what JSON can hold.
Answer = Any


@dataclass(frozen=True)
class GraphCatalog:
    """One graph, and the options that hold for everything read from it."""

    reader: GraphReader
    options: ReadOptions
    #: Who writes, if the session says so.
    actor: str | None = None
    #: The transaction that the session is in.
    transaction: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> GraphCatalog:
        """Open the graph that options name."""
        read = ReadOptions.parse(reading_options(options))
        settings = StorageSettings.resolve(read.storage)
        reader = GraphReader.open(canonical_root(read.root()), settings)
        return cls(reader, read, options.get("actor"), options.get(TRANSACTION))

    def list_namespaces(self, namespace: Sequence[str]) -> Answer:
        """Return the namespaces below one: groups, and at the top the branches as well."""
        parent = Namespace.parse(namespace)
        if parent.group is not None:
            return []
        if parent.branch is not None:
            self._branch(parent)
            return [[*namespace, group] for group in Group]
        branches = self.reader.manifest.branch_names()
        return [[name] for name in (*Group, *map(branch_namespace, branches))]

    def list_tables(self, namespace: Sequence[str]) -> Answer:
        """Return the names of the tables in a namespace."""
        parsed = Namespace.parse(namespace)
        branch = self._branch(parsed)
        if parsed.group is None:
            return []
        if parsed.group is Group.SYSTEM:
            return list(METADATA_TABLES)
        keys = [e.type_key for e in self.reader.manifest.head(branch).entries.values()]
        return [key.name for key in keys if key.kind is parsed.group.kind]

    def describe_namespace(self, namespace: Sequence[str]) -> Answer:
        """Return what a namespace is; an unknown one is an error."""
        parsed = Namespace.parse(namespace)
        branch = self._branch(parsed)
        holds = f"{parsed.group} of" if parsed.group else "all of"
        return {"comment": f"{holds} branch {branch!r}", "location": self.reader.manifest.root}

    def load_table(
        self,
        namespace: Sequence[str] | None = None,
        table: str = "",
        version: str | None = None,
        timestamp_us: int | None = None,
        given: str | None = None,
    ) -> Answer:
        """Describe one table at one snapshot; without a name, the one that the options name.

        `given` is the schema that a user named for a frame, which must fit.
        """
        if namespace is None:
            loaded = self._load_named()
            if given is not None:
                own, wanted = (_schema(text) for text in (loaded["schema"], given))
                check_user_schema(wanted, own, loaded["type_key"] or "the table")
            return loaded
        parsed = Namespace.parse(namespace)
        branch = self._branch(parsed)
        ref = self.options.ref() if parsed.branch is None else Ref.branch(branch)
        if version is not None:
            ref = ref_of_version(version, branch)
        elif timestamp_us is not None:
            ref = TimestampRef(timestamp_us, branch)
        match parsed.group:
            case None:
                raise NamespaceNotFoundError(".".join(namespace), tuple(Group))
            case Group.SYSTEM if table.lower() not in METADATA_TABLES:
                raise TypeNotFoundError(table, tuple(METADATA_TABLES))
            case Group.SYSTEM:
                return self._load(ref, None, table.lower())
        return self._load(ref, f"{parsed.group.kind}:{table}", None)

    def reload_table(self, version: int | None, pinned: bool) -> Answer:
        """Describe the table that the options name once more, under options of one read.

        It is of that version of their branch; without one, of the snapshot that they name.
        """
        if version is None:
            return self._load_named()
        named = self._load(Ref.version(version, self.options.branch), *self.options.subject())
        return {**named, "pinned": pinned}

    def load_changes(
        self,
        namespace: Sequence[str],
        table: str,
        starting: str | int,
        ending: str | int | None,
        leave_out: Sequence[bool],
        are_times: bool,
    ) -> Answer:
        """Describe the changes of a type between two versions, or two times in microseconds.

        `leave_out` says of either end that its own commit is not asked for.
        """
        parsed = Namespace.parse(namespace)
        branch = self._branch(parsed)
        if parsed.group is None or parsed.group.kind is None:
            raise TypeNotFoundError(".".join((*namespace, table)), tuple(Group)[:2])
        ends = ChangeEnds(self.reader, branch, are_times)
        options = replace(
            self.options,
            type=f"{parsed.group.kind}:{table}",
            branch=branch,
            read_change_feed=True,
            starting_version=ends.first(starting, left_out=leave_out[0]),
            ending_version=None if ending is None else ends.last(ending, left_out=leave_out[1]),
        )
        return self._load_changes(options)

    def count_rows(self) -> Answer:
        """Return how many rows the type that the options name has, from the manifest."""
        type_name, _ = self.options.subject()
        return self.reader.resolve(self.options.ref()).entry(type_name or "").rows

    def look_up(self, scan: str) -> Answer:
        """Return the few rows that an index finds for the planner, as an Arrow stream, or None."""
        type_name, _ = self.options.subject()
        state = self.reader.resolve(self.options.ref())
        subject = TypeSubject.of(state, type_name or "", self.options)
        found = pushed_reader(subject, PushedScan.parse(scan)).look_up()
        return None if found is None else as_text(found)

    def describe_procedures(self, namespace: Sequence[str], name: str | None = None) -> Answer:
        """Describe the procedures of a namespace, or the one of that name."""
        parsed = Namespace.parse(namespace)
        self._branch(parsed)
        found = PROCEDURES if parsed.group is Group.SYSTEM else {}
        if name is not None and name not in found:
            raise ProcedureNotFoundError(".".join((*namespace, name)), tuple(found))
        return [found[each].describe() for each in (found if name is None else [name])]

    def call_procedure(
        self, namespace: Sequence[str], name: str, arguments: Mapping[str, Any]
    ) -> Answer:
        """Run a procedure on the branch of its namespace."""
        branch = self._branch(Namespace.parse(namespace))
        call = Call(self.reader, branch, self.actor, self.transaction)
        return PROCEDURES[name](call, arguments)

    def _load_named(self) -> dict[str, Any]:
        if self.options.is_feed:
            return self._load_changes(self.options)
        return self._load(self.options.ref(), *self.options.subject())

    def _load_changes(self, options: ReadOptions) -> dict[str, Any]:
        state = self.reader.resolve(Ref.branch(options.branch))
        if options.ending_version is None:
            # The plan may be executed later: which commits it reads is decided now.
            options = replace(options, ending_version=state.commit.id)
        return described_feed(state, FeedSubject.of(options), options)

    def _load(self, ref: AnyRef, type_name: str | None, table: str | None) -> dict[str, Any]:
        state = self.reader.resolve(ref)
        # A head moves on, so the plan decides which version is read; others were chosen.
        pinned = not isinstance(ref, BranchRef)
        if table is not None:
            return described_table(state, MetadataSubject.of(state, table), pinned)
        # As the options name it: one snapshot, whatever they say of another.
        options = replace(self.options, type=type_name)
        subject = TypeSubject.of(state, type_name or "", options)
        return described_type(state, subject, pinned, options.pushdown)

    def _branch(self, namespace: Namespace) -> str:
        if namespace.branch is None:
            return self.options.branch
        return resolve_branch(namespace.branch, self.reader.manifest.branch_names())


def _schema(text: str) -> StructType:
    parsed: StructType = StructType.fromJson(json.loads(text))
    return parsed
