"""`GraphBuilder`: a second, plain writer of format 4, for graphs that tests make up.

It follows the format step by step with pylance alone and shares no code with the package except the
schema language, so it can play the other writer: it publishes while we read, forks and compacts. It
writes no sidecars and takes no locks. `tests/interop/test_builder_graphs.py` shows the released
engine reading and extending what it wrote.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from omnigraph_spark.schema.ir import ir_hash, ir_pretty
from omnigraph_spark.schema.model import EntityType, GraphSchema
from omnigraph_spark.schema.parser import parse_schema
from tests.helpers.rows import Rows, new_ulid, table_of, table_schema

MAIN = "main"
STAMP = "omnigraph:internal_schema_version"

MANIFEST_SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.utf8(), False, {"lance-schema:unenforced-primary-key": "true"}),
        pa.field("object_type", pa.utf8(), False),
        pa.field("location", pa.utf8()),
        pa.field("metadata", pa.utf8()),
        pa.field("base_objects", pa.list_(pa.field("item", pa.utf8()))),
        pa.field("table_key", pa.utf8(), False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.utf8()),
        pa.field("row_count", pa.uint64()),
    ]
)


@dataclass(frozen=True)
class Pin:
    """One dataset at one version: what a `table_version` row says."""

    type_key: str
    path: str
    version: int
    rows: int
    #: None is the main line of the dataset, as on disk.
    branch: str | None = None


@dataclass
class GraphBuilder:
    """A graph on local disk under construction.

    `append`, `merge`, `overwrite` and `delete` move datasets, which no reader sees; `publish` makes
    everything moved on a branch since the last one visible, in one commit.
    """

    root: Path
    schema: GraphSchema
    clock_us: Callable[[], int]
    #: Whether pins carry the tag of their Lance manifest, as the engine's do; a null is legal.
    e_tags: bool = True
    _pending: dict[str, dict[str, Pin]] = field(default_factory=dict)

    @classmethod
    def create(
        cls,
        root: Path,
        schema: str,
        *,
        stamp: str | None = "4",
        clock_us: Callable[[], int] | None = None,
        e_tags: bool = True,
    ) -> GraphBuilder:
        """Write an empty graph: schema files, one dataset per type, the manifest with its stamp."""
        graph = cls(root.absolute(), parse_schema(schema), clock_us or _rising_clock(), e_tags)
        root.mkdir(parents=True, exist_ok=True)
        state = {
            "format_version": 1,
            "schema_ir_hash": ir_hash(graph.schema),
            "schema_identity_version": 1,
        }
        (root / "_schema.pg").write_text(schema, encoding="utf-8")
        (root / "_schema.ir.json").write_text(ir_pretty(graph.schema), encoding="utf-8")
        (root / "__schema_state.json").write_text(json.dumps(state, indent=2), encoding="utf-8")
        pins = []
        for entity in graph.schema.types():
            pin = Pin(str(entity.type_key), _path_of(entity), version=1, rows=0)
            _create(graph._uri(pin.path), table_schema(entity).empty_table())
            pins.append(pin)
        rows = [_table_row(pin) for pin in pins] + [graph._version_row(pin) for pin in pins]
        rows += _lineage_rows(new_ulid(), None, None, graph.clock_us(), manifest_version=1)
        manifest = _create(graph._uri("__manifest"), _manifest_table(rows))
        manifest.update_config({"table_version_management": "true"})
        if stamp is not None:
            manifest.update_schema_metadata({STAMP: stamp})
        return graph

    @classmethod
    def open(cls, root: Path, *, clock_us: Callable[[], int] | None = None) -> GraphBuilder:
        """Write on in a graph that exists, whoever wrote it."""
        schema = (root / "_schema.pg").read_text(encoding="utf-8")
        return cls(root.absolute(), parse_schema(schema), clock_us or _rising_clock())

    # -- datasets ------------------------------------------------------------------------------

    def append(
        self,
        type_key: str,
        rows: Rows,
        *,
        branch: str = MAIN,
        max_rows_per_file: int = 1_048_576,
    ) -> Pin:
        """Add rows; a small `max_rows_per_file` makes many fragments."""
        pin = self._writable(type_key, branch)
        dataset = lance.write_dataset(
            table_of(self._entity(type_key), rows),
            self._uri(pin.path, pin.branch),
            mode="append",
            max_rows_per_file=max_rows_per_file,
            allow_external_blob_outside_bases=True,
        )
        return self._moved(pin, dataset, branch)

    def merge(self, type_key: str, rows: Rows, *, branch: str = MAIN) -> Pin:
        """Update rows of the same id, insert the others."""
        pin = self._writable(type_key, branch)
        dataset = self._dataset(pin)
        source = table_of(self._entity(type_key), rows)
        merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.conflict_retries(0).use_index(False).execute(source)
        return self._moved(pin, dataset, branch)

    def overwrite(self, type_key: str, rows: Rows, *, branch: str = MAIN) -> Pin:
        """Replace all rows."""
        pin = self._writable(type_key, branch)
        dataset = lance.write_dataset(
            table_of(self._entity(type_key), rows),
            self._uri(pin.path, pin.branch),
            mode="overwrite",
            enable_stable_row_ids=True,
            allow_external_blob_outside_bases=True,
        )
        return self._moved(pin, dataset, branch)

    def delete(self, type_key: str, predicate: str, *, branch: str = MAIN) -> Pin:
        """Delete the rows a Lance filter matches; edges of deleted nodes are the caller's."""
        pin = self._writable(type_key, branch)
        dataset = self._dataset(pin)
        dataset.delete(predicate)
        return self._moved(pin, dataset, branch)

    def compact(self, type_key: str, *, branch: str = MAIN) -> Pin:
        """Rewrite the fragments of a dataset into few."""
        pin = self._writable(type_key, branch)
        dataset = self._dataset(pin)
        dataset.optimize.compact_files()
        return self._moved(pin, dataset, branch)

    def create_index(self, type_key: str, column: str, *, branch: str = MAIN) -> Pin:
        """Build a BTREE on one column."""
        pin = self._writable(type_key, branch)
        dataset = self._dataset(pin)
        dataset.create_scalar_index(column, "BTREE")
        return self._moved(pin, dataset, branch)

    # -- the graph -----------------------------------------------------------------------------

    def write(
        self,
        rows: Mapping[str, Rows],
        *,
        branch: str = MAIN,
        actor: str | None = None,
        max_rows_per_file: int = 1_048_576,
    ) -> str:
        """Append to several types and publish: one commit, whose id is returned."""
        for type_key, of_type in rows.items():
            self.append(type_key, of_type, branch=branch, max_rows_per_file=max_rows_per_file)
        return self.publish(branch=branch, actor=actor)

    def publish(
        self,
        changes: Mapping[str, Pin] | None = None,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        merged_parent: str | None = None,
        tombstones: Iterable[str] = (),
    ) -> str:
        """Make changes visible with one write to the manifest, and return the commit's id.

        Without `changes`, everything moved on the branch since its last publish; nothing at all is
        a commit too. A lost race is Lance's `OSError`, and nothing is retried.
        """
        if changes is None:
            changes = self._pending.pop(branch, {})
        manifest = self.manifest(branch)
        stored = manifest.to_table().to_pylist()
        pins = fold(stored)
        commit_id = new_ulid()
        rows = [self._version_row(pin) for pin in changes.values()]
        rows += [_tombstone_row(key, pins[key].version + 1) for key in tombstones]
        rows += _lineage_rows(
            commit_id,
            head_of(stored),
            None if branch == MAIN else branch,
            self.clock_us(),
            manifest_version=manifest.version + 1,
            actor=actor,
            merged_parent=merged_parent,
        )
        merge = manifest.merge_insert("object_id")
        merge.when_matched_update_all().when_not_matched_insert_all()
        merge.conflict_retries(0).use_index(False).execute(_manifest_table(rows))
        return commit_id

    def create_branch(self, name: str, *, source: str = MAIN) -> None:
        """Create a branch at the head of another: a branch of the manifest and nothing else."""
        version = self.manifest(source).version
        base = lance.dataset(self._uri("__manifest"))
        base.create_branch(name, (None if source == MAIN else source, version))

    def compact_manifest(self, *, branch: str = MAIN) -> int:
        """Rewrite the manifest into one fragment, as `optimize` does; return its version."""
        manifest = self.manifest(branch)
        manifest.optimize.compact_files()
        return int(manifest.version)

    def manifest(self, branch: str = MAIN) -> lance.LanceDataset:
        """The manifest of a branch as it is now."""
        return lance.dataset(self._uri("__manifest", None if branch == MAIN else branch))

    def entries(self, branch: str = MAIN) -> dict[str, Pin]:
        """What a branch pins now, by type key."""
        return fold(self.manifest(branch).to_table().to_pylist())

    # -- inside --------------------------------------------------------------------------------

    def _entity(self, type_key: str) -> EntityType:
        return next(e for e in self.schema.types() if str(e.type_key) == type_key)

    def _uri(self, path: str, branch: str | None = None) -> str:
        return f"{self.root}/{path}" + (f"/tree/{branch}" if branch else "")

    def _dataset(self, pin: Pin) -> lance.LanceDataset:
        return lance.dataset(self._uri(pin.path, pin.branch))

    def _writable(self, type_key: str, branch: str) -> Pin:
        """The dataset a branch writes to; the first write there forks it from where it reads."""
        pin = self._pending.get(branch, {}).get(type_key) or self.entries(branch)[type_key]
        own = None if branch == MAIN else branch
        if pin.branch == own:
            return pin
        lance.dataset(self._uri(pin.path)).create_branch(branch, (pin.branch, pin.version))
        return Pin(type_key, pin.path, pin.version, pin.rows, own)

    def _moved(self, pin: Pin, dataset: lance.LanceDataset, branch: str) -> Pin:
        moved = Pin(pin.type_key, pin.path, dataset.version, dataset.count_rows(), pin.branch)
        self._pending.setdefault(branch, {})[pin.type_key] = moved
        return moved

    def _version_row(self, pin: Pin) -> dict[str, Any]:
        file = f"_versions/{(1 << 64) - 1 - pin.version:020d}.manifest"
        path = Path(self._uri(pin.path, pin.branch)) / file
        stat = path.stat()
        e_tag = f"{stat.st_ino:x}-{stat.st_mtime_ns // 1_000:x}-{stat.st_size:x}"
        metadata = {
            "manifest_path": str(path).lstrip("/"),
            "manifest_size": stat.st_size,
            "e_tag": e_tag if self.e_tags else None,
            "naming_scheme": "V2",
        }
        return {
            "object_id": f"{pin.type_key}${pin.version:020d}",
            "object_type": "table_version",
            "metadata": _compact(metadata),
            "table_key": pin.type_key,
            "table_version": pin.version,
            "table_branch": pin.branch,
            "row_count": pin.rows,
        }


