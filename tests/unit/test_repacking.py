"""Which tiny files are packed together: arithmetic, from sizes alone."""

from __future__ import annotations

from omnigraph_spark.storage.staging import StagedFile
from omnigraph_spark.writing.repacking import plan_packs
from omnigraph_spark.writing.stage import StageLimits

LIMITS = StageLimits(max_rows_per_file=1600, max_bytes_per_file=16_000)


def files(*sizes: tuple[int, int]) -> list[StagedFile]:
    return [StagedFile(f"f{n}", "", rows, size) for n, (rows, size) in enumerate(sizes)]


def names(packs: list[tuple[StagedFile, ...]]) -> list[list[str]]:
    return [[file.path for file in pack] for pack in packs]


def test_many_tiny_files_become_one() -> None:
    packs = plan_packs(files(*[(50, 100)] * 20), LIMITS)
    assert [len(pack) for pack in packs] == [20]


def test_a_few_files_are_left_alone() -> None:
    assert plan_packs(files(*[(50, 100)] * 4), LIMITS) == []


def test_files_of_a_good_size_are_left_alone() -> None:
    sizes = [(50, 100)] * 6
    sizes.insert(2, (100, 100))
    sizes.insert(3, (10, 1000))
    assert names(plan_packs(files(*sizes), LIMITS)) == [["f0", "f1", "f4", "f5", "f6", "f7"]]


def test_no_pack_is_above_the_limits() -> None:
    packs = plan_packs(files(*[(90, 900)] * 50), LIMITS)
    assert all(sum(file.rows for file in pack) <= 1600 for pack in packs)
    assert all(sum(file.size_bytes for file in pack) <= 16_000 for pack in packs)
    assert sum(map(len, packs)) >= 49


def test_nothing_is_packed_of_nothing() -> None:
    assert plan_packs([], LIMITS) == []
