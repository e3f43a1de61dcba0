"""The command line, `omnigraph-spark`: thin; every command is one call of the library.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 conflict, 4 recovery needed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

# Importing a module adds its commands to the group.
from omnigraph_spark.cli import branches, content, query, review, upkeep
from omnigraph_spark.cli.shared import cli, exit_code
from omnigraph_spark.errors import OmnigraphError

__all__ = ["branches", "cli", "content", "main", "query", "review", "upkeep"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors of ours are one line, not a traceback."""
    try:
        cli.main(arguments, prog_name="omnigraph-spark", standalone_mode=True)
    except OmnigraphError as error:
        click.echo(str(error), err=True)
        sys.exit(exit_code(type(error)))
