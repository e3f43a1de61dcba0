"""`df.write.format("omnigraph")` with the jar: tests of `tests/spark` in a session that has it."""

from __future__ import annotations

from tests.spark.test_write import (
    graph,
    test_a_branch_is_made_by_the_write_that_needs_it,
    test_a_refused_write_has_its_code_and_leaves_the_graph_as_it_was,
    test_an_empty_frame_is_no_commit_but_an_overwrite,
    test_every_mode_does_what_it_says_in_one_commit,
)

#: What pytest takes from there.
__all__ = [
    "graph",
    "test_a_branch_is_made_by_the_write_that_needs_it",
    "test_a_refused_write_has_its_code_and_leaves_the_graph_as_it_was",
    "test_an_empty_frame_is_no_commit_but_an_overwrite",
    "test_every_mode_does_what_it_says_in_one_commit",
]
