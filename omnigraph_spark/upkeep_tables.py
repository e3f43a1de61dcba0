"""Tables about the state a graph is in: unfinished writes, what recovery did, what to look after.

They are about the graph as it is now, whatever snapshot they are asked of.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_spark.errors import DamagedGraphError, UnsupportedError
from omnigraph_spark.formats.v4.recoveries import read_recoveries
from omnigraph_spark.formats.v4.sidecar import Sidecar, list_sidecars, read_sidecar
from omnigraph_spark.health import find_problems
from omnigraph_spark.manifest import Manifest
from omnigraph_spark.recovery.classify import classify
from omnigraph_spark.recovery.observe import observe
from omnigraph_spark.snapshot import SnapshotState
from omnigraph_spark.storage.objects import objects_at
from omnigraph_spark.table_shape import TEXT, TEXTS, TIMESTAMP, Row, declare_table


def _recoveries(state: SnapshotState) -> Iterator[Row]:
    for record in read_recoveries(state.root, state.settings):
        outcomes = [f"{o.type_key} {o.from_version} -> {o.to_version}" for o in record.outcomes]
        yield (
            record.operation_id,
            str(record.kind),
            record.commit_id,
            record.writer,
            record.for_actor,
            outcomes,
            record.created_at_us,
        )


def _sidecars(state: SnapshotState) -> Iterator[Row]:
    manifest = Manifest(state.root, state.settings)
    store = objects_at(state.root, state.settings)
    for operation_id in list_sidecars(state.root, store):
        try:
            sidecar = read_sidecar(state.root, store, operation_id)
        except (DamagedGraphError, UnsupportedError) as error:
            yield operation_id, None, None, None, None, [], None, error.describe()
            continue
        if sidecar is not None:
            yield _sidecar(manifest, sidecar)


def _sidecar(manifest: Manifest, sidecar: Sidecar) -> Row:
    verdict = classify(sidecar, observe(manifest, sidecar).facts)
    return (
        sidecar.operation_id,
        str(sidecar.writer),
        sidecar.branch,
        sidecar.actor,
        sidecar.started_at_us,
        [pin.type_key for pin in sidecar.pins],
        str(verdict.decision),
        verdict.reason or None,
    )


def _health(state: SnapshotState) -> Iterator[Row]:
    manifest = Manifest(state.root, state.settings)
    for found in find_problems(manifest, state.branch, state.schema):
        yield str(found.kind), found.type_key, found.detail, found.remedy


UPKEEP_TABLES = (
    declare_table(
        "recoveries",
        "unfinished write that was recovered, oldest first",
        _recoveries,
        {
            "operation_id": TEXT,
            "kind": TEXT,
            "commit_id": TEXT,
            "writer": TEXT,
            "actor": TEXT,
            "outcomes": TEXTS,
            "created_at": TIMESTAMP,
        },
    ),
    declare_table(
        "sidecars",
        "unfinished write, with what recovering it would do",
        _sidecars,
        {
            "operation_id": TEXT,
            "writer": TEXT,
            "branch": TEXT,
            "actor": TEXT,
            "started_at": TIMESTAMP,
            "types": TEXTS,
            "decision": TEXT,
            "problem": TEXT,
        },
    ),
    declare_table(
        "health",
        "thing that is not as it should be",
        _health,
        {"kind": TEXT, "type_key": TEXT, "detail": TEXT, "remedy": TEXT},
    ),
)
