"""Ids and time: which half of an id names a piece of work."""

from __future__ import annotations

import pytest

from omnigraph_spark import clock
from omnigraph_spark.clock import derived_ulid, new_ulid, random_half, ulid_again


def test_an_id_made_again_names_the_same_work_at_another_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = new_ulid()
    monkeypatch.setattr(clock, "now_us", lambda: 1_900_000_000_000_000)
    again = ulid_again(first)
    assert again != first
    assert random_half(again) == random_half(first)
    assert again > first


def test_pairs_name_different_pieces_of_work() -> None:
    halves = {random_half(derived_ulid(*pair)) for pair in (("a", "bc"), ("ab", "c"), ("a", "b"))}
    assert len(halves) == 3
    assert random_half(derived_ulid("a", "bc")) in halves


@pytest.mark.parametrize("text", ["", "not an id", "01M7H9P6G1N83EBCHDSPHR9Q6"])
def test_what_is_no_id_cannot_be_made_again(text: str) -> None:
    with pytest.raises(ValueError, match="exactly 26 characters"):
        ulid_again(text)
