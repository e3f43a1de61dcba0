"""Errors: a stable code first, facts in fields, a remedy for each, and safe to send."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph_spark
from omnigraph_spark import errors
from omnigraph_spark.errors import (
    BranchNotFoundError,
    ColumnNotFoundError,
    NotFoundError,
    OmnigraphError,
    OptionError,
    SchemaError,
    StorageError,
    TypeNotFoundError,
    UnsupportedError,
    VersionNotFoundError,
    all_errors,
    errors_table,
    nearest,
)
from omnigraph_spark.errors.base import hint, known_names

CLASSES = list(all_errors())
EACH = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
FEW = settings(max_examples=4, deadline=None)

WORD = st.text(st.sampled_from("abcXYZ /'-"), min_size=1, max_size=12)
#: Facts in one line, by how a field is annotated.
ONE_LINE = {
    "str": WORD,
    "str | None": st.none() | WORD,
    "tuple[str, ...]": st.lists(WORD, max_size=20).map(tuple),
}


def facts(error: OmnigraphError) -> dict[str, object]:
    return {field.name: getattr(error, field.name) for field in fields(error)}


def modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(omnigraph_spark.__path__, "omnigraph_spark."):
        yield module.name


def test_every_error_is_declared_in_the_errors_package_and_exported_from_it() -> None:
    for name in modules():
        importlib.import_module(name)
    everywhere = {cls for cls in all_errors() if cls.__module__.startswith("omnigraph_spark")}
    assert everywhere == {getattr(errors, cls.__name__) for cls in everywhere}
    assert {cls.__name__ for cls in everywhere} < set(errors.__all__)


def test_no_two_errors_share_a_code() -> None:
    codes = [cls.code for cls in CLASSES]
    assert sorted(codes) == sorted(set(codes))


@EACH
def test_every_error_has_a_code_and_a_remedy_of_its_own(cls: type[OmnigraphError]) -> None:
    assert re.fullmatch(r"OMNIGRAPH(_[A-Z]+)+", vars(cls)["code"])
    assert re.fullmatch(r"[A-Z].*\.", vars(cls)["remedy"])


@EACH
def test_every_error_says_in_its_first_line_what_it_means(cls: type[OmnigraphError]) -> None:
    meaning = (vars(cls)["__doc__"] or "").splitlines()[0]
    # Without a docstring a dataclass writes its signature there.
    assert re.fullmatch(r"[A-Z][^()]*\.", meaning)


@EACH
def test_every_error_is_one_of_ours(cls: type[OmnigraphError]) -> None:
    assert issubclass(cls, OmnigraphError)
    assert cls.__name__.endswith("Error")


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(NotFoundError, LookupError)
    assert issubclass(OptionError, ValueError)
    assert issubclass(SchemaError, ValueError)
    assert issubclass(UnsupportedError, NotImplementedError)


@EACH
@FEW
@given(data=st.data())
def test_the_text_of_an_error_starts_with_its_code_and_goes_on(
    cls: type[OmnigraphError], data: st.DataObject
) -> None:
    error = data.draw(st.builds(cls))
    assert str(error).startswith(f"[{cls.code}] ")
    assert len(str(error)) > len(f"[{cls.code}] ")
    assert error.describe() == str(error).removeprefix(f"[{cls.code}] ")


@EACH
@FEW
@given(data=st.data())
def test_an_error_keeps_its_facts_on_the_way_to_another_process(
    cls: type[OmnigraphError], data: st.DataObject
) -> None:
    error = data.draw(st.builds(cls))
    for arrived in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(arrived) is cls
        assert facts(arrived) == facts(error)
        assert str(arrived) == str(error)


@EACH
@FEW
@given(data=st.data())
def test_facts_in_one_line_make_a_text_in_one_line(
    cls: type[OmnigraphError], data: st.DataObject
) -> None:
    in_one_line = {
        field.name: ONE_LINE[field.type] for field in fields(cls) if field.type in ONE_LINE
    }
    error = data.draw(st.builds(cls, **in_one_line))
    assert "\n" not in str(error)


def find_branch(name: str, branches: dict[str, int]) -> int:
    try:
        return branches[name]
    except KeyError as error:
        raise BranchNotFoundError(name, tuple(branches)) from error


def test_an_error_can_be_raised_caught_by_its_base_and_keeps_its_cause() -> None:
    with pytest.raises(NotFoundError) as caught:
        find_branch("dev", {"main": 4})
    assert isinstance(caught.value.__cause__, KeyError)
    assert str(caught.value) == (
        "[OMNIGRAPH_BRANCH_NOT_FOUND] branch 'dev' does not exist; this graph has main"
    )


def test_two_errors_with_the_same_facts_are_two_errors() -> None:
    assert BranchNotFoundError("dev") != BranchNotFoundError("dev")
    assert len({BranchNotFoundError("dev"), BranchNotFoundError("dev")}) == 2


# -- the phrases they share --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("Persn", ("node:Person", "node:Company"), "node:Person"),
        ("PERSON", ("Person", "Company"), "Person"),
        ("xyz", ("Person", "Company"), None),
        ("Person", (), None),
    ],
)
def test_the_nearest_known_word_is_found_without_case(
    word: str, known: tuple[str, ...], meant: str | None
) -> None:
    assert nearest(word, known) == meant


def test_a_hint_names_the_likely_word_or_all_there_are() -> None:
    assert hint("nme", ("name", "age")) == "; did you mean 'name'?"
    assert hint("xyz", ("name", "age")) == "; known are name, age"
    assert hint("xyz", ()) == "; known are none"


def test_a_long_list_of_names_is_cut_with_the_count_of_the_rest() -> None:
    names = tuple(f"t{number}" for number in range(15))
    assert known_names(names[:12]) == ", ".join(names[:12])
    assert known_names(names) == ", ".join(names[:12]) + " and 3 more"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            TypeNotFoundError("Persn", ("edge:Knows", "node:Person")),
            "type 'Persn' is not in this snapshot; did you mean 'node:Person'?",
        ),
        (
            ColumnNotFoundError("node:Person", "zzz", ("id", "name")),
            "node:Person has no column 'zzz'; known are id, name",
        ),
        (
            VersionNotFoundError("dev", 2, 9, "began at 4"),
            "branch 'dev' has no manifest version 2; its newest is 9 (began at 4)",
        ),
        (
            StorageError("permission", "/data/g", "denied"),
            "permission storage failure at '/data/g': denied",
        ),
    ],
)
def test_an_error_says_what_happened_and_what_would_have_worked(
    error: OmnigraphError, text: str
) -> None:
    assert str(error) == f"[{error.code}] {text}"


# -- the README --------------------------------------------------------------------------------


def test_the_table_has_one_line_per_error_with_meaning_and_remedy() -> None:
    header, rule, *lines = errors_table().splitlines()
    assert header == "| code | class | meaning | what to do |"
    assert rule == "|---|---|---|---|"
    assert [line.split(" | ")[:2] for line in lines] == [
        [f"| `{cls.code}`", f"`{cls.__name__}`"] for cls in CLASSES
    ]
    assert all(line.count(" | ") == 3 and line.endswith(" |") for line in lines)


def test_the_table_begins_with_the_root_and_lists_a_base_before_its_errors() -> None:
    assert CLASSES[0] is OmnigraphError
    for place, cls in enumerate(CLASSES[1:], start=1):
        assert set(cls.__bases__) & set(CLASSES[:place])
