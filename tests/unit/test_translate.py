"""Lance's errors become ours: the kind says what to do, the text is one line without its source."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph_spark.errors import (
    InvalidOptionError,
    OmnigraphError,
    StorageError,
    UnsupportedError,
)
from omnigraph_spark.storage.translate import NOT_FOUND, PERMANENT, lance_errors, lance_text
from tests.helpers.denied import denied


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("plain words", "plain words"),
        (
            "Invalid user input: no such thing, /home/runner/work/lance/rust/lance/src/x.rs:12:7",
            "no such thing",
        ),
        ("LanceError(IO): External error: gone, /rustc/17067e9ac6d/library/b.rs:1:2", "gone"),
        ("Schema error: No field named x.", "No field named x"),
        ("first line\n  second line\n", "first line second line"),
        (
            "Error parsing statement: SELECT 1 FROM t WHERE (a >) (sql parser error: Expected: x)",
            "Expected: x",
        ),
        ("Generic LocalFileSystem error: Unable to walk dir", "Unable to walk dir"),
        (
            "HEAD k - Server returned non-2xx status code: 400 Bad Request:\n",
            (
                "HEAD k - Server returned non-2xx status code: 400 Bad Request, without a "
                "reason: that is how servers refuse credentials that have expired"
            ),
        ),
        # Words of ours in the middle stay.
        ("the External error: is here", "the External error: is here"),
        ("", ""),
    ],
)
def test_what_lance_says_is_kept_without_prefixes_line_breaks_and_source(
    said: str, text: str
) -> None:
    assert lance_text(ValueError(said)) == text


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "d"
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), path)
    return path


def failure_of_reading(path: Path, version: int | None = None) -> StorageError:
    with pytest.raises(StorageError) as failed, lance_errors(str(path)):
        lance.dataset(path, version=version).to_table()
    return failed.value


def test_nothing_is_changed_about_a_call_that_works(dataset: Path) -> None:
    with lance_errors(str(dataset)):
        assert lance.dataset(dataset).count_rows() == 3


def test_a_missing_dataset_or_version_is_not_found(dataset: Path) -> None:
    assert failure_of_reading(dataset.parent / "missing").kind == NOT_FOUND
    assert failure_of_reading(dataset, version=7).kind == NOT_FOUND


def test_a_missing_data_file_is_not_found(dataset: Path) -> None:
    for file in (dataset / "data").iterdir():
        file.unlink()
    assert failure_of_reading(dataset).kind == NOT_FOUND


@pytest.mark.parametrize("content", [b"", b"not a Lance file"])
def test_a_file_that_is_cut_short_or_foreign_is_a_permanent_failure(
    content: bytes, dataset: Path
) -> None:
    for file in (dataset / "data").iterdir():
        file.write_bytes(content)
    assert failure_of_reading(dataset).kind == PERMANENT


def test_a_denied_permission_is_said_to_be_one(dataset: Path) -> None:
    with denied(dataset):
        failed = failure_of_reading(dataset)
    assert failed.kind == "permission"


def test_the_failure_names_the_dataset_and_keeps_its_cause(dataset: Path) -> None:
    failed = failure_of_reading(dataset, version=7)
    assert failed.target == str(dataset)
    assert isinstance(failed.__cause__, ValueError | OSError)
    assert "\n" not in str(failed)
    assert ".rs:" not in str(failed)


@pytest.mark.parametrize(
    "ours", [UnsupportedError("x", "y"), InvalidOptionError("a", "b", "c"), StorageError(*"abc")]
)
def test_an_error_of_ours_passes_unchanged(ours: OmnigraphError) -> None:
    with pytest.raises(type(ours)) as passed, lance_errors("/d"):
        raise ours
    assert passed.value is ours


@pytest.mark.parametrize("other", [KeyError("x"), TypeError("x"), KeyboardInterrupt()])
def test_what_is_no_failure_of_storage_is_left_alone(other: BaseException) -> None:
    with pytest.raises(type(other)) as passed, lance_errors("/d"):
        raise other
    assert passed.value is other


def test_a_panic_inside_lance_is_an_error_of_ours() -> None:
    # As Lance's binding raises it: a class of this name that is no Exception.
    panic = type("PanicException", (BaseException,), {})
    with pytest.raises(StorageError, match="Lance panicked: boom") as failed, lance_errors("/d"):
        raise panic("boom")
    assert failed.value.kind == PERMANENT
