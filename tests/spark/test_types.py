"""Every type through Spark: nulls, extremes, lists, vectors, blobs, in two session time zones."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.helpers.builder import GraphBuilder
from tests.helpers.sources import read

SCHEMA = """
node Extreme {
    name: String @key
    flag: Bool?   i32: I32?   i64: I64?   u32: U32?   u64: U64?   f32: F32?   f64: F64?
    day: Date?    at: DateTime?   text: String?   word: enum(one, two)?
    vec: Vector(3)?   blob: Blob?
    flags: [Bool]?   i32s: [I32]?   i64s: [I64]?   u32s: [U32]?   u64s: [U64]?
    f32s: [F32]?   f64s: [F64]?   days: [Date]?   ats: [DateTime]?   texts: [String]?
}
"""

UTC = dt.UTC
FIRST = dt.datetime(1, 1, 1, tzinfo=UTC)
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
# The hour that New York skipped, the one it had twice, and the last millisecond before 1970.
SPRING, AUTUMN, BEFORE = (
    dt.datetime(2024, 3, 10, 7, 30, 0, 1_000, tzinfo=UTC),
    dt.datetime(2024, 11, 3, 5, 30, 0, 2_000, tzinfo=UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
)

LOW: dict[str, Any] = {
    "name": "low",
    "flag": False,
    "i32": -(2**31),
    "i64": -(2**63),
    "u32": 0,
    "u64": 0,
    "f32": -3.4028234663852886e38,
    "f64": 5e-324,
    "day": dt.date(1, 1, 1),
    "at": FIRST,
    "text": "",
    "word": "one",
    "vec": [-0.0, math.inf, 1e-45],
    "blob": b"\x00\xff",
    "flags": [],
    "i32s": [-(2**31), None],
    "i64s": [-(2**63)],
    "u32s": [0, None],
    "u64s": [0],
    "f32s": [-math.inf, None],
    "f64s": [-0.0],
    "days": [dt.date(1969, 12, 31), None],
    "ats": [BEFORE, None, FIRST],
    "texts": ["", None],
}
HIGH: dict[str, Any] = {
    "name": "high",
    "flag": True,
    "i32": 2**31 - 1,
    "i64": 2**63 - 1,
    "u32": 2**32 - 1,
    "u64": 2**64 - 1,
    "f32": math.inf,
    "f64": -0.0,
    "day": dt.date(9999, 12, 31),
    "at": LAST,
    "text": "Zoë \N{SNOWMAN} \U0001f600 'q' \"d\" \\ \0 \n",
    "word": "two",
    "vec": [3.4028234663852886e38, -math.inf, 0.1],
    "blob": b"",
    "flags": [True, None, False],
    "i32s": [2**31 - 1],
    "i64s": [2**63 - 1, None],
    "u32s": [2**32 - 1],
    "u64s": [2**64 - 1, None],
    "f32s": [math.inf],
    "f64s": [math.inf, 1.7976931348623157e308],
    "days": [dt.date(2024, 2, 29)],
    "ats": [SPRING, AUTUMN, LAST],
    "texts": ["'", "\N{SNOWMAN}"],
}


@pytest.fixture(scope="module")
def extremes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = GraphBuilder.create(tmp_path_factory.mktemp("extremes") / "graph", SCHEMA)
    nan = {"name": "nan", "f32": math.nan, "f64": math.nan, "f64s": [math.nan]}
    # The blob that is not null comes first in the file: an empty one there would read as null.
    graph.write({"node:Extreme": [LOW, HIGH, {"name": "null"}, nan]})
    return graph.root


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """The session's time zone, put back at the end."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield str(request.param)
    spark.conf.set("spark.sql.session.timeZone", str(before))


def milliseconds(at: dt.datetime) -> int:
    return (at - dt.datetime(1970, 1, 1, tzinfo=UTC)) // dt.timedelta(milliseconds=1)


