"""How busy stores are asked again: pauses that grow, differ and end."""

from __future__ import annotations

from omnigraph_spark.storage.s3_patience import tries


def paused(count: int) -> list[float]:
    pauses: list[float] = []
    assert list(tries(count, pauses.append)) == list(reversed(range(count)))
    return pauses


def test_every_try_but_the_first_comes_after_a_pause_and_all_end_within_seconds() -> None:
    pauses = paused(5)
    assert len(pauses) == 4
    assert 0.1 <= pauses[0] <= 0.2
    assert 2 * pauses[0] < sum(pauses) < 5.0
    assert max(paused(20)) <= 2.0


def test_no_two_who_wait_move_in_step() -> None:
    assert paused(5) != paused(5)
