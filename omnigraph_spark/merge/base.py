"""The merge base of two heads: the commit that both sides are compared with. Pure functions.

Commits of a third branch that was merged are named as parents but lie in neither branch's manifest,
so history ends there, as it does for the engine. Rows that came to both sides that way are equal on
both, and equal changes are no conflict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from omnigraph_spark.formats.profile import Commit


def merge_base(source: Commit, target: Commit, commits: Iterable[Commit]) -> Commit | None:
    """Return the common ancestor nearest to both heads, None when they share no history.

    `commits` are those visible on either branch. Nearest is the least sum of steps over both kinds
    of parents; of several, the one with the largest manifest version (then id, so that the answer
    never depends on an order).
    """
    by_id = {commit.id: commit for commit in commits}
    from_source, from_target = distances(source, by_id), distances(target, by_id)
    common = from_source.keys() & from_target.keys()
    return min(
        (by_id[id_] for id_ in common),
        key=lambda commit: (
            from_source[commit.id] + from_target[commit.id],
            -commit.manifest_version,
            commit.id,
        ),
        default=None,
    )


def distances(head: Commit, by_id: Mapping[str, Commit]) -> dict[str, int]:
    """Return how many steps away every known ancestor of a head is, the head itself included."""
    found = {head.id: 0} if head.id in by_id else {}
    waiting = deque(found)
    while waiting:
        commit = by_id[waiting.popleft()]
        for parent in (commit.parent_id, commit.merged_parent_id):
            if parent is not None and parent in by_id and parent not in found:
                found[parent] = found[commit.id] + 1
                waiting.append(parent)
    return found
