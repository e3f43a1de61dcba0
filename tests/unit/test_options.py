"""Options: declared once, read without regard to case, and secrets never shown."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from omnigraph_spark.errors import (
    ConflictingOptionsError,
    InvalidOptionError,
    MissingOptionError,
    OmnigraphError,
    UnknownOptionError,
)
from omnigraph_spark.names import BranchRef, CommitRef, TimestampRef, VersionRef
from omnigraph_spark.options import ReadOptions, options_table

COMMIT = "01M7H9HTBYP3Y9T01G8JF1JW87"
SECRET = "wJalrXUtnFEMI"

#: Every option with a text it accepts and the value it becomes; a new option must be added here.
EXAMPLES: dict[str, tuple[str, Any]] = {
    "path": ("/data/social", "/data/social"),
    "type": ("node:Person", "node:Person"),
    "table": ("commits", "commits"),
    "branch": ("team/x", "team/x"),
    "commit": (COMMIT, COMMIT),
    "version": ("12", 12),
    "timestamp": ("2026-11-01", "2026-11-01"),
    "columns": ("name, age", ("name", "age")),
    "where": ("age > 30", "age > 30"),
    "limit": ("0", 0),
    "blobs": ("BYTES", "bytes"),
    "vectors": ("Array", "array"),
    "batchSize": ("1000", 1000),
    "splitBytes": ("64m", 64 << 20),
    "pushdown": ("false", False),
    "sharedMemory": ("false", False),
    "readChangeFeed": ("TRUE", True),
    "startingVersion": ("12", "12"),
    "endingVersion": (COMMIT, COMMIT),
}
FIELDS = {declared.metadata["key"]: declared for declared in ReadOptions.declared()}
ALIASES = {
    declared.metadata["also"]: key for key, declared in FIELDS.items() if declared.metadata["also"]
}


def test_there_is_an_example_of_every_option() -> None:
    assert set(EXAMPLES) == set(FIELDS)


@pytest.mark.parametrize("key", EXAMPLES)
def test_each_option_becomes_its_value_and_leaves_the_others_at_their_defaults(key: str) -> None:
    text, value = EXAMPLES[key]
    read = ReadOptions.parse({key: text})
    expected = dataclasses.replace(ReadOptions(), **{FIELDS[key].name: value})
    assert read == expected
    assert key == "vectors" or read != ReadOptions()  # which so far has one value


def test_defaults_are_those_the_readme_prints() -> None:
    options = ReadOptions.parse({})
    assert (options.branch, options.blobs, options.vectors) == ("main", "descriptor", "array")
    assert options.pushdown
    assert options.shared_memory
    others = set(FIELDS) - {"branch", "blobs", "vectors", "pushdown", "sharedMemory"}
    assert {key for key in others if getattr(options, FIELDS[key].name) is not None} == set()


@pytest.mark.parametrize("key", [*EXAMPLES, *ALIASES])
@pytest.mark.parametrize("spelling", [str.lower, str.upper, str.swapcase])
def test_keys_are_matched_without_case(key: str, spelling: Any) -> None:
    text = EXAMPLES[ALIASES.get(key, key)][0]
    assert ReadOptions.parse({spelling(key): text}) == ReadOptions.parse({key: text})


def test_spark_s_own_names_of_time_travel_mean_the_same() -> None:
    assert ALIASES == {"versionAsOf": "version", "timestampAsOf": "timestamp"}
    assert ReadOptions.parse({"versionAsOf": "3"}).ref() == VersionRef(3, "main")
    assert ReadOptions.parse({"timestampAsOf": "1970-01-01"}).ref() == TimestampRef(0, "main")


@pytest.mark.parametrize(
    "given_twice",
    [
        {"version": "3", "versionAsOf": "3"},
        {"timestamp": "2026-11-01", "TIMESTAMPASOF": "2026-11-01"},
        {"branch": "a", "Branch": "a"},
    ],
)
def test_one_option_under_two_spellings_is_a_conflict(given_twice: dict[str, str]) -> None:
    with pytest.raises(ConflictingOptionsError, match="they mean the same") as refused:
        ReadOptions.parse(given_twice)
    assert set(refused.value.options) == set(given_twice)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("brnch", "branch"),
        ("BRANCHES", "branch"),
        ("versionAsOff", "version"),
        ("batch_size", "batchSize"),
        ("column", "columns"),
        ("wher", "where"),
        ("splitbyte", "splitBytes"),
    ],
)
def test_an_unknown_option_names_the_nearest_known_one(typed: str, meant: str) -> None:
    with pytest.raises(UnknownOptionError, match=f"did you mean '{meant}'") as refused:
        ReadOptions.parse({"path": "/data/social", typed: "x"})
    assert refused.value.option == typed


def test_an_option_like_no_other_gets_the_list_of_all() -> None:
    with pytest.raises(UnknownOptionError, match="known are path, type, table") as refused:
        ReadOptions.parse({"zzz": "x"})
    assert refused.value.known == tuple(FIELDS)


# -- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("1b", 1),
        ("64k", 64 << 10),
        ("64KB", 64 << 10),
        ("64KiB", 64 << 10),
        ("64 MiB", 64 << 20),
        (" 128m ", 128 << 20),
        ("2G", 2 << 30),
        ("2gb", 2 << 30),
    ],
)
def test_sizes_are_written_with_the_usual_units_of_1024(text: str, size: int) -> None:
    assert ReadOptions.parse({"splitBytes": text}).split_bytes == size


@pytest.mark.parametrize(
    "text", ["", " ", "0", "-1m", "m", "64t", "64kk", "64km", "1.5g", "64mm", "64i", "64ib", "six"]
)
def test_a_text_that_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="a number of bytes, such as `64m`"):
        ReadOptions.parse({"splitBytes": text})


@pytest.mark.parametrize("key", ["version", "batchSize"])
@pytest.mark.parametrize("text", ["0", "-1", "1.0", "one", "", "0x10", "1e3", "9" * 5000])
def test_a_count_is_a_whole_number_above_zero(key: str, text: str) -> None:
    with pytest.raises(InvalidOptionError, match="a whole number above zero") as refused:
        ReadOptions.parse({key.upper(): text})
    assert refused.value.option == key


@pytest.mark.parametrize("text", ["-1", "1.5", "all", ""])
def test_a_limit_is_zero_or_more(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="a whole number, zero or more"):
        ReadOptions.parse({"limit": text})


@pytest.mark.parametrize("key", ["path", "type", "table", "branch", "commit", "timestamp", "where"])
@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_an_empty_text_is_not_a_value(key: str, text: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"option '{key}'"):
        ReadOptions.parse({key: text})


@pytest.mark.parametrize("text", ["", ",", "a,", ",a", "a,,b", "a, ,b"])
def test_an_empty_name_among_columns_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="names separated by commas"):
        ReadOptions.parse({"columns": text})


@pytest.mark.parametrize(
    ("key", "words"), [("blobs", "`descriptor` or `bytes` or `none`"), ("vectors", "`array`")]
)
def test_a_choice_says_what_there_is_to_choose_from(key: str, words: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"expected {words}$"):
        ReadOptions.parse({key: "picture"})


# -- what the options mean together ------------------------------------------------------------


def test_a_missing_path_says_how_to_give_it_and_where_spark_loses_it() -> None:
    assert ReadOptions.parse({"path": "/data/social"}).root() == "/data/social"
    with pytest.raises(MissingOptionError, match=r"\.load\(root\).*CREATE TEMPORARY VIEW"):
        ReadOptions.parse({}).root()


@pytest.mark.parametrize(
    ("options", "ref"),
    [
        ({}, BranchRef("main")),
        ({"branch": "dev"}, BranchRef("dev")),
        ({"commit": COMMIT}, CommitRef(COMMIT)),
        ({"commit": COMMIT, "branch": "dev"}, CommitRef(COMMIT)),
        ({"version": "4", "branch": "dev"}, VersionRef(4, "dev")),
        ({"timestamp": "1970-01-01T00:00:01Z", "branch": "dev"}, TimestampRef(1_000_000, "dev")),
    ],
)
def test_the_snapshot_is_named_by_at_most_one_option_besides_the_branch(
    options: dict[str, str], ref: object
) -> None:
    assert ReadOptions.parse(options).ref() == ref


@pytest.mark.parametrize(
    "pair", [("commit", "version"), ("commit", "timestamp"), ("version", "timestamp")]
)
def test_two_options_that_name_a_snapshot_are_a_conflict(pair: tuple[str, str]) -> None:
    options = ReadOptions.parse({key: EXAMPLES[key][0] for key in pair})
    with pytest.raises(ConflictingOptionsError, match="at most one besides branch") as refused:
        options.ref()
    assert refused.value.options == pair


@pytest.mark.parametrize(
    ("options", "blamed", "value"),
    [
        ({"branch": "../x"}, "branch", "../x"),
        ({"branch": "../x", "version": "1"}, "branch", "../x"),
        ({"branch": "a//b", "timestamp": "2026-11-01"}, "branch", "a//b"),
        ({"commit": "HEAD"}, "commit", "HEAD"),
        ({"timestamp": "yesterday"}, "timestamp", "yesterday"),
    ],
)
def test_a_malformed_name_is_an_error_about_the_option_that_holds_it(
    options: dict[str, str], blamed: str, value: str
) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        ReadOptions.parse(options).ref()
    assert (refused.value.option, refused.value.value) == (blamed, value)


def test_one_frame_reads_a_type_or_a_table() -> None:
    assert ReadOptions.parse({"type": "Person"}).subject() == ("Person", None)
    assert ReadOptions.parse({"table": "commits"}).subject() == (None, "commits")
    with pytest.raises(ConflictingOptionsError, match="'type' and 'table'"):
        ReadOptions.parse({"type": "Person", "table": "commits"}).subject()
    with pytest.raises(MissingOptionError, match="option 'type' is required"):
        ReadOptions.parse({}).subject()


@pytest.mark.parametrize("key", ["columns", "where", "limit"])
def test_what_selects_rows_of_a_type_is_refused_with_a_table(key: str) -> None:
    options = ReadOptions.parse({"table": "commits", key: EXAMPLES[key][0]})
    with pytest.raises(ConflictingOptionsError, match=f"'table' and '{key}'"):
        options.subject()


# -- secrets -----------------------------------------------------------------------------------


def test_storage_settings_are_kept_apart_with_lower_case_keys() -> None:
    options = ReadOptions.parse(
        {"path": "/g", "storage.aws_secret_access_key": SECRET, "Storage.AWS_Region": "eu-west-1"}
    )
    assert options.storage == {"aws_secret_access_key": SECRET, "aws_region": "eu-west-1"}
    assert options.path == "/g"


def test_a_storage_value_keeps_its_case_and_spaces() -> None:
    assert ReadOptions.parse({"storage.token": " aB= "}).storage == {"token": " aB= "}


def shown(options: ReadOptions) -> list[str]:
    return [repr(options), str(options), f"{options}", f"{options!r}"]


def test_storage_settings_never_show_in_the_text_of_options() -> None:
    options = ReadOptions.parse({"path": "/g", "storage.aws_secret_access_key": SECRET})
    assert all(SECRET not in text for text in shown(options))
    assert all("/g" in text for text in shown(options))


@pytest.mark.parametrize(
    "wrong",
    [
        {"brnch": "x"},
        {"limit": "x"},
        {"splitBytes": "x"},
        {"branch": "a", "BRANCH": "b"},
        {"commit": "x"},
        {"version": "1", "commit": COMMIT},
        {"type": "A", "table": "b"},
        {},
    ],
)
def test_no_error_about_options_contains_a_storage_setting(wrong: Mapping[str, str]) -> None:
    given_options = {"storage.aws_secret_access_key": SECRET, **wrong}
    with pytest.raises(OmnigraphError) as refused:
        _use(ReadOptions.parse(given_options))
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value)
    assert SECRET not in str(refused.value.args)


def _use(options: ReadOptions) -> None:
    options.ref()
    options.subject()
    options.root()


def test_a_secret_under_a_mistyped_prefix_is_not_shown_either() -> None:
    with pytest.raises(UnknownOptionError) as refused:
        ReadOptions.parse({"storage_aws_secret_access_key": SECRET})
    assert SECRET not in str(refused.value)


def test_options_survive_the_way_to_another_process() -> None:
    options = ReadOptions.parse({key: text for key, (text, _) in EXAMPLES.items()})
    assert pickle.loads(pickle.dumps(options)) == options


def refusal(given_options: Mapping[str, str]) -> OmnigraphError | None:
    try:
        ReadOptions.parse(given_options)
    except OmnigraphError as error:
        return error
    return None


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), min_size=1, max_size=4))
def test_a_key_nobody_declared_is_refused_whatever_it_is(given_options: dict[str, str]) -> None:
    unknown = {key for key in given_options if key.lower() not in map(str.lower, FIELDS)}
    assume(unknown)
    refused = refusal(given_options)
    assert isinstance(refused, InvalidOptionError | UnknownOptionError)


@given(st.sampled_from(sorted(EXAMPLES)), st.text(max_size=12))
def test_whatever_is_written_into_an_option_is_read_or_refused_by_its_name(
    key: str, text: str
) -> None:
    refused = refusal({key: text})
    if refused is not None:
        assert isinstance(refused, InvalidOptionError)
        assert (refused.option, refused.value) == (key, text)


# -- the README --------------------------------------------------------------------------------


def test_the_table_has_one_line_per_option_with_default_and_meaning() -> None:
    header, rule, *lines, storage = options_table(ReadOptions).splitlines()
    assert header == "| option | default | accepts | meaning |"
    assert rule == "|---|---|---|---|"
    assert [line.split(" | ")[0] for line in lines] == [f"| `{key}`" for key in EXAMPLES]
    assert storage.startswith("| `storage.*` |")
    assert "| `branch` | `main` | text | Branch whose head is read. |" in lines
    assert all(line.count(" | ") == 3 for line in [*lines, storage])


def test_the_table_names_the_other_spelling_of_an_option() -> None:
    table = options_table(ReadOptions)
    for alias in ALIASES:
        assert f"`{alias}` means the same." in table
