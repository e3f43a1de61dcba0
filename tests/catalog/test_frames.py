"""`format("omnigraph")` with the jar: what holds without it holds with it, and filters are pushed.

The tests themselves are those of `tests/spark`, here with a session that has the jar.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.helpers.sources import failure, read
from tests.spark.conftest import branched, evolved, history, people, rich
from tests.spark.test_errors import (
    test_a_folder_that_is_no_graph_is_named,
    test_a_user_s_schema_that_does_not_fit_is_refused,
    test_secrets_are_in_no_plan,
)
from tests.spark.test_read import (
    test_a_cached_frame_and_its_origin_agree,
    test_a_dropped_type_is_read_where_it_existed,
    test_a_frame_has_all_its_rows_again_after_a_filter,
    test_a_frame_joins_itself,
    test_a_temporary_view_is_made_by_sql,
    test_a_type_without_rows_is_an_empty_frame,
    test_a_union_of_two_filters_has_the_rows_of_both,
    test_a_user_s_schema_chooses_columns,
    test_a_view_is_filtered_twice,
    test_arrow_and_pandas_see_the_same_rows,
    test_columns_are_those_of_the_commit_that_is_read,
    test_columns_where_and_limit_are_evaluated_by_lance,
    test_each_option_reaches_the_engine,
    test_every_branch_has_the_persons_the_engine_exported,
    test_every_type_equals_the_engine_s_export,
    test_rows_from_before_a_column_was_added_have_nulls_in_it,
    test_select_of_some_columns_and_of_none,
)
from tests.spark.test_snapshot_pin import (
    graph,
    test_a_frame_keeps_its_snapshot_while_a_writer_publishes,
    test_a_snapshot_that_does_not_exist_is_refused,
    test_a_view_keeps_the_snapshot_it_was_made_at,
    test_tables_about_the_graph_keep_their_snapshot,
    test_with_a_user_s_schema_the_first_action_takes_the_snapshot,
)
from tests.spark.test_types import (
    extremes,
    test_every_value_is_exact_in_every_time_zone,
    test_unsigned_numbers_add_up_in_spark,
    zone,
)

#: What pytest takes from elsewhere: fixtures, and tests that run here once more.
__all__ = [
    "branched",
    "evolved",
    "extremes",
    "graph",
    "history",
    "people",
    "rich",
    "test_a_cached_frame_and_its_origin_agree",
    "test_a_dropped_type_is_read_where_it_existed",
    "test_a_folder_that_is_no_graph_is_named",
    "test_a_frame_has_all_its_rows_again_after_a_filter",
    "test_a_frame_joins_itself",
    "test_a_frame_keeps_its_snapshot_while_a_writer_publishes",
    "test_a_snapshot_that_does_not_exist_is_refused",
    "test_a_temporary_view_is_made_by_sql",
    "test_a_type_without_rows_is_an_empty_frame",
    "test_a_union_of_two_filters_has_the_rows_of_both",
    "test_a_user_s_schema_chooses_columns",
    "test_a_user_s_schema_that_does_not_fit_is_refused",
    "test_a_view_is_filtered_twice",
    "test_a_view_keeps_the_snapshot_it_was_made_at",
    "test_arrow_and_pandas_see_the_same_rows",
    "test_columns_are_those_of_the_commit_that_is_read",
    "test_columns_where_and_limit_are_evaluated_by_lance",
    "test_each_option_reaches_the_engine",
    "test_every_branch_has_the_persons_the_engine_exported",
    "test_every_type_equals_the_engine_s_export",
    "test_every_value_is_exact_in_every_time_zone",
    "test_rows_from_before_a_column_was_added_have_nulls_in_it",
    "test_secrets_are_in_no_plan",
    "test_select_of_some_columns_and_of_none",
    "test_tables_about_the_graph_keep_their_snapshot",
    "test_unsigned_numbers_add_up_in_spark",
    "test_with_a_user_s_schema_the_first_action_takes_the_snapshot",
    "zone",
]


@pytest.mark.smoke
def test_a_frame_s_filter_limit_and_count_are_pushed(spark: SparkSession, people: Path) -> None:
    frame = read(spark, people, type="Person")
    plan = frame.where("age > 90").select("name").limit(3)._jdf.queryExecution().toString()
    assert "pushed=[age IS NOT NULL, age > 90]" in plan
    assert "Filter (" not in plan.split("== Physical Plan ==")[1]
    assert frame.where("age > 90").count() == 9
    assert "LocalTableScan" in frame.groupBy().count()._jdf.queryExecution().toString()


def test_wrong_options_fail_at_load(spark: SparkSession, people: Path) -> None:
    said = failure(lambda: read(spark, people, type="Person", actor="me"))
    assert "[OMNIGRAPH_OPTION_UNKNOWN] unknown option 'actor'" in said
    said = failure(lambda: read(spark, people, type="Nobody"))
    assert "[OMNIGRAPH_TYPE_NOT_FOUND] type 'Nobody' is not in this snapshot" in said
