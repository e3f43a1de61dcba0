"""Names: text becomes a type once, and whatever could leave the graph's folder never does."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_spark.errors import InvalidNameError
from omnigraph_spark.names import (
    SCHEMA_APPLY_LOCK,
    BranchRef,
    CommitRef,
    Ref,
    TimestampRef,
    TypeKey,
    TypeKind,
    VersionRef,
    check_branch_name,
    check_commit_id,
    check_type_name,
    timestamp_text,
)

COMMIT = "01M7H9HTBYP3Y9T01G8JF1JW87"
SECOND = 1_000_000


# -- types -------------------------------------------------------------------------------------


def test_a_type_key_is_written_as_it_is_read() -> None:
    assert TypeKey.parse("node:Person") == TypeKey(TypeKind.NODE, "Person")
    assert TypeKey.parse("edge:WorksAt") == TypeKey(TypeKind.EDGE, "WorksAt")
    assert str(TypeKey.parse("edge:WorksAt")) == "edge:WorksAt"


def test_type_keys_sort_as_their_text_does() -> None:
    texts = ["node:Person", "edge:Knows", "node:A", "edge:Z", "node:Ab", "node:A_"]
    assert [str(key) for key in sorted(map(TypeKey.parse, texts))] == sorted(texts)


@pytest.mark.parametrize(
    "text",
    [
        "Person",
        "person:Person",
        "Node:Person",
        "NODE:Person",
        " node:Person",
        "node",
        "",
        ":Person",
    ],
)
def test_a_type_key_without_a_known_kind_is_refused_with_the_form_to_write(text: str) -> None:
    with pytest.raises(InvalidNameError, match="write 'node:Name' or 'edge:Name'"):
        TypeKey.parse(text)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "person",
        "_Person",
        "1Person",
        "Per son",
        "Person ",
        "Person\n",
        "Pers\0on",
        "Person:Boss",
        "../Person",
        "Person/x",
        "Per-son",
        "Ärzte",
        "Personé",
        "Person\N{ARABIC-INDIC DIGIT ONE}",
        "Person' or '1'='1",
        "P`x",
    ],
)
def test_a_type_name_is_an_upper_case_ascii_word_and_nothing_else(name: str) -> None:
    with pytest.raises(InvalidNameError, match="upper-case ASCII letter"):
        check_type_name(name)
    with pytest.raises(InvalidNameError):
        TypeKey.parse(f"node:{name}")


@given(st.from_regex(r"\A[A-Z][A-Za-z0-9_]{0,20}\Z"), st.sampled_from(TypeKind))
def test_every_well_formed_type_key_survives_being_written_and_read(
    name: str, kind: TypeKind
) -> None:
    assert TypeKey.parse(str(TypeKey(kind, name))) == TypeKey(kind, name)


# -- branches ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "main",
        "dev",
        "team/x",
        "a/b/c",
        ".hidden",
        "x.lock/y",
        "v1.2-rc_3",
        "-",
        "_",
        "MAIN",
        "main/x",
        "x" * 200,
        "café",
        "分支",
        "Ⅷ",
        "½",
        # A vowel sign is a letter of its word: Lance makes this branch.
        "नीला",
        "__schema_apply_lock__x",
        "x/__schema_apply_lock__",
    ],
)
def test_a_branch_name_that_lance_takes_is_taken_unchanged(name: str) -> None:
    assert check_branch_name(name) == name
    assert Ref.branch(name) == BranchRef(name)


ILLEGAL_BRANCHES = [
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    "//a",
    ".",
    "..",
    "./a",
    "a/.",
    "a/./b",
    "../x",
    "a/../b",
    "a/..",
    "a..b",
    "..a",
    "...",
    "x.lock",
    "a/x.lock",
    ".lock",
    "a\\b",
    "..\\x",
    "a\0b",
    "\0",
    "a b",
    " a",
    "a\t",
    "dev\n",
    "dev\r",
    "a%2Fb",
    "%2e%2e",
    "a:b",
    "a*b",
    "a?b",
    "a#b",
    "a@b",
    "a'b",
    'a"b',
    "a`b",
    "a;b",
    "a$b",
    "a=b",
    "\N{PILE OF POO}",
    "\N{FULLWIDTH SOLIDUS}",
    "\N{RIGHT-TO-LEFT OVERRIDE}a",
    "\N{ZERO WIDTH SPACE}",
    "\N{NO-BREAK SPACE}",
    "\udcff",
]


@pytest.mark.parametrize("name", ILLEGAL_BRANCHES)
def test_a_branch_name_that_could_lead_elsewhere_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(InvalidNameError, match="between single slashes") as refused:
        check_branch_name(name)
    assert refused.value.name == name
    assert refused.value.what == "branch name"


@pytest.mark.parametrize("name", ILLEGAL_BRANCHES)
def test_no_ref_is_made_with_an_illegal_branch(name: str) -> None:
    with pytest.raises(InvalidNameError):
        Ref.branch(name)
    with pytest.raises(InvalidNameError):
        Ref.version(1, name)
    with pytest.raises(InvalidNameError):
        Ref.timestamp("2026-11-01", name)


def test_the_schema_apply_lock_is_no_branch_of_the_user() -> None:
    with pytest.raises(InvalidNameError, match="reserved for schema changes"):
        check_branch_name(SCHEMA_APPLY_LOCK)


@pytest.mark.parametrize("around", ["/{}", "//{}", "///{}", "{}/", "./{}", "x/../{}"])
def test_no_spelling_with_slashes_reaches_the_schema_apply_lock(around: str) -> None:
    with pytest.raises(InvalidNameError):
        check_branch_name(around.format(SCHEMA_APPLY_LOCK))


@given(st.text(st.sampled_from("aZ9._-/\\ \0é%~"), max_size=12))
def test_an_accepted_branch_is_a_path_that_stays_below_its_folder(name: str) -> None:
    try:
        check_branch_name(name)
    except InvalidNameError:
        return
    parts = name.split("/")
    assert all(part and part not in (".", "..") for part in parts)
    assert not set("\\ \0%~") & set(name)


# -- commits -----------------------------------------------------------------------------------


def test_a_commit_id_is_a_ulid() -> None:
    assert check_commit_id(COMMIT) == COMMIT
    assert Ref.commit(COMMIT) == CommitRef(COMMIT)
    assert check_commit_id("7" + "Z" * 25) == "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"


@pytest.mark.parametrize(
    "text",
    [
        "",
        COMMIT.lower(),
        COMMIT[:-1],
        COMMIT + "0",
        COMMIT + "\n",
        " " + COMMIT,
        "8" + COMMIT[1:],  # more than 128 bits
        COMMIT[:-1] + "I",
        COMMIT[:-1] + "L",
        COMMIT[:-1] + "O",
        COMMIT[:-1] + "U",
        "\N{ARABIC-INDIC DIGIT ONE}" + COMMIT[1:],
        "' or '1'='1",
        "../" + COMMIT[3:],
    ],
)
def test_anything_but_a_ulid_is_no_commit_id(text: str) -> None:
    with pytest.raises(InvalidNameError, match="a ULID of 26 upper-case characters"):
        check_commit_id(text)
    with pytest.raises(InvalidNameError):
        Ref.commit(text)


# -- refs --------------------------------------------------------------------------------------


def test_refs_without_a_branch_are_about_main() -> None:
    assert Ref.branch() == BranchRef("main")
    assert Ref.version(12) == VersionRef(12, "main")
    assert Ref.timestamp("1970-01-01") == TimestampRef(0, "main")


def test_refs_on_a_branch_keep_it() -> None:
    assert Ref.version(12, "dev") == VersionRef(12, "dev")
    assert Ref.timestamp("1970-01-01", "dev") == TimestampRef(0, "dev")


@pytest.mark.parametrize("number", [0, -1, True, False, 1.0, "1", None])
def test_a_manifest_version_is_a_whole_number_above_zero(number: object) -> None:
    with pytest.raises(InvalidNameError, match="a whole number above zero"):
        Ref.version(number)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01", 1),
        ("1970-01-01T00:00:01Z", 1),
        ("1970-01-01 00:00:01", 1),
        (" 1970-01-01T00:00:01Z\n", 1),
        ("1970-01-01T02:00:01+02:00", 1),
        ("1969-12-31T19:00:01-05:00", 1),
        ("1970-01-02", 86_400),
        ("1970-01-01T05:30:00+05:30", 0),
        ("1969-12-31T23:59:59Z", -1),
        ("19700101T000001Z", 1),
    ],
)
def test_a_timestamp_without_a_zone_is_utc_and_with_one_is_that_instant(
    text: str, seconds: int
) -> None:
    assert Ref.timestamp(text) == TimestampRef(seconds * SECOND, "main")


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own zone is 14 hours ahead."""
    monkeypatch.setenv("TZ", "XXX-14")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
