"""The command line, `omnigraph-spark`: thin; every command is one call of the library.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 conflict, 4 recovery needed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

import click

# Importing a module adds its commands to the group.
from omnigraph_spark.cli import branches, content, query, review, upkeep
from omnigraph_spark.cli.shared import cli, exit_code
from omnigraph_spark.errors import OmnigraphError

__all__ = ["branches", "cli", "content", "main", "query", "review", "upkeep"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors and warnings of ours are one line, not a traceback."""
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        try:
            cli.main(arguments, prog_name="omnigraph-spark", standalone_mode=True)
        except OmnigraphError as error:
            click.echo(str(error), err=True)
            sys.exit(exit_code(type(error)))


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Say what a warning says; where in the code it was raised helps nobody here."""
    click.echo(f"warning: {message}", err=True)