def fold(rows: Iterable[Mapping[str, Any]]) -> dict[str, Pin]:
    """Reduce manifest rows to pins, in the plainest way: sort, overwrite, drop what is buried."""
    by_version = sorted(rows, key=lambda row: row["table_version"] or 0)
    paths = {r["table_key"]: r["location"] for r in by_version if r["object_type"] == "table"}
    pins: dict[str, Pin] = {}
    buried: dict[str, int] = {}
    for row in by_version:
        key, version = row["table_key"], row["table_version"]
        if row["object_type"] == "table_version":
            pins[key] = Pin(key, paths[key], version, row["row_count"], row["table_branch"])
        elif row["object_type"] == "table_tombstone":
            buried[key] = version
    return {key: pins[key] for key in sorted(pins) if buried.get(key, -1) < pins[key].version}


def head_of(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """The head commit among manifest rows."""
    commits = [row for row in rows if row["object_type"] == "graph_commit"]
    head = max(commits, key=_commit_order, default=None)
    return None if head is None else head["object_id"]


def _commit_order(row: Mapping[str, Any]) -> tuple[int, int, str]:
    return row["table_version"], json.loads(row["metadata"])["created_at"], row["object_id"]


def _path_of(entity: EntityType) -> str:
    """`nodes/` or `edges/` and the FNV-1a hash of the type's name."""
    value = 0xCBF29CE484222325
    for byte in entity.name.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{entity.type_key.kind}s/{value:016x}"


def _create(uri: str, table: pa.Table) -> lance.LanceDataset:
    return lance.write_dataset(
        table,
        uri,
        mode="create",
        data_storage_version="2.2",
        enable_stable_row_ids=True,
        allow_external_blob_outside_bases=True,
    )


def _manifest_table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=MANIFEST_SCHEMA)


