"""Texts of dates and times: what the engine was seen to take, refuse and write."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_spark.jsonl.times import (
    dates,
    days_of,
    milliseconds_of,
    time_text,
    time_texts,
    times,
)

DAY = 86_400_000
JANUARY_2 = 19_724  # 2024-01-02


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("2024-01-02", JANUARY_2),
        ("2024-1-2", JANUARY_2),
        ("20240102", JANUARY_2),
        ("2024-01-02T23:59:60", JANUARY_2),
        ("2024-01-02T23:04:05-05:00", JANUARY_2 + 1),
        ("2024-01-02T00:30:00+01:00", JANUARY_2 - 1),
        ("0000-01-01", -719_528),
        ("-0001-01-01", -719_893),
        ("+10000-01-01", 2_932_897),
        ("+2024-+1-02", JANUARY_2),
        ("+262142-12-31", 95_026_236),
        ("-262143-01-01", -96_465_292),
    ],
)
def test_dates_are_days(text: str, days: int) -> None:
    assert days_of(text) == days


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2024-01-02", 0),
        ("2024-1-2", 0),
        ("2024-01-02T00:00:01", 1_000),
        ("2024-01-02t00:00:01z", 1_000),
        ("2024-01-02 00:00:00.0129", 12),
        ("2024-01-02T00:00:00.12345678901234Z", 123),
        ("2024-01-02T02:00:00+02", 0),
        ("2024-01-02T02:00:00   +0200", 0),
        ("2024-01-02T02:39:00+01:99", 0),
        ("2024-01-02T000001Z", 1_000),
        ("2024-01-02T000001 UTC", 1_000),
        ("2024-01-02T23:59:60.5", DAY + 500),
        ("2024-01-02T01:00:00Europe/Berlin", 0),
        ("2024-01-01T16:00:00 US/Pacific", 0),
    ],
)
def test_times_are_milliseconds_in_utc(text: str, milliseconds: int) -> None:
    assert milliseconds_of(text) - JANUARY_2 * DAY == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "", "bad", "2024", "2024-01", "2024-13-01", "2024-02-30", "2023-02-29", "0000-00-00",
        "2024-0102", "10000-01-01", "2024/01/02", " 2024-01-02", "2024-01-02 ", "2024-01-2x",
        "+262143-01-01", "-262144-01-01", "\uff12024-01-02", "2024-01-02T", "2024-01-02T03",
        "2024-01-02T03:04", "2024-01-02T24:00:00", "2024-01-02T03:60:00", "2024-01-02T03:04:61",
        "2024-01-02T03:04:05.", "2024-01-02T03:04:05,5", "2024-01-02T3:04:05",
        "2024-01-02_03:04:05", "2024-01-02T03:04:05 Z", "2024-01-02T03:04:05zz",
        "2024-01-02T03:04:05+24:00", "2024-01-02T03:04:05+1", "2024-01-02T03:04:05+1:00",
        "2024-01-02T03:04:05 GMT+1", "2024-01-02T03:04:05 europe/berlin",
        "2024-01-02T03:04:05 ../../etc", "2024-01-02T030405.5", "2024-01-02T030405+02:00",
        "2024-03-31T02:30:00 Europe/Berlin", "2024-10-27T02:30:00 Europe/Berlin",
        "0000-01-01T00:00:00 Europe/Berlin",
    ],
)  # fmt: skip
def test_other_texts_are_neither(text: str) -> None:
    for read in (days_of, milliseconds_of):
        with pytest.raises(ValueError):  # noqa: PT011
            read(text)
    for column in (dates, times):
        with pytest.raises(ValueError):  # noqa: PT011
            column([text])


CLOCK = st.builds(
    "{:04}-{:02}-{:02}{}{:02}:{:02}:{:02}{}{}".format,
    st.integers(0, 9999),
    st.integers(0, 13),
    st.integers(0, 32),
    st.sampled_from(["T", " "]),
    st.integers(0, 24),
    st.integers(0, 60),
    st.integers(0, 61),
    st.sampled_from(["", ".1", ".12", ".123"]),
    st.sampled_from(["", "Z"]),
)


@given(CLOCK)
def test_a_column_of_plain_times_is_read_as_each_of_them(text: str) -> None:
    try:
        expected = milliseconds_of(text)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011
            times([text])
        return
    assert times([text, None]).view("int64").to_pylist() == [expected, None]


@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))
def test_a_column_of_plain_dates_is_read_as_each_of_them(year: int, month: int, day: int) -> None:
    text = f"{year:04}-{month:02}-{day:02}"
    try:
        expected = days_of(text)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011
            dates([text])
        return
    assert dates([text, None]).view("int32").to_pylist() == [expected, None]


@given(st.dates())
def test_days_are_those_of_the_calendar(date: dt.date) -> None:
    assert days_of(date.isoformat()) == (date - dt.date(1970, 1, 1)).days


@given(st.integers(-8_334_601_228_800_000, 8_210_266_876_799_999))
def test_a_time_that_was_written_is_read_as_it_was(milliseconds: int) -> None:
    assert milliseconds_of(str(time_text(milliseconds))) == milliseconds


@given(
    st.lists(
        st.none()
        | st.integers(-62_167_219_200_000, 253_402_300_799_999)
        | st.datetimes(timezones=st.just(dt.UTC)).map(lambda t: int(t.timestamp()) * 1000)
    ),
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=1),
)
def test_a_column_of_times_is_written_as_each_of_them(
    plain: list[int | None], far: list[int]
) -> None:
    moments = [*plain, *far]
    column = pa.array(moments, pa.int64()).cast(pa.timestamp("ms", "UTC"))
    assert time_texts(column) == [None if m is None else time_text(m) for m in moments]


def test_times_are_written_as_the_engine_writes_them() -> None:
    assert time_text(0) == "1970-01-01T00:00:00"
    assert time_text(-1) == "1969-12-31T23:59:59.999"
    assert time_text(-62_135_596_800_001) == "0000-12-31T23:59:59.999"
    assert time_text(253_402_300_800_000) == "+10000-01-01T00:00:00"
    assert time_text(8_210_266_876_799_999) == "+262142-12-31T23:59:59.999"
    assert time_text(8_210_266_876_800_000) == 8_210_266_876_800_000
