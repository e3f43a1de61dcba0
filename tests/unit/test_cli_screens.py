"""What the command line shows on a terminal of 80 columns, and all of its exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import Row, SparkSession

import omnigraph_spark as og
from omnigraph_spark.cli import cli, main, query
from omnigraph_spark.session.local import StatementError
from tests.helpers.golden import unpack
from tests.helpers.terminal import Typing, on_terminal


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A graph with a branch that contradicts main about one row, and one that does not."""
    root = tmp_path_factory.mktemp("screens") / "g"
    graph = og.create(root, "node Person { name: String @key age: I32? city: String? }")
    graph.write(pa.table({"name": ["ann"], "age": [1], "city": ["Ulm"]}), "Person", actor="etl-job")
    for branch in ("clashing", "fitting"):
        graph.create_branch(branch)
    for branch, name, age in (("clashing", "ann", 2), ("main", "ann", 3), ("fitting", "bob", 4)):
        row = pa.table({"name": [name], "age": [age], "city": ["Ulm"]})
        graph.write(row, "Person", mode="merge", branch=branch, actor="etl-job")
    return graph.root


def lines_of(*arguments: str, code: int = 0) -> list[str]:
    shown = on_terminal(80, *arguments, code=code).splitlines()
    assert max(map(len, shown)) <= 80
    return [line.rstrip() for line in shown]


def test_ids_of_commits_and_branches_stay_on_one_line(forked: str) -> None:
    newest = og.open(forked).snapshot().commit
    row = f"{newest.manifest_version:>7}  {newest.id}  etl-job "
    assert any(line.startswith(row) for line in lines_of("commits", forked))
    assert any(newest.id in line for line in lines_of("branch", "list", forked))
    told = f"newest commit {newest.id}, {newest.created_at:%Y-%m-%d %H:%M:%S} UTC by etl-job"
    assert told in lines_of("info", forked)


def test_a_difference_is_a_table_of_counts(forked: str) -> None:
    title, _, header, _, row, *_ = lines_of("diff", forked, "main", "fitting")
    assert title.startswith("main@")
    assert header.split() == ["type", "added", "removed", "changed"]
    assert row.split() == ["node:Person", "1", "0", "1"]


def test_a_conflict_shows_both_rows_side_by_side_in_the_columns_that_differ(forked: str) -> None:
    for more in ((), ("--dry-run",)):
        shown = "\n".join(lines_of("merge", forked, "clashing", *more, code=3))
        assert "1 conflict\n" in shown
        [row] = [line for line in shown.splitlines() if "DivergentUpdate" in line]
        assert row.index("age: 1") < row.index("age: 3") < row.index("age: 2")
        assert "city" not in row
        assert "--resolve ours" in shown
    assert "[OMNIGRAPH_MERGE_CONFLICTS]" in "\n".join(lines_of("merge", forked, "clashing", code=3))


def test_a_merge_that_would_work_says_how_many_rows_of_which_types(forked: str) -> None:
    head, _, header, _, row, *_ = lines_of("merge", forked, "fitting", "--dry-run")
    assert head == "merging fitting into main: both changed"
    assert header.split() == ["type", "inserted", "updated", "deleted"]
    assert row.split() == ["node:Person", "1", "0", "0"]