def _table_row(pin: Pin) -> dict[str, Any]:
    return {
        "object_id": pin.type_key,
        "object_type": "table",
        "location": pin.path,
        "table_key": pin.type_key,
    }


def _tombstone_row(type_key: str, version: int) -> dict[str, Any]:
    return {
        "object_id": f"{type_key}$tombstone${version:020d}",
        "object_type": "table_tombstone",
        "table_key": type_key,
        "table_version": version,
    }


def _lineage_rows(
    commit_id: str,
    parent: str | None,
    branch: str | None,
    created_at_us: int,
    *,
    manifest_version: int,
    actor: str | None = None,
    merged_parent: str | None = None,
) -> list[dict[str, Any]]:
    commit = {
        "parent_commit_id": parent,
        "merged_parent_commit_id": merged_parent,
        "actor_id": actor,
        "created_at": created_at_us,
    }
    head = {"head_commit_id": commit_id, "parent_commit_id": parent}
    return [
        {
            "object_id": commit_id,
            "object_type": "graph_commit",
            "metadata": _compact(_present(commit)),
            "table_key": "",
            "table_version": manifest_version,
            "table_branch": branch,
        },
        {
            "object_id": f"graph_head:{branch or MAIN}",
            "object_type": "graph_head",
            "metadata": _compact(_present(head)),
            "table_key": "",
        },
    ]


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _compact(values: dict[str, Any]) -> str:
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False)


def _rising_clock() -> Callable[[], int]:
    """The time in microseconds, never the same twice, so commits have one order."""
    last = 0

    def now_us() -> int:
        nonlocal last
        last = max(last + 1, time.time_ns() // 1_000)
        return last

    return now_us
