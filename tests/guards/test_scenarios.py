"""Every scenario of failure has tests that bear its number: the map from one to the other.

A scenario is what may happen to a graph while somebody works with it: `RS-22`, say, a write skew. A
defect of the engine is something that happens there and must not happen here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

#: The tests of every scenario: file below this folder, then the name without `test_`.
SCENARIOS: dict[str, dict[str, list[str]]] = {
    "RS-01": {
        "spark/test_write_faults.py": [
            "a_task_that_fails_and_is_tried_again_leaves_one_copy",
        ],
    },
    "RS-02": {
        "spark/test_cluster.py": [
            "a_speculative_duplicate_adds_no_row",
        ],
        "spark/test_write_faults.py": [
            "the_files_of_an_attempt_that_does_not_count_are_deleted",
        ],
    },
    "RS-03": {
        "spark/test_cluster.py": [
            "an_executor_killed_while_it_stages_costs_no_row_and_adds_none",
        ],
    },
    "RS-04": {
        "spark/test_write_faults.py": [
            "a_job_that_fails_leaves_the_graph_as_it_was",
            "a_cancelled_job_leaves_the_graph_as_it_was",
        ],
    },
    "RS-05": {
        "engine/test_transactions.py": [
            "no_rows_are_no_commit",
            "an_overwrite_without_rows_empties_the_type",
        ],
        "spark/test_write.py": [
            "an_empty_frame_is_no_commit_but_an_overwrite",
        ],
    },
    "RS-06": {
        "engine/test_transactions.py": [
            "the_same_id_twice_is_refused_in_one_input_and_across_inputs",
        ],
        "spark/test_write.py": [
            "the_same_id_in_two_partitions_is_refused",
        ],
    },
    "RS-07": {
        "engine/test_transactions.py": [
            "a_row_that_breaks_a_rule_by_itself_is_refused",
        ],
        "spark/test_write.py": [
            "a_refused_write_has_its_code_and_leaves_the_graph_as_it_was",
        ],
    },
    "RS-08": {
        "engine/test_transactions.py": [
            "a_broken_rule_leaves_nothing_of_any_type_and_the_next_write_works",
        ],
        "spark/test_transactions.py": [
            "a_broken_rule_of_one_type_stops_all",
        ],
        "spark/test_write.py": [
            "a_refused_write_has_its_code_and_leaves_the_graph_as_it_was",
        ],
    },
    "RS-10": {
        "engine/test_on_object_stores.py": [
            "a_writer_that_dies_leaves_all_or_nothing",
        ],
        "faults/test_cuts.py": [
            "a_work_that_dies_is_finished_or_undone",
        ],
        "faults/test_s3_faults.py": [
            "a_sidecar_whose_acknowledgement_is_lost_does_no_harm",
        ],
    },
    "RS-11": {
        "engine/test_on_object_stores.py": [
            "a_writer_that_dies_leaves_all_or_nothing",
        ],
        "faults/test_cuts.py": [
            "a_work_that_dies_is_finished_or_undone",
        ],
        "spark/test_on_object_stores.py": [
            "a_driver_that_dies_leaves_all_or_nothing",
        ],
    },
    "RS-12": {
        "engine/test_branch_writes.py": [
            "an_orphan_that_moved_is_made_anew",
            "a_fork_left_half_made_is_made_whole",
            "a_fork_of_an_empty_type_that_is_taken_over_keeps_stable_row_ids",
        ],
        "engine/test_on_object_stores.py": [
            "a_writer_that_dies_leaves_all_or_nothing",
            "a_fork_without_a_write_is_used_by_the_next_writer",
        ],
        "faults/test_s3_doubts.py": [
            "half_a_fork_of_a_dead_writer_is_made_whole_by_the_next_one",
        ],
        "faults/test_cuts.py": [
            "a_work_that_dies_is_finished_or_undone",
        ],
    },
    "RS-13": {
        "engine/test_on_object_stores.py": [
            "a_writer_that_dies_leaves_all_or_nothing",
        ],
        "faults/test_cuts.py": [
            "a_work_that_dies_is_finished_or_undone",
        ],
        "faults/test_s3_faults.py": [
            "keys_that_expire_between_two_datasets_leave_work_for_recovery",
        ],
    },
    "RS-14": {
        "engine/test_effect_window.py": [
            "a_manifest_that_cannot_be_read_for_a_moment_leaves_the_moved_rows_to_recovery",
        ],
        "engine/test_on_object_stores.py": [
            "a_writer_that_dies_leaves_all_or_nothing",
        ],
        "engine/test_recovery.py": [
            "what_can_be_finished_is_finished_by_the_next_write",
        ],
        "faults/test_cuts.py": [
            "a_work_that_dies_is_finished_or_undone",
        ],
        "spark/test_on_object_stores.py": [
            "a_driver_that_dies_leaves_all_or_nothing",
        ],
    },
    "RS-15": {
        "engine/test_merge_crashes.py": [
            "a_merge_that_dies_is_undone_before_it_is_confirmed_and_finished_after",
        ],
        "engine/test_on_object_stores.py": [
            "a_writer_that_dies_leaves_all_or_nothing",
        ],
    },
    "RS-16": {
        "engine/test_on_object_stores.py": [
            "a_repeated_piece_of_work_is_done_once",
            "a_writer_that_dies_leaves_all_or_nothing",
        ],
        "engine/test_write_terms.py": [
            "work_whose_answer_was_lost_is_found_again",
            "a_publish_whose_answer_was_lost_is_looked_for",
        ],
        "faults/test_histories.py": [
            "every_law_holds_after_every_step",
        ],
        "faults/test_s3_faults.py": [
            "a_version_whose_acknowledgement_is_lost_is_made_once",
        ],
    },
    "RS-17": {
        "engine/test_on_object_stores.py": [
            "a_writer_that_dies_leaves_all_or_nothing",
        ],
        "engine/test_recovery_of_writers.py": [
            "a_sidecar_that_cannot_be_deleted_is_a_warning_and_healed_later",
        ],
        "faults/test_cuts.py": [
            "a_work_that_dies_is_finished_or_undone",
        ],
        "faults/test_s3_faults.py": [
            "a_sidecar_that_stays_behind_is_removed_by_the_next_write",
        ],
    },
    "RS-18": {
        "engine/test_on_object_stores.py": [
            "a_recovery_that_dies_is_recovered_and_dies_again",
        ],
        "faults/test_cuts.py": [
            "a_work_that_dies_is_finished_or_undone",
            "a_recovery_that_dies_twice_converges",
        ],
        "faults/test_s3_cuts.py": [
            "a_recovery_that_dies_after_any_change_is_carried_on_by_the_next",
        ],
    },
    "RS-19": {
        "engine/test_on_object_stores.py": [
            "a_writer_that_dies_leaves_all_or_nothing",
            "other_works_that_die_halfway_leave_all_or_nothing",
        ],
        "faults/test_cuts.py": [
            "a_work_that_dies_is_finished_or_undone",
            "the_engine_ends_where_we_end",
        ],
        "faults/test_s3_cuts.py": [
            "a_writer_that_dies_after_any_change_leaves_all_or_nothing",
        ],
    },
    "RS-20": {
        "engine/test_write_terms.py": [
            "additions_land_on_top_of_what_came_meanwhile_without_writing_rows_again",
            "what_no_longer_holds_is_never_published",
        ],
    },
    "RS-21": {
        "engine/test_write_terms.py": [
            "overwrites_and_deletes_fail_even_when_the_other_touched_another_table",
        ],
    },
    "RS-22": {
        "engine/test_concurrent_writers.py": [
            "an_edge_never_outlives_its_node",
        ],
        "engine/test_effect_window.py": [
            "an_edge_to_a_node_that_is_deleted_meanwhile_never_becomes_visible",
            "a_node_that_gets_an_edge_meanwhile_is_not_deleted_from_under_it",
        ],
    },
    "RS-23": {
        "engine/test_concurrent_writers.py": [
            "of_sixteen_that_insert_the_same_key_one_wins",
            "sixteen_that_insert_keys_of_their_own_all_succeed",
            "sixteen_writers_of_an_object_store_keep_the_same_laws",
        ],
    },
    "RS-24": {
        "engine/test_effect_window.py": [
            "a_key_that_is_taken_after_the_first_table_landed_takes_all_of_it_back",
        ],
    },
    "RS-25": {
        "engine/test_effect_window.py": [
            "rows_that_another_published_meanwhile_stay_beside_ours",
            "a_commit_that_nobody_published_is_not_written_over",
            "a_commit_on_top_of_ours_survives_and_stops_the_next_writer",
        ],
    },
    "RS-26": {
        "engine/test_concurrent_writers.py": [
            "sixteen_that_insert_keys_of_their_own_all_succeed",
            "sixteen_writers_of_an_object_store_keep_the_same_laws",
        ],
        "engine/test_on_object_stores.py": [
            "of_two_overwrites_planned_on_one_commit_one_wins",
        ],
        "spark/test_write_faults.py": [
            "two_drivers_publish_to_one_branch",
        ],
    },
    "RS-27": {
        "interop/test_beside_a_live_engine.py": [
            "neither_loses_what_it_was_told_is_there",
        ],
        "faults/test_histories.py": [
            "every_law_holds_when_the_engine_takes_turns",
        ],
    },
    "RS-28": {
        "engine/test_recovery_of_writers.py": [
            "one_that_was_taken_for_dead_undoes_the_rest_of_itself",
        ],
        "interop/test_recovery_against_the_engine.py": [
            "an_engine_that_opens_the_graph_under_a_live_writer_makes_no_third_state",
        ],
    },
    "RS-29": {
        "engine/test_publish.py": [
            "contention_is_retried_five_times",
            "contention_beyond_the_budget_is_a_conflict",
        ],
        "engine/test_write_terms.py": [
            "five_times_a_write_looks_again_and_then_it_gives_up",
        ],
    },
    "RS-30": {
        "engine/test_indexes.py": [
            "random_writes_and_builds_never_make_an_index_lie",
        ],
        "engine/test_optimize.py": [
            "a_write_that_comes_between_wins_and_keeps_its_rows",
            "a_commit_that_takes_the_version_first_is_never_lost",
        ],
    },
    "RS-31": {
        "engine/test_refused_writes.py": [
            "nothing_is_written_while_a_schema_change_holds_its_lock",
        ],
        "interop/test_alternating_with_the_engine.py": [
            "a_schema_change_that_is_under_way_stops_our_writes",
        ],
    },
    "RS-40": {
        "engine/test_branch_operations.py": [
            "a_branch_that_begins_on_one_that_is_being_deleted_is_whole_or_refused",
        ],
        "engine/test_branch_writes.py": [
            "a_branch_that_was_deleted_and_made_again_is_not_written",
            "a_branch_that_was_made_again_at_the_same_place_is_another_one",
        ],
        "engine/test_changes.py": [
            "a_commit_of_a_branch_that_was_made_again_is_no_beginning",
        ],
        "engine/test_diff.py": [
            "a_commit_of_a_branch_that_was_made_again_is_refused",
        ],
        "engine/test_merge_branches.py": [
            "a_branch_that_is_deleted_and_made_again_is_another_one",
            "a_branch_that_is_deleted_meanwhile_fails_the_merge",
        ],
    },
    "RS-41": {
        "engine/test_concurrent_writers.py": [
            "the_first_writers_of_a_branch_make_one_branch_and_one_fork",
            "sixteen_writers_of_an_object_store_keep_the_same_laws",
        ],
        "engine/test_on_object_stores.py": [
            "two_first_writers_of_a_branch_share_its_fork",
        ],
        "faults/test_s3_doubts.py": [
            "a_fork_that_is_published_while_it_is_looked_at_is_not_taken_for_debris",
        ],
    },
    "RS-42": {
        "engine/test_merge_crashes.py": [
            "a_merge_that_dies_is_undone_before_it_is_confirmed_and_finished_after",
            "a_merge_that_also_takes_datasets_over_is_undone_until_it_is_visible",
        ],
    },
    "RS-43": {
        "engine/test_merge_branches.py": [
            "a_target_that_moves_on_fails_the_merge_before_any_effect",
            "a_source_that_moves_on_is_merged_as_it_was",
        ],
        "engine/test_merge_crashes.py": [
            "a_merge_that_another_writer_overtakes_in_its_effect_window_undoes_itself",
        ],
    },
    "RS-44": {
        "engine/test_merge_branches.py": [
            "a_type_that_changed_and_changed_back_is_left_out",
            "a_merge_of_nothing_but_such_types_is_a_commit_without_changes",
        ],
    },
    "RS-45": {
        "engine/test_merge_truth_table.py": [
            "every_cell_ends_as_the_table_says",
        ],
        "interop/test_merging_against_the_engine.py": [
            "a_recorded_merge_ends_as_the_engines_did",
            "every_cell_of_the_truth_table_ends_as_with_the_engine",
        ],
    },
    "RS-46": {
        "engine/test_merge_branches.py": [
            "a_merged_branch_merges_again_as_up_to_date_and_finds_its_commit",
            "branches_merge_back_and_forth",
        ],
        "engine/test_merge_crashes.py": [
            "a_merge_that_dies_is_undone_before_it_is_confirmed_and_finished_after",
        ],
    },
    "RS-47": {
        "engine/test_changes.py": [
            "the_feed_of_a_whole_graph_begins_with_nothing",
            "a_feed_ends_at_a_schema_change",
            "a_feed_over_reclaimed_versions_is_refused",
        ],
    },
    "RS-50": {
        "engine/test_merge_crashes.py": [
            "what_is_recovered_while_a_merge_is_worked_out_makes_it_fail_before_effects",
        ],
        "engine/test_optimize.py": [
            "it_waits_for_no_schema_change_and_no_foreign_unfinished_write",
        ],
        "engine/test_recovery.py": [
            "what_the_engine_must_undo_is_not_undone_by_a_write",
        ],
    },
    "RS-51": {
        "engine/test_recovery.py": [
            "a_sidecar_that_cannot_be_read_stops_writers_and_not_readers",
        ],
    },
    "RS-52": {
        "engine/test_recovery_of_writers.py": [
            "a_sidecar_that_goes_while_it_is_read_was_finished",
        ],
    },
    "RS-53": {
        "engine/test_recovery_of_writers.py": [
            "sidecars_that_cannot_be_listed_stop_writers_loudly",
        ],
    },
    "RS-54": {
        "engine/test_upkeep.py": [
            "rows_written_past_the_graph_are_published_only_when_forced",
        ],
        "engine/test_write_terms.py": [
            "a_dataset_ahead_of_its_pin_is_not_written_and_others_are",
        ],
    },
    "RS-55": {
        "engine/test_create.py": [
            "a_part_of_a_graph_is_refused_and_left_alone",
        ],
        "engine/test_damage.py": [
            "a_missing_schema_file_is_named",
            "an_unfinished_creation_without_a_stamp_is_refused",
        ],
    },
    "RS-56": {
        "engine/test_damage.py": [
            "only_stamp_4_is_read_and_each_other_says_what_to_do",
            "a_branch_has_a_stamp_of_its_own",
        ],
    },
    "RS-60": {
        "engine/test_reclaimed.py": [
            "a_task_that_comes_late_or_again_is_told_that_its_version_is_gone",
            "a_scan_that_is_under_way_is_whole_or_told",
        ],
        "spark/test_errors.py": [
            "a_reclaimed_version_names_branch_type_and_version",
        ],
    },
    "RS-61": {
        "faults/test_s3_faults.py": [
            "a_request_that_fails_once_is_repeated_and_the_write_lands",
            "a_part_of_a_large_file_that_fails_once_is_repeated",
            "a_server_that_never_answers_is_given_up_in_bounded_time",
            "a_server_that_is_overloaded_for_some_seconds_is_outlasted",
            "a_server_that_takes_requests_and_stays_silent_is_given_up_within_half_a_minute",
        ],
        "faults/test_s3_histories.py": [
            "no_history_over_a_failing_network_breaks_a_law",
        ],
    },
    "RS-62": {
        "faults/test_s3_doubts.py": [
            "a_graph_whose_creation_may_have_come_true_is_left_whole",
            "a_branch_whose_ref_is_not_acknowledged_is_made_and_not_refused",
            "a_compaction_whose_acknowledgement_is_lost_deletes_no_file_that_counts",
            "a_publish_that_lost_and_cannot_look_again_does_not_say_that_nothing_happened",
            "a_conditional_put_stays_in_doubt_when_a_later_try_is_refused",
        ],
        "faults/test_s3_faults.py": [
            "a_version_whose_acknowledgement_is_lost_is_made_once",
            "a_version_that_is_never_acknowledged_is_there_or_reported_as_unknown",
            "a_sidecar_whose_acknowledgement_is_lost_does_no_harm",
            "an_outcome_that_cannot_be_seen_is_not_called_a_failure",
        ],
        "faults/test_s3_histories.py": [
            "no_history_over_a_failing_network_breaks_a_law",
        ],
    },
    "RS-63": {
        "faults/test_s3_faults.py": [
            "an_answer_that_breaks_off_is_read_again",
            "an_answer_that_always_breaks_off_is_an_error_and_never_fewer_rows",
        ],
        "faults/test_s3_histories.py": [
            "no_history_over_a_failing_network_breaks_a_law",
        ],
        "unit/test_objects.py": [
            "content_that_arrives_damaged_is_read_again",
            "a_server_that_is_none_of_s3_is_named_and_is_not_taken_for_an_empty_bucket",
        ],
    },
    "RS-64": {
        "faults/test_s3_faults.py": [
            "an_older_page_of_a_listing_loses_no_update",
            "an_older_page_of_a_type_s_versions_is_not_taken_for_damage",
            "an_older_page_does_not_hide_what_is_to_be_deleted",
            "an_older_page_does_not_begin_a_branch_on_an_older_commit",
        ],
        "faults/test_s3_histories.py": [
            "no_history_over_a_failing_network_breaks_a_law",
        ],
    },
    "RS-65": {
        "faults/test_s3_faults.py": [
            "keys_that_expire_are_renewed_in_the_middle_of_a_job",
            "keys_that_expired_end_a_write_cleanly",
            "keys_that_expire_between_two_datasets_leave_work_for_recovery",
            "a_version_that_was_made_is_not_denied_when_keys_run_out_right_after_it",
        ],
        "spark/test_on_object_stores.py": [
            "keys_that_expire_are_renewed_by_tasks_that_were_planned_with_the_old_ones",
            "keys_that_expired_end_a_job_cleanly",
        ],
        "unit/test_credentials.py": [
            "a_function_that_fails_for_a_while_stops_nobody_while_keys_are_good",
        ],
    },
    "RS-66": {
        "engine/test_isolation.py": [
            "every_join_sees_one_commit_while_a_writer_publishes",
        ],
        "spark/test_snapshot_pin.py": [
            "every_join_sees_one_commit_while_a_writer_publishes",
        ],
    },
    "RS-67": {
        "engine/test_finished_work.py": [
            "work_that_the_engine_finished_is_not_done_again",
        ],
        "engine/test_write_terms.py": [
            "a_piece_of_work_is_done_once",
            "processes_that_do_the_same_work_at_once_do_it_once",
        ],
    },
    "RS-68": {
        "engine/test_transactions.py": [
            "rows_that_fail_to_come_leave_nothing_of_any_type",
        ],
        "spark/test_transactions.py": [
            "a_frame_that_cannot_be_computed_leaves_nothing_of_the_others",
        ],
    },
}
#: The defects of the engine (`format` 15), and the tests of what is done here instead.
DEFECTS: dict[str, dict[str, list[str]]] = {
    "15.1 cleanup that keeps nothing": {
        "interop/test_alternating_with_the_engine.py": [
            "nothing_here_takes_versions_away_that_history_or_a_branch_reads",
        ],
    },
    "15.2 cleanup under a branch": {
        "interop/test_alternating_with_the_engine.py": [
            "nothing_here_takes_versions_away_that_history_or_a_branch_reads",
        ],
        "engine/test_damage.py": [
            "the_engines_own_cleanup_leaves_a_branch_that_says_version_reclaimed",
        ],
    },
    "15.3 fork of a fork": {
        "interop/test_alternating_with_the_engine.py": [
            "a_branch_of_a_branch_is_written_here_and_merged_there",
        ],
        "engine/test_indexes.py": [
            "a_second_level_branch_can_be_indexed",
        ],
    },
    "15.4 merge of nothing": {
        "interop/test_alternating_with_the_engine.py": [
            "a_write_without_a_change_makes_no_version_that_cannot_be_merged",
        ],
        "engine/test_merge_branches.py": [
            "a_type_that_changed_and_changed_back_is_left_out",
        ],
    },
    "15.5 index of texts": {
        "engine/test_indexes.py": [
            "random_writes_and_builds_never_make_an_index_lie",
            "an_index_that_other_tools_carried_on_is_built_anew",
        ],
    },
    "15.6 creating by force": {
        "interop/test_alternating_with_the_engine.py": [
            "creating_a_graph_where_one_is_leaves_it_as_it_is",
        ],
    },
    "15.7 refused names": {
        "interop/test_alternating_with_the_engine.py": [
            "a_name_that_is_refused_leaves_nothing_in_the_way_of_others",
        ],
    },
    "15.8 empty blobs": {
        "engine/test_empty_blobs.py": [
            "an_empty_blob_that_would_read_back_as_null_is_refused",
            "the_engine_reads_them_as_empty_too",
        ],
    },
    "15.9 lock left behind": {
        "engine/test_upkeep.py": [
            "a_lock_left_behind_is_found_and_released_on_request",
        ],
        "interop/test_alternating_with_the_engine.py": [
            "a_schema_change_that_is_under_way_stops_our_writes",
        ],
    },
}

#: Scenarios that hold on object stores as they do on a disk, and those of object stores alone.
TWINS = [f"RS-{number}" for number in (*range(10, 20), 23, 26, 41, *range(61, 66))]


@cache
def promises_in(path: Path) -> dict[str, str]:
    """The tests of a file by name, each with its docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {
        function.name: ast.get_docstring(function) or ""
        for function in functions
        if function.name.startswith("test_")
    }


