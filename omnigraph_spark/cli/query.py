"""SQL on a graph: a prompt, or statements from the command line, with local Spark and the jar."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from omnigraph_spark.cli.shared import cli, exit_code, json_option, table
from omnigraph_spark.errors import UnsupportedError, all_errors
from omnigraph_spark.graph import open as open_graph

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph_spark.session.local import Answer

#: Rows that are shown of an answer; a query has LIMIT for more and less.
_SHOWN = 1000


@cli.command()
@click.argument("root")
@click.option("-e", "--execute", help="Statements to run, separated by semicolons, and no prompt.")
@click.option("--catalog", default="og", show_default=True, help="What the graph is called in SQL.")
@json_option
def sql(root: str, execute: str | None, catalog: str, as_json: bool) -> None:
    """Ask the graph at ROOT in SQL.

    Such as SELECT * FROM og.nodes.Person. Without -e statements are read from the terminal or a
    pipe; each ends with a semicolon. One that fails ends the command, except at the prompt.
    """
    open_graph(root, mode="r")
    from omnigraph_spark.session.configure import jar_path
    from omnigraph_spark.session.local import local_session

    if jar_path() is None:
        raise UnsupportedError("sql in an installation without the jar", "build it with make jar")
    spark = local_session("omnigraph-spark sql", catalogs={catalog: root})
    try:
        lines = _lines() if execute is None else iter([execute, ";"])
        prompts = execute is None and sys.stdin.isatty()
        problem = answer_all(spark, lines, as_json, goes_on=prompts)
    finally:
        spark.stop()
    if problem is not None:
        sys.exit(_exit_code(problem))


def answer_all(
    spark: SparkSession, lines: Iterator[str], as_json: bool, *, goes_on: bool
) -> str | None:
    """Answer statement after statement; return what is wrong with the one that ended it."""
    from omnigraph_spark.session.local import answer_or_problem

    for statement in statements(lines):
        if statement.lower() in ("exit", "quit"):
            break
        found = answer_or_problem(spark, statement, _SHOWN)
        if not isinstance(found, str):
            _print(found, as_json)
            continue
        click.echo(found, err=True)
        if not goes_on:
            return found
    return None


def _exit_code(problem: str) -> int:
    """Return the exit code of a problem, of which Spark left the text: it has the error's code."""
    codes = re.findall(r"\[(OMNIGRAPH_\w+)\]", problem)
    known = [error for error in all_errors() if error.code in codes]
    return max(map(exit_code, known), default=1)


def _lines() -> Iterator[str]:
    """Yield lines as they are typed, or as they come."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    # Imported for what it does to input(): arrows bring back earlier lines.
    import readline  # noqa: F401

    click.echo("Statements end with a semicolon; exit; or Ctrl-D ends.", err=True)
    while True:
        try:
            yield input("sql> ") + "\n"
        except EOFError:
            return


def statements(lines: Iterator[str] | list[str]) -> Iterator[str]:
    """Cut lines into statements at semicolons outside of quotes.

    >>> list(statements(["select ';' ", "as x; select 2", ";"]))
    ["select ';' as x", 'select 2']
    """
    held, quote = "", ""
    for line in lines:
        for letter in line:
            if letter == ";" and not quote:
                if held.strip():
                    yield held.strip()
                held = ""
                continue
            if quote:
                quote = "" if letter == quote else quote
            elif letter in "'\"`":
                quote = letter
            held += letter
    if held.strip() and not quote:
        yield held.strip()


def _print(found: Answer, as_json: bool) -> None:
    """Print an answer: a table on a terminal, else tab-separated lines or JSON lines."""
    columns, rows = found
    if as_json:
        for row in rows:
            click.echo(json.dumps(row.asDict(recursive=True), ensure_ascii=False, default=str))
    elif sys.stdout.isatty() and columns:
        from rich.console import Console

        Console().print(table(None, columns, rows))
    else:
        for number, row in enumerate([columns, *rows]):
            if number or rows:
                click.echo("\t".join("NULL" if cell is None else str(cell) for cell in row))