# -- exit codes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["info", "{forked}"], 0),
        (["info", "{forked}/nowhere"], 1),
        (["merge", "{forked}"], 2),
        (["merge", "{forked}", "clashing"], 3),
        (["recover", "{stuck}"], 4),
    ],
    ids=["done", "failed", "wrong usage", "conflict", "recovery needed"],
)
def test_every_way_to_end_has_its_exit_code_and_says_nothing_else_in_a_pipe(
    arguments: list[str],
    code: int,
    forked: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stuck = unpack("crashed-foreign-commit", tmp_path / "stuck")
    places = {"forked": forked, "stuck": stuck}
    with pytest.raises(SystemExit) as ended:
        main([word.format(**places) for word in arguments])
    printed = capsys.readouterr()
    assert ended.value.code == code
    assert (printed.err == "") == (code == 0)
    assert (printed.out == "") == (code != 0)
    assert "\x1b" not in printed.out + printed.err


def test_a_warning_is_one_line_and_what_is_in_the_way_can_be_forced(tmp_path: Path) -> None:
    records = tmp_path / "people.jsonl"
    records.write_text('{"type":"Person","data":{"name":"ada"}}\n')
    stuck = str(unpack("crashed-foreign-commit", tmp_path / "stuck"))
    shown = on_terminal(400, "load", stuck, str(records), "--mode", "merge", code=4)
    warned, failed = [line for line in shown.splitlines() if "[OMNIGRAPH" in line]
    assert warned.startswith("warning: [OMNIGRAPH_FOREIGN_COMMIT] ")
    assert failed.startswith("[OMNIGRAPH_FOREIGN_COMMIT] ")
    done = CliRunner().invoke(cli, ["recover", stuck, "--force", "--json"], catch_exceptions=False)
    [recovered] = json.loads(done.stdout)
    assert (recovered["kind"], recovered["types"]) == ("RolledBack", ["node:Person"])


# -- the demonstration -----------------------------------------------------------------------------


@pytest.fixture
def short_demo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A demonstration of two steps, without Spark."""

    def run() -> None:
        for step in ("One", "Two"):
            click.echo(f"\n== {step}\n   call({step})\n+---+\n| 1 |\n+---+\n")
        click.echo("\nWhere to go next\n  README.md")

    monkeypatch.setattr("omnigraph_spark.demo.run_demo", run)
    return


@pytest.mark.usefixtures("short_demo")
def test_the_demonstration_as_json_is_a_list_of_steps() -> None:
    done = CliRunner().invoke(cli, ["demo", "--json"], catch_exceptions=False)
    table = "+---+\n| 1 |\n+---+"
    assert json.loads(done.stdout) == [
        {"step": step, "call": f"call({step})", "printed": table} for step in ("One", "Two")
    ]


# -- SQL -------------------------------------------------------------------------------------------

_NO_SPARK = cast("SparkSession", None)  # never asked: the answers are made up


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Answers without Spark; the value holds how many rows each statement was asked for."""
    asked: list[int | None] = []

    def answer(_: object, statement: str, most: int | None) -> tuple[list[str], Iterator[Row]]:
        asked.append(most)
        if "wrong" in statement:
            raise StatementError("[OMNIGRAPH_TYPE_NOT_FOUND] no type 'wrong'")
        if "long" in statement:
            raise KeyboardInterrupt
        rows = [Row(n=1), Row(n=None)] if "many" not in statement else [Row(n=7)] * 2500
        return ["n"], iter(rows[:most])

    monkeypatch.setattr("omnigraph_spark.session.local.answer", answer)
    return asked


@pytest.mark.usefixtures("answers")
@pytest.mark.parametrize(("goes_on", "answered"), [(True, 2), (False, 1)], ids=["prompt", "pipe"])
def test_a_statement_that_fails_is_told_and_ends_a_script_but_not_the_prompt(
    goes_on: bool, answered: int, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["SELECT 1", "SELECT * FROM wrong", "SELECT\n2", "exit", "SELECT 3"]
    problem = query.answer_all(_NO_SPARK, given, as_json=False, goes_on=goes_on)
    assert (problem is None) == goes_on
    printed = capsys.readouterr()
    assert printed.out == "n\n1\nNULL\n" * answered
    assert printed.err == "[OMNIGRAPH_TYPE_NOT_FOUND] no type 'wrong'\n"


def test_a_pipe_and_json_get_all_rows(
    answers: list[int | None], capsys: pytest.CaptureFixture[str]
) -> None:
    query.answer_all(_NO_SPARK, ["SELECT many"], as_json=False, goes_on=False)
    assert capsys.readouterr().out.splitlines() == ["n", *["7"] * 2500]
    query.answer_all(_NO_SPARK, ["SELECT many"], as_json=True, goes_on=False)
    assert capsys.readouterr().out.splitlines() == ['{"n": 7}'] * 2500
    assert answers == [None, None]


@pytest.fixture
def local_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """What starts Spark for the command `sql` starts nothing."""
    session = SimpleNamespace(stop=lambda: None)
    monkeypatch.setattr("omnigraph_spark.session.local.local_session", lambda *_, **__: session)
    monkeypatch.setattr("omnigraph_spark.session.configure.jar_path", lambda: "the.jar")


@pytest.mark.usefixtures("local_spark")
def test_a_terminal_shows_a_thousand_rows_and_says_that_there_are_more(
    forked: str, answers: list[int | None]
) -> None:
    shown = on_terminal(80, "sql", forked, "-e", "SELECT many;").splitlines()
    assert [line.strip() for line in shown].count("7") == 1000
    assert shown[-1] == "The first 1,000 rows, and there are more: a pipe or --json gets all."
    assert "more" not in on_terminal(80, "sql", forked, "-e", "SELECT 1")
    assert answers == [1001, 1001]


#: A program that answers what is typed without Spark; a long statement waits for Ctrl-C.
_PROMPT = """
import signal
from omnigraph_spark.cli import query
from omnigraph_spark.session import local

def answer(_, statement, most):
    if "long" in statement:
        print("at work", flush=True)
        signal.pause()
    return ["n"], [(f"<{statement}>",)]

local.answer = answer
assert query.answer_all(None, query.typed(), False, goes_on=True) is None
"""


def test_at_the_prompt_ctrl_c_cancels_what_is_begun_or_at_work_and_ctrl_d_ends() -> None:
    with Typing(_PROMPT) as prompt:
        prompt.see("sql> ").type("SELECT 'begun;\n").see("...> ").interrupt("sql> ")
        prompt.type("-- it's a comment\n").see("sql> ").type("SELECT\n").see("...> ")
        prompt.type("1;\n").see("1>").see("sql> ").type("SELECT long;\n").see("at work")
        prompt.interrupt("interrupted").see("sql> ").type("SELECT 2; quit").see("quit")
        prompt.interrupt("sql> ").type("SELECT 3;\n").see("<SELECT 3>").see("sql> ").type("\x04")
    assert prompt.code == 0
    assert "SELECT 2>" not in prompt.shown
    assert "begun;>" not in prompt.shown


@pytest.mark.usefixtures("local_spark")
def test_text_that_ends_within_quotes_is_wrong_usage_and_none_of_it_runs(
    forked: str, answers: list[int | None], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sql", forked, "-e", "SELECT 1; SELECT 'open;"])
    assert ended.value.code == 2
    assert "the quote ' in line 1 has no end" in capsys.readouterr().err
    assert answers == []
