"""How many requests Lance makes on an object store: the ground our own costs stand on."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.helpers.s3 import S3Server

#: Lance reads the end of a file first, this much of it; a smaller file comes whole, in one request.
BLOCK = 64 << 10


@pytest.fixture
def stored(s3: S3Server, tmp_path: Path) -> str:
    """A dataset of three versions and two fragments, the larger of which is above one block."""
    text = [f"{number:0256x}"[::-1] for number in range(7**8, 7**8 + 2_000 * 7**4, 7**4)]
    local = str(tmp_path / "texts")
    lance.write_dataset(pa.table({"text": text}), local, data_storage_version="2.2")
    lance.write_dataset(pa.table({"text": ["short"]}), local, mode="append")
    dataset = lance.write_dataset(pa.table({"text": ["shorter"]}), local, mode="append")
    sizes = [fragment.metadata.files[0].file_size_bytes for fragment in dataset.get_fragments()]
    assert sizes[0] > BLOCK > sizes[1]
    uri = s3.upload(Path(local), f"s3://{s3.make_bucket()}/texts")
    s3.reset()
    return uri


def test_opening_a_version_costs_two_requests_and_one_in_a_warm_session(
    s3: S3Server, stored: str
) -> None:
    session = lance.Session()

    lance.dataset(stored, version=3, storage_options=s3.storage_options, session=session)
    assert s3.counts() == {"HEAD": 1, "GET": 1}

    s3.reset()
    lance.dataset(stored, version=3, storage_options=s3.storage_options, session=session)
    assert s3.counts() == {"HEAD": 1}


def test_opening_the_newest_version_costs_a_listing_in_place_of_the_probe(
    s3: S3Server, stored: str
) -> None:
    session = lance.Session()

    lance.dataset(stored, storage_options=s3.storage_options, session=session)
    assert s3.counts() == {"LIST": 1, "GET": 1}

    s3.reset()
    lance.dataset(stored, storage_options=s3.storage_options, session=session)
    assert s3.counts() == {"LIST": 1}


def test_the_newest_version_is_found_in_the_first_page_of_the_listing(
    s3: S3Server, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")  # S3 itself: 1,000
    bucket, _, prefix = stored.removeprefix("s3://").partition("/")
    page = s3.client().list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/_versions/")
    assert page["IsTruncated"]
    s3.reset()

    assert lance.dataset(stored, storage_options=s3.storage_options).version == 3
    assert s3.counts() == {"LIST": 1, "GET": 1}


def test_fragments_rows_and_sizes_cost_nothing_once_a_dataset_is_open(
    s3: S3Server, stored: str
) -> None:
    dataset = lance.dataset(stored, version=3, storage_options=s3.storage_options)
    s3.reset()

    fragments = dataset.get_fragments()
    assert dataset.count_rows() == sum(fragment.metadata.num_rows for fragment in fragments)
    assert all(fragment.metadata.files[0].file_size_bytes for fragment in fragments)
    assert dataset.schema.names == ["text"]
    assert s3.requests() == []


def test_a_file_within_one_block_is_read_in_one_request_and_a_larger_one_is_not(
    s3: S3Server, stored: str
) -> None:
    dataset = lance.dataset(stored, version=3, storage_options=s3.storage_options)
    large, small, _ = dataset.get_fragments()

    s3.reset()
    dataset.scanner(fragments=[small]).to_table()
    assert s3.counts() == {"GET": 1}

    s3.reset()
    dataset.scanner(fragments=[large]).to_table()
    assert s3.counts()["GET"] > 1


def test_a_larger_block_reads_a_larger_file_in_one_request(s3: S3Server, stored: str) -> None:
    dataset = lance.dataset(
        stored, version=3, storage_options=s3.storage_options, block_size=16 * BLOCK
    )
    large, _, _ = dataset.get_fragments()
    s3.reset()

    dataset.scanner(fragments=[large]).to_table()

    assert s3.counts() == {"GET": 1}


def test_a_missing_version_on_s3_says_so_and_costs_several_requests(
    s3: S3Server, stored: str
) -> None:
    # So it is no way to ask whether a version exists: one listing or one HEAD of our own is.
    with pytest.raises(ValueError, match=r"/_versions/4\.manifest was not found"):
        lance.dataset(stored, version=4, storage_options=s3.storage_options)

    assert s3.counts()["HEAD"] > 1
