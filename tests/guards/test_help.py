"""Help texts and README agree: every command is in both, and every command can print JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from omnigraph_spark.cli import cli

README = (Path(__file__).parent.parent.parent / "README.md").read_text(encoding="utf-8")


def commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


COMMANDS = dict(commands(cli))


def test_the_readme_lists_the_commands_there_are() -> None:
    [listed] = re.findall(r"`omnigraph-spark (demo \|.*?)`", README, re.DOTALL)
    assert [name.strip() for name in listed.split("|")] == list(
        dict.fromkeys(name.split()[0] for name in sorted_as_listed(listed))
    )


def sorted_as_listed(listed: str) -> list[str]:
    """All commands, in the order of the README; what it lacks comes last."""
    places = {name.strip(): number for number, name in enumerate(listed.split("|"))}
    return sorted(COMMANDS, key=lambda name: places.get(name.split()[0], len(places)))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_can_print_json(name: str) -> None:
    flags = {flag for parameter in COMMANDS[name].params for flag in parameter.opts}
    assert "--json" in flags


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_argument_is_explained_in_the_help(name: str) -> None:
    command = COMMANDS[name]
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            assert (parameter.human_readable_name or "") in (command.help or "")
        elif isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help


def test_the_list_of_commands_says_of_each_in_whole_words_what_it_does() -> None:
    shown = CliRunner().invoke(cli, ["--help"], terminal_width=80).stdout
    listed = shown.partition("Commands:")[2].strip().splitlines()
    assert len(listed) == len(cli.commands)
    assert [line for line in listed if line.endswith("...")] == []
