"""Addresses: one canonical form for every spelling, and none that could mean two places."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_spark.errors import InvalidNameError, UnsupportedError
from omnigraph_spark.storage.uri import canonical_root, is_s3, join, split_s3


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("/data/social", "/data/social"),
        ("/data/social/", "/data/social"),
        ("/data/social///", "/data/social"),
        ("/data//social", "/data/social"),
        ("/data/./x/../social", "/data/social"),
        ("file:///data/social", "/data/social"),
        ("file:///data/social/", "/data/social"),
        ("file:/data/social", "/data/social"),
        ("file://localhost/data/social", "/data/social"),
        ("FILE:///data/social", "/data/social"),
        ("file:///data/my%20graph", "/data/my graph"),
        ("file:///data/a%3Fb%23c", "/data/a?b#c"),
        # A plain path is no URL: nothing in it is decoded.
        ("/data/my%20graph", "/data/my%20graph"),
        ("/data/a?b#c", "/data/a?b#c"),
    ],
)
def test_every_spelling_of_a_local_path_is_one_absolute_path(text: str, canonical: str) -> None:
    assert canonical_root(text) == canonical
    assert not is_s3(canonical_root(text))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("social", "social"),
        ("./social/", "social"),
        ("sub/../social", "social"),
        ("s3:social", "s3:social"),
        ("C:/social", "C:/social"),
    ],
)
def test_a_relative_root_is_made_absolute_at_once(
    text: str, canonical: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert canonical_root(text) == os.path.join(tmp_path, canonical)


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/graphs/social",
        "s3a://bucket/graphs/social",
        "s3n://bucket/graphs/social",
        "S3A://bucket/graphs/social",
        "s3://bucket/graphs/social/",
        "s3://bucket/graphs/social//",
    ],
)
def test_every_spelling_of_an_s3_root_is_one_address(text: str) -> None:
    assert canonical_root(text) == "s3://bucket/graphs/social"
    assert is_s3(canonical_root(text))


def test_bucket_and_prefix_keep_their_case() -> None:
    assert canonical_root("S3://Bucket/Social") == "s3://Bucket/Social"


@pytest.mark.parametrize("text", ["", " ", "\n", "/data/a\0b", "s3://bucket/a\0b"])
def test_a_root_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidNameError, match="a local path, file:// or s3:// address"):
        canonical_root(text)


@pytest.mark.parametrize("text", ["file://", "file://data/social", "file:///a%00b"])
def test_a_file_address_without_an_absolute_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidNameError, match="followed by an absolute path"):
        canonical_root(text)


@pytest.mark.parametrize("text", ["file:///data/a?b", "file:///data/a#b"])
def test_a_file_address_is_not_cut_at_a_query_or_fragment(text: str) -> None:
    with pytest.raises(InvalidNameError, match="'\\?' is written %3F and '#' is written %23"):
        canonical_root(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3://",
        "s3:///social",
        "s3://bucket",
        "s3://bucket/",
        "s3://bucket//social",
        "s3://bucket/a//b",
        "s3://bucket/../other/social",
        "s3://bucket/a/../b",
        "s3://bucket/./social",
        "s3:/bucket/social",
    ],
)
def test_an_s3_root_has_a_bucket_and_a_prefix_without_empty_or_dotted_parts(text: str) -> None:
    with pytest.raises(InvalidNameError, match="s3://bucket/prefix"):
        canonical_root(text)


@pytest.mark.parametrize("letter", ["%", "?", "#"])
def test_a_letter_that_lance_and_boto3_read_differently_is_refused_on_s3(letter: str) -> None:
    with pytest.raises(InvalidNameError, match="which Lance takes for a part of a URL"):
        canonical_root(f"s3://bucket/a{letter}20b")


@pytest.mark.parametrize("scheme", ["hdfs", "gs", "az", "http", "https", "memory", "dbfs", "s3+x"])
def test_another_scheme_is_not_supported_and_the_error_says_what_is(scheme: str) -> None:
    with pytest.raises(UnsupportedError, match="use a local path, file:// or s3://"):
        canonical_root(f"{scheme}://host/social")


SEGMENT = st.text(st.sampled_from("aZ9._- +é名=@&'"), min_size=1, max_size=6).filter(
    lambda part: part not in (".", "..")
)


@given(st.lists(SEGMENT, min_size=1, max_size=4))
def test_a_canonical_address_stays_as_it_is(parts: list[str]) -> None:
    for root in ("/" + "/".join(parts), "s3://bucket/" + "/".join(parts)):
        assert canonical_root(root) == root
        assert canonical_root(canonical_root(root)) == root
        assert canonical_root(root + "/") == root


@given(st.lists(SEGMENT, min_size=1, max_size=4), SEGMENT)
def test_what_was_joined_to_an_s3_address_is_in_its_key(parts: list[str], bucket: str) -> None:
    root = f"s3://{bucket}/" + "/".join(parts)
    assert split_s3(join(root, "nodes", "tree/dev")) == (
        bucket,
        "/".join([*parts, "nodes", "tree", "dev"]),
    )


def test_joining_nothing_changes_nothing() -> None:
    assert join("/data/social") == "/data/social"