@pytest.mark.smoke
def test_every_value_is_exact_in_every_time_zone(
    spark: SparkSession, extremes: Path, zone: str
) -> None:
    """Times are compared as numbers inside Spark: Python would show them in its own zone."""
    frame = read(spark, extremes, type="Extreme", blobs="bytes").selectExpr(
        "* except (at, ats, f32, vec, f32s)",
        "unix_millis(at) as at",
        "transform(ats, t -> unix_millis(t)) as ats",
        "cast(f32 as double) as f32",
        "cast(vec as array<double>) as vec",
        "cast(f32s as array<double>) as f32s",
    )
    rows = {row["name"]: row.asDict() for row in frame.collect()}
    for given in (LOW, HIGH):
        expected = {**given, "id": given["name"], "at": milliseconds(given["at"])}
        expected["ats"] = [None if at is None else milliseconds(at) for at in given["ats"]]
        got = rows[given["name"]]
        # Numbers that 32 bits round; the vector of a row is no list of doubles.
        for column in ("vec",):
            assert got.pop(column) == pytest.approx(expected.pop(column), rel=1e-6, abs=1e-44)
        got["blob"] = bytes(got["blob"])
        assert got == expected
        assert str(got["f64"]) == str(expected["f64"]), "the sign of zero"
    nothing = rows["null"]
    assert {column for column, value in nothing.items() if value is not None} == {"id", "name"}
    assert all(math.isnan(rows["nan"][column]) for column in ("f32", "f64"))
    assert math.isnan(rows["nan"]["f64s"][0])


def test_a_time_is_an_instant_shown_in_the_session_s_zone(
    spark: SparkSession, extremes: Path, zone: str
) -> None:
    shown = read(spark, extremes, type="Extreme", where="name = 'high'").selectExpr(
        "cast(ats[0] as string)", "cast(ats[1] as string)", "cast(day as string)"
    )
    expected = {
        "UTC": ("2024-03-10 07:30:00.001", "2024-11-03 05:30:00.002", "9999-12-31"),
        "America/New_York": ("2024-03-10 03:30:00.001", "2024-11-03 01:30:00.002", "9999-12-31"),
    }
    assert shown.collect() == [expected[zone]]


def test_spark_s_types_are_those_of_the_table(spark: SparkSession, extremes: Path) -> None:
    types = dict(read(spark, extremes, type="Extreme").dtypes)
    assert types == {
        "id": "string",
        "name": "string",
        "flag": "boolean",
        "i32": "int",
        "i64": "bigint",
        "u32": "bigint",
        "u64": "decimal(20,0)",
        "f32": "float",
        "f64": "double",
        "day": "date",
        "at": "timestamp",
        "text": "string",
        "word": "string",
        "vec": "array<float>",
        "blob": "struct<kind:string,size:bigint,uri:string>",
        "flags": "array<boolean>",
        "i32s": "array<int>",
        "i64s": "array<bigint>",
        "u32s": "array<bigint>",
        "u64s": "array<decimal(20,0)>",
        "f32s": "array<float>",
        "f64s": "array<double>",
        "days": "array<date>",
        "ats": "array<timestamp>",
        "texts": "array<string>",
    }


@pytest.mark.smoke
def test_unsigned_numbers_add_up_in_spark(spark: SparkSession, extremes: Path) -> None:
    sums = read(spark, extremes, type="Extreme").selectExpr("sum(u32)", "sum(u64)").first()
    assert sums is not None
    assert (sums[0], int(sums[1])) == (2**32 - 1, 2**64 - 1)


def test_blobs_are_described_or_left_out(spark: SparkSession, extremes: Path) -> None:
    described = read(spark, extremes, type="Extreme").selectExpr("name", "blob.kind", "blob.size")
    assert sorted(map(tuple, described.collect())) == [
        ("high", "inline", 0),
        ("low", "inline", 2),
        ("nan", None, None),
        ("null", None, None),
    ]
    assert "blob" not in read(spark, extremes, type="Extreme", blobs="none").columns


def test_rows_survive_a_round_trip_through_parquet(
    spark: SparkSession, extremes: Path, tmp_path: Path
) -> None:
    frame = read(spark, extremes, type="Extreme", blobs="bytes")
    frame.coalesce(1).write.parquet(str(tmp_path / "copy"))
    copy = spark.read.parquet(str(tmp_path / "copy"))
    assert copy.dtypes == frame.dtypes
    # As text, because NaN is not equal to itself.
    assert str(copy.orderBy("id").toArrow().to_pylist()) == str(
        frame.orderBy("id").toArrow().to_pylist()
    )
