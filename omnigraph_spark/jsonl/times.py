"""Texts of dates and times, as the engine reads and writes them.

The engine leaves them to Arrow's Rust library, which knows more forms than its C++ library and
other ones. Plain forms go through C++, column by column; a column with any other form is read here
value by value. One thing is not copied: Rust reads `2024-01-2x` as a date. And one is added: a time
in a year above 9999 or below 0 is read as the engine itself exports it, `+10000-01-01T00:00:00`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_spark.arrow_rows import DATETIME

_PLAIN_DATE = r"^\d{4}-\d\d-\d\d$"
_PLAIN_TIME = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,3})?Z?$"

_SHORT_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})|(\d{4})(\d\d)(\d\d)", re.ASCII)
_SIGNED_DATE = re.compile(r"([+-]\d{4,})-\+?(\d+)-\+?(\d+)", re.ASCII)
_TIME = re.compile(
    r"(?P<year>\d{4}|[+-]\d{4,6})-(?P<month>\d\d)-(?P<day>\d\d)[Tt ]"
    # Without colons no digit may be among the next two characters, not even of a zone.
    r"(?:(\d\d):(\d\d):(\d\d)(?:\.(?P<fraction>\d+))?|(\d\d)(\d\d)(\d\d)(?!.?\d))"
    r"(?P<zone>.*)",
    re.ASCII | re.DOTALL,
)
_OFFSET = re.compile(r"([+-])(\d\d)(?::?(\d\d))?", re.ASCII)

_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
#: The years the engine's calendar has.
_FIRST_YEAR, _LAST_YEAR = -262_143, 262_142
_DAY_MS = 86_400_000
#: From the year 0 up to the year 10000: years of four digits, which Arrow writes, too.
_PLAIN_YEARS = (-62_167_219_200_000, 253_402_300_800_000)


def dates(values: Sequence[str | int | None]) -> pa.Array[Any]:
    """Return a date32 column of texts and days; a ValueError says that some value is neither."""
    if (fast := _plain(values, _PLAIN_DATE)) is not None:
        try:
            return fast.cast(pa.date32())
        except pa.ArrowInvalid:
            pass  # A day that its month does not have; below it is found.
    days = [days_of(value) if isinstance(value, str) else value for value in values]
    return pa.array(days, pa.int32()).cast(pa.date32())


def times(values: Sequence[str | int | None]) -> pa.Array[Any]:
    """Return a UTC column of texts and milliseconds; a ValueError says that some is neither."""
    if (fast := _plain(values, _PLAIN_TIME)) is not None:
        try:
            return pc.utf8_rtrim(fast, "Z").cast(pa.timestamp("ms")).view(DATETIME)
        except pa.ArrowInvalid:
            pass  # A leap second, the year 0, or a day that is not.
    moments = [milliseconds_of(value) if isinstance(value, str) else value for value in values]
    return pa.array(moments, pa.int64()).cast(DATETIME)


def _plain(values: Sequence[Any], pattern: str) -> pa.StringArray | None:
    """Return the values as an array if all of them are texts of a plain form, or null."""
    if int in set(map(type, values)):
        return None
    texts = pa.array(values, pa.string())
    plain = pc.all(pc.match_substring_regex(texts, pattern)).as_py()
    # None: there are no texts at all.
    return None if plain is False else texts


def days_of(text: str) -> int:
    """Return the days since 1970 of a date, or of a time's day in UTC.

    >>> days_of("1970-1-2"), days_of("1970-01-02T00:30:00+01:00"), days_of("-0001-01-01")
    (1, 0, -719893)
    """
    if match := _SIGNED_DATE.fullmatch(text):
        year, month, day = map(int, match.groups())
        return _days(year, month, day)
    if len(text) > 10:
        milliseconds, leap = _moment(text)
        return (milliseconds - leap) // _DAY_MS
    return _short_date(text)


def milliseconds_of(text: str) -> int:
    """Return the milliseconds since 1970 of a time, or of a day's beginning; UTC without a zone.

    >>> milliseconds_of("1970-01-01 01:00:00.0129+01:00"), milliseconds_of("19700102")
    (12, 86400000)
    """
    if len(text) <= 10:
        return _short_date(text) * _DAY_MS
    return _moment(text)[0]


def time_texts(column: pa.TimestampArray[Any, Any]) -> list[str | int | None]:
    """Write a column of times as the engine exports them."""
    moments = column.view(pa.int64())
    span: Any = pc.min_max(moments).as_py()
    if (
        span["min"] is not None
        and not _PLAIN_YEARS[0] <= span["min"] <= span["max"] < _PLAIN_YEARS[1]
    ):
        return [None if moment is None else time_text(moment) for moment in moments.to_pylist()]
    texts: Any = moments.cast(pa.timestamp("ms")).cast(pa.string())
    texts = pc.utf8_replace_slice(texts, 10, 11, "T")
    found: list[str | int | None] = pc.replace_substring_regex(texts, r"\.000$", "").to_pylist()
    return found


def time_text(milliseconds: int) -> str | int:
    """Write a time as the engine exports it; one outside of its calendar stays a number.

    >>> time_text(1), time_text(253402300800000), time_text(-62167219200001)
    ('1970-01-01T00:00:00.001', '+10000-01-01T00:00:00', '-0001-12-31T23:59:59.999')
    """
    days, rest = divmod(milliseconds, _DAY_MS)
    year, month, day = _civil(days)
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return milliseconds
    seconds, fraction = divmod(rest, 1000)
    sign = "" if 0 <= year <= 9999 else "+" if year > 0 else "-"
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    tail = f".{fraction:03}" if fraction else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}T{clock}{tail}"


def _short_date(text: str) -> int:
    match = _SHORT_DATE.fullmatch(text) or _SIGNED_DATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day = (int(part) for part in match.groups() if part is not None)
    return _days(year, month, day)


def _moment(text: str) -> tuple[int, int]:
    """Return the milliseconds of a time, and how many of them a leap second adds."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    hour, minute, second = (int(p) for p in match.group(4, 5, 6, 8, 9, 10) if p is not None)
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError(text)
    leap = 1000 if second == 60 else 0
    second = min(second, 59)
    days = _days(year, month, day)
    offset = _offset(match["zone"], (year, month, day, hour, minute, second))
    fraction = int((match["fraction"] or "")[:3].ljust(3, "0"))
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset
    return seconds * 1000 + fraction + leap, leap