def scenarios_of(docstring: str) -> Iterator[str]:
    """The scenarios that a docstring names, `RS-10 … RS-17` for all between."""
    for first, last in re.findall(r"RS-(\d+)(?: … RS-(\d+))?", docstring):
        yield from (f"RS-{number:02}" for number in range(int(first), int(last or first) + 1))


@pytest.mark.parametrize("what", [*SCENARIOS, *DEFECTS])
def test_every_scenario_and_defect_has_tests_that_exist(what: str) -> None:
    named = [
        (path, name in promises_in(TESTS / path))
        for path, names in (SCENARIOS | DEFECTS)[what].items()
        for name in (f"test_{each}" for each in names)
    ]
    assert named
    assert [path for path, exists in named if not exists] == []


@pytest.mark.parametrize("number", TWINS)
def test_what_must_hold_in_buckets_has_a_test_that_runs_in_one(number: str) -> None:
    named = SCENARIOS[number].items()
    places = [f"{path} {name}" for path, names in named for name in names]
    assert any("s3_" in place or "object_store" in place for place in places)


def test_a_number_that_a_test_bears_is_one_of_a_scenario() -> None:
    docstrings = (text for path in TESTS.rglob("test_*.py") for text in promises_in(path).values())
    assert {number for text in docstrings for number in scenarios_of(text)} <= SCENARIOS.keys()
