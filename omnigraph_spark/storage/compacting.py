"""Fragments put together: which, by tasks that run anywhere, as one `RewriteChange` of a version.

Lance's own compaction first reserves numbers for the new fragments in a version of its own, and
commits without a fence. Here a strict commit lands on the very version that was planned on, so the
numbers that follow its highest are free, and one version is enough. Rows keep their ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph_spark.failpoints import FRAGMENTS_REWRITTEN
from omnigraph_spark.storage.datasets import DatasetAddress, open_handle
from omnigraph_spark.storage.protobuf import fields_of, number_of
from omnigraph_spark.storage.settings import StorageSettings
from omnigraph_spark.storage.staging import StagedFile, staged_file
from omnigraph_spark.storage.translate import lance_errors

if TYPE_CHECKING:
    from lance import LanceDataset, LanceOperation
    from lance.fragment import FragmentMetadata

#: A fragment with this share of deleted rows is written anew even when it is large; Lance's own.
DELETED_SHARE = 0.1
# Lance's protobuf: Manifest.max_fragment_id.
_HIGHEST_FRAGMENT = 11
_OLD, _NEW = "original_fragments", "new_fragments"


@dataclass(frozen=True)
class RewriteFragments:
    """The task of writing a few fragments as fewer; its answer is a portion of the change."""

    address: DatasetAddress
    version: int
    settings: StorageSettings
    #: The JSON of Lance's own task.
    task: str

    def __call__(self) -> str:
        """Write the new files."""
        from lance.optimize import CompactionTask

        with lance_errors(self.address.uri):
            handle = open_handle(self.address, self.version, self.settings)
            done = json.loads(CompactionTask.from_json(self.task).execute(handle).json())
        FRAGMENTS_REWRITTEN.reached()
        # What else Lance says of it can be as long as the rows.
        return json.dumps({_OLD: done[_OLD], _NEW: done[_NEW]}, separators=(",", ":"))


def plan_compaction(
    address: DatasetAddress,
    version: int,
    settings: StorageSettings,
    rows_per_fragment: int,
    bytes_per_file: int,
) -> list[RewriteFragments]:
    """Return the tasks that put small fragments together and leave deleted rows behind."""
    from lance.optimize import Compaction

    with lance_errors(address.uri):
        handle = open_handle(address, version, settings)
        plan = Compaction.plan(
            handle,
            {
                "target_rows_per_fragment": rows_per_fragment,
                "max_bytes_per_file": bytes_per_file,
                "materialize_deletions_threshold": DELETED_SHARE,
            },
        )
        return [RewriteFragments(address, version, settings, task.json()) for task in plan.tasks]


def rewritten_counts(portions: Sequence[str]) -> tuple[int, int]:
    """Return how many fragments go and how many come."""
    described = [json.loads(text) for text in portions]
    return sum(len(each[_OLD]) for each in described), sum(len(each[_NEW]) for each in described)


def old_fragments(portion: str) -> list[int]:
    """Return the numbers of the fragments that go."""
    return [int(fragment["id"]) for fragment in json.loads(portion)[_OLD]]


def rewritten_files(portions: Sequence[str]) -> Iterator[str]:
    """Yield the new files, as paths below the dataset's folder of data."""
    for text in portions:
        for fragment in json.loads(text)[_NEW]:
            yield from (file["path"] for file in fragment["files"])


def staged_files(portions: Sequence[str]) -> tuple[StagedFile, ...]:
    """Return the new files, to be read before anything names them."""
    return tuple(
        staged_file(fragment)
        for text in portions
        for fragment in _fragments(json.loads(text)[_NEW])
    )


def rewrite_groups(
    portions: Sequence[str], dataset: LanceDataset
) -> list[LanceOperation.RewriteGroup]:
    """Return portions as Lance commits them to exactly this version, with new fragments numbered.

    Numbered here and not by the commit: indexes learn from it which fragments they cover. A number
    that any fragment had, also one that is gone, would make them answer for rows they never saw.
    """
    from lance import LanceOperation

    number, groups = _highest_fragment(dataset), []
    for text in portions:
        described = json.loads(text)
        for fragment in described[_NEW]:
            number += 1
            fragment["id"] = number
        old, new = _fragments(described[_OLD]), _fragments(described[_NEW])
        groups.append(LanceOperation.RewriteGroup(old, new))
    return groups


def _highest_fragment(dataset: LanceDataset) -> int:
    known = [int(fragment.fragment_id) for fragment in dataset.get_fragments()]
    for number, _, raw in fields_of(dataset._ds.serialized_manifest()):
        if number == _HIGHEST_FRAGMENT:
            known.append(number_of(raw))
    return max(known)


def _fragments(described: list[dict[str, Any]]) -> list[FragmentMetadata]:
    from lance.fragment import FragmentMetadata

    return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in described]