def _offset(zone: str, local: tuple[int, int, int, int, int, int]) -> int:
    """Return how many seconds a zone is ahead of UTC at a local time."""
    if zone in ("", "Z", "z"):
        return 0
    zone = zone.lstrip()
    if match := _OFFSET.fullmatch(zone):
        sign, hours, minutes = match.groups()
        seconds = int(hours) * 3600 + int(minutes or 0) * 60
        if seconds >= 86_400:
            raise ValueError(zone)
        return -seconds if sign == "-" else seconds
    if zone not in _zones():
        raise ValueError(zone)
    moment = dt.datetime(*local, tzinfo=ZoneInfo(zone))
    early, late = (moment.replace(fold=fold).utcoffset() for fold in (0, 1))
    if early is None or early != late:
        # A clock that was put back shows this time twice, one that was put forward never.
        raise ValueError(zone)
    return int(early.total_seconds())


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    # The machine's own zone is not a name that means the same elsewhere.
    return frozenset(available_timezones() - {"localtime"})


def _days(year: int, month: int, day: int) -> int:
    """Count the days since 1970 of a day in the Gregorian calendar, continued in both ways."""
    if not (_FIRST_YEAR <= year <= _LAST_YEAR and 1 <= month <= 12):
        raise ValueError(f"{year}-{month}-{day}")
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _MONTH_DAYS[month - 1] + (leap and month == 2):
        raise ValueError(f"{year}-{month}-{day}")
    # Years that begin in March have their leap day last; 400 of them repeat.
    era, of_era = divmod(year - (month <= 2), 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day: the reverse of `_days`."""
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * of_year + 2) // 153
    month = march_month + 3 if march_month < 10 else march_month - 9
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * march_month + 2) // 5 + 1