def test_a_datetime_without_a_zone_is_utc_whatever_the_machine_s_zone() -> None:
    noon = dt.datetime(2026, 11, 1, 12)
    india = dt.timezone(dt.timedelta(hours=5, minutes=30))
    assert Ref.timestamp(noon) == Ref.timestamp("2026-11-01T12:00:00Z")
    assert Ref.timestamp(noon.replace(tzinfo=india)) == Ref.timestamp("2026-11-01T06:30:00Z")


def test_microseconds_of_a_timestamp_count_also_before_1970() -> None:
    assert Ref.timestamp("1970-01-01T00:00:00.000001").at_us == 1
    assert Ref.timestamp("1969-12-31T23:59:59.999999").at_us == -1


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-13-01", "2026-11-01T25:00", "1793491200", "2026-11-01T00:00:00X"],
)
def test_a_text_that_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidNameError, match="ISO 8601 text such as '2026-11-01T00:00:00Z'"):
        Ref.timestamp(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"])
def test_a_time_that_utc_cannot_write_is_refused_instead_of_overflowing_later(text: str) -> None:
    with pytest.raises(InvalidNameError, match="between the years 1 and 9999"):
        Ref.timestamp(text)


@given(
    st.datetimes(
        timezones=st.just(dt.UTC)
        | st.integers(-14 * 60, 14 * 60).map(lambda m: dt.timezone(dt.timedelta(minutes=m))),
        min_value=dt.datetime(2, 1, 1),
        max_value=dt.datetime(9998, 12, 31),
    )
)
def test_every_instant_survives_as_microseconds_and_back(moment: dt.datetime) -> None:
    ref = Ref.timestamp(moment)
    assert ref == Ref.timestamp(moment.isoformat())
    assert dt.datetime.fromisoformat(timestamp_text(ref.at_us)) == moment
