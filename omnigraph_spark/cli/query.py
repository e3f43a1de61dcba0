"""SQL on a graph: a prompt, or statements from the command line, with local Spark and the jar."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from omnigraph_spark.cli.shared import cli, exit_code, json_option, table
from omnigraph_spark.cli.statements import Statements, UnclosedError, statements
from omnigraph_spark.errors import UnsupportedError, all_errors
from omnigraph_spark.graph import open as open_graph

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

#: Rows of an answer that a terminal shows; a pipe and JSON get all.
_SHOWN = 1000


@cli.command()
@click.argument("root")
@click.option("-e", "--execute", help="Statements to run, separated by semicolons, and no prompt.")
@click.option("--catalog", default="og", show_default=True, help="What the graph is called in SQL.")
@json_option
def sql(root: str, execute: str | None, catalog: str, as_json: bool) -> None:
    """Ask the graph at ROOT in SQL.

    Such as SELECT * FROM og.nodes.Person. Without -e statements are read from the terminal or a
    pipe; each ends with a semicolon. One that fails ends the command, except at the prompt. A
    terminal shows the first 1,000 rows of an answer; a pipe and --json get all of them.
    """
    open_graph(root, mode="r")
    from omnigraph_spark.session.configure import jar_path
    from omnigraph_spark.session.local import local_session

    if jar_path() is None:
        raise UnsupportedError("sql in an installation without the jar", "build it with make jar")
    prompts = execute is None and sys.stdin.isatty()
    try:
        given: Iterable[str]
        if execute is not None:
            # All of it is looked at before any of it runs.
            given = list(statements([execute]))
        else:
            given = typed() if prompts else statements(sys.stdin)
        spark = local_session("omnigraph-spark sql", catalogs={catalog: root})
        try:
            problem = answer_all(spark, given, as_json, goes_on=prompts)
        finally:
            spark.stop()
    except UnclosedError as error:
        raise click.UsageError(str(error)) from error
    if problem is not None:
        sys.exit(_exit_code(problem))


def answer_all(
    spark: SparkSession, given: Iterable[str], as_json: bool, *, goes_on: bool
) -> str | None:
    """Answer statement after statement; return what is wrong with the one that ended it."""
    from omnigraph_spark.session.local import StatementError, answer, problems_told

    shortens = sys.stdout.isatty() and not as_json
    for statement in given:
        if statement.lower() in ("exit", "quit"):
            break
        try:
            with problems_told():
                # One row more than is shown tells that there are more.
                _print(*answer(spark, statement, _SHOWN + 1 if shortens else None), as_json)
        except StatementError as problem:
            click.echo(str(problem), err=True)
            if not goes_on:
                return str(problem)
        except KeyboardInterrupt:
            if not goes_on:
                raise
            click.echo("interrupted", err=True)
    return None


def _exit_code(problem: str) -> int:
    """Return the exit code of a problem, of which Spark left the text: it has the error's code."""
    codes = re.findall(r"\[(OMNIGRAPH_\w+)\]", problem)
    known = [error for error in all_errors() if error.code in codes]
    return max(map(exit_code, known), default=1)


def typed() -> Iterator[str]:
    """Yield statements as they are typed; Ctrl-C forgets the one begun, Ctrl-D ends."""
    # Imported for what it does to input(): arrows bring back earlier lines.
    import readline  # noqa: F401

    click.echo("Statements end with a semicolon; exit; or Ctrl-D ends.", err=True)
    scanner = Statements()
    while True:
        try:
            line = input("...> " if scanner.begun else "sql> ")
        except KeyboardInterrupt:
            click.echo(err=True)
            scanner = Statements()
            continue
        except EOFError:
            click.echo(err=True)
            return
        yield from scanner.take(line + "\n")


def _print(columns: Sequence[str], rows: Iterable[Row], as_json: bool) -> None:
    """Print an answer: a table on a terminal, else tab-separated lines or JSON lines."""
    if as_json:
        for row in rows:
            click.echo(json.dumps(row.asDict(recursive=True), ensure_ascii=False, default=str))
    elif columns and sys.stdout.isatty():
        _print_table(columns, list(rows))
    elif columns:
        click.echo("\t".join(columns))
        for row in rows:
            click.echo("\t".join("NULL" if cell is None else str(cell) for cell in row))


def _print_table(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print what is shown of an answer, and whether there is more."""
    from rich.console import Console

    Console().print(table(None, columns, rows[:_SHOWN]))
    if len(rows) > _SHOWN:
        more = f"The first {_SHOWN:,} rows, and there are more: a pipe or --json gets all."
        click.echo(more, err=True)
