"""The text of a v4 `graph_commit` row."""

from __future__ import annotations

import json

from omnigraph_spark.formats.profile import Commit, CommitRow, graph_branch
from omnigraph_spark.names import timestamp_text


def decode_commit(row: CommitRow) -> Commit:
    """Read parents, actor and time; absent keys mean none, `created_at` is always there."""
    try:
        detail = json.loads(row.detail)
        created_at_us = int(detail["created_at"])
        timestamp_text(created_at_us)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"the metadata of commit {row.id!r} has no valid created_at") from error
    return Commit(
        id=row.id,
        branch=graph_branch(row.branch),
        manifest_version=row.manifest_version,
        parent_id=detail.get("parent_commit_id"),
        merged_parent_id=detail.get("merged_parent_commit_id"),
        actor=detail.get("actor_id"),
        created_at_us=created_at_us,
    )
