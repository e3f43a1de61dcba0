"""Work that somebody else finished under an id of their own: the engine, for a writer that died.

Whoever repeats a piece of work finds it by the name in its commit's id. The engine draws an id of
its own for the commit that finishes a write of ours; what is left of the name is the operation that
its audit row records. That row alone proves nothing: to the engine a write that moved no dataset
went through once another one moved it. The datasets say whose their versions are.
"""

from __future__ import annotations

from omnigraph_spark.clock import random_half
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.formats.v4.recoveries import RecoveryKind, RecoveryRecord, read_recoveries
from omnigraph_spark.formats.v4.sidecar import OPERATION_PROPERTY
from omnigraph_spark.manifest import Manifest, ManifestState
from omnigraph_spark.names import MAIN
from omnigraph_spark.recovery.act import RECOVERY_ACTOR
from omnigraph_spark.storage.datasets import DatasetAddress
from omnigraph_spark.storage.transactions import read_origins


def find_finished(manifest: Manifest, state: ManifestState, commit_id: str) -> Commit | None:
    """Return the visible commit by which another process finished the work of a commit id.

    Only a branch on which something was recovered is asked for more than its commits.
    """
    if not state.lineage.mentions(RECOVERY_ACTOR):
        return None
    half = random_half(commit_id)
    for record in read_recoveries(manifest.root, manifest.settings):
        if record.kind is not RecoveryKind.ROLLED_FORWARD:
            continue
        commit = state.lineage.find(record.commit_id)
        if commit is None or random_half(record.operation_id) != half:
            continue
        if record.outcomes and _made_all(manifest, state, commit, record):
            return commit
    return None


def _made_all(
    manifest: Manifest, state: ManifestState, commit: Commit, record: RecoveryRecord
) -> bool:
    """Tell whether the operation itself made the versions that were finished in its place."""
    for made in record.outcomes:
        path = state.locations.get(made.type_key)
        if path is None:
            return False
        own = None if commit.branch == MAIN else commit.branch
        address = DatasetAddress(manifest.root, path, own)
        origins = read_origins(address, made.from_version, made.to_version, manifest.settings)
        if not any(o.properties.get(OPERATION_PROPERTY) == record.operation_id for o in origins):
            return False
    return True
