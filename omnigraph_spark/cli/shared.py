"""What the commands share: the group they belong to, their options, how they print.

In a pipe everything is plain lines and whole words. On a terminal tables fit its width, and what
takes long shows that it is at work, on stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import click

from omnigraph_spark.errors import ConflictError, OmnigraphError, RecoveryRequiredError
from omnigraph_spark.formats.profile import Commit
from omnigraph_spark.version import __version__

if TYPE_CHECKING:
    from rich.table import Table

#: Columns of a usual terminal.
_ROOMY = 80
#: Of these, what a bar takes that shows how much is done.
_BAR = 24

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
actor_option = click.option("--actor", help="Who writes; $OMNIGRAPH_ACTOR or the user by default.")


def branch_option(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option for the branch that a command is about."""
    return click.option("--branch", default="main", show_default=True, help=what)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="omnigraph-spark")
def cli() -> None:
    """OmniGraph graphs with Apache Spark."""


def exit_code(error: type[OmnigraphError]) -> int:
    """Return what a command that failed with an error ends with.

    >>> exit_code(ConflictError), exit_code(RecoveryRequiredError), exit_code(OmnigraphError)
    (3, 4, 1)
    """
    if issubclass(error, ConflictError):
        return 3
    return 4 if issubclass(error, RecoveryRequiredError) else 1


def told(commit: Commit) -> str:
    """Say which commit this is, when it was made, and by whom."""
    by = "" if commit.actor is None else f" by {commit.actor}"
    return f"{commit.id}, {commit.created_at:%Y-%m-%d %H:%M:%S} UTC{by}"


def described(commit: Commit) -> dict[str, Any]:
    """Return the facts of a commit."""
    return {
        "id": commit.id,
        "branch": commit.branch,
        "manifest_version": commit.manifest_version,
        "parent_id": commit.parent_id,
        "merged_parent_id": commit.merged_parent_id,
        "actor": commit.actor,
        "created_at": commit.created_at.isoformat(),
    }


def show(
    about: Mapping[str, Any] | Sequence[Any],
    as_json: bool,
    lines: Iterable[str],
    tables: Callable[[], Iterable[Table | str]] | None = None,
) -> None:
    """Print what a command found: as JSON, as tables on a terminal, or as lines in a pipe."""
    if as_json:
        click.echo(json.dumps(about, indent=2, ensure_ascii=False, default=str))
    elif tables is not None and sys.stdout.isatty():
        from rich.console import Console

        console = Console(highlight=False)
        for each in tables():
            console.print(each, markup=False)
    else:
        for line in lines:
            click.echo(line)


def table(title: str | None, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Lay rows out as a table; columns named #… are numbers, those named =… stay on one line."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    # What is copied, as ids are, is whole wherever it fits; in narrower windows it is folded.
    roomy = Console().width >= _ROOMY
    for name in header:
        made.add_column(
            name.lstrip("#="),
            justify="right" if name.startswith("#") else "left",
            overflow="fold",
            no_wrap=roomy and name.startswith("="),
        )
    for row in rows:
        made.add_row(*("" if cell is None else escape(str(cell)) for cell in row))
    return made


class Step(Protocol):
    """Tells that some of a long work is done, and what it is about now."""

    def __call__(self, about: str = "", amount: int = 1) -> None: ...


@contextmanager
def working(what: str, total: int, unit: str) -> Iterator[Step]:
    """Show on a terminal how much of a work is done, in types, rows or bytes; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda about="", amount=1: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.table import Column

    # What it is about is cut where the terminal is narrow; how much is done never is.
    about_now = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True))
    so_far = (
        (DownloadColumn(),)
        if unit == "bytes"
        else (MofNCompleteColumn(), TextColumn("{task.fields[unit]}"))
    )
    columns = (SpinnerColumn(), about_now, BarColumn(_BAR), *so_far, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as progress:
        task = progress.add_task(what, total=total, unit=unit)

        def step(about: str = "", amount: int = 1) -> None:
            told = f"{what}: {about}" if about else what
            progress.update(task, advance=amount, description=told)

        yield step


def sized(size_bytes: int) -> str:
    """Write a number of bytes for people.

    >>> sized(900), sized(1536), sized(5 << 30)
    ('900 B', '1.5 KiB', '5.0 GiB')
    """
    size, units = float(size_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
