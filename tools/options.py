# SPDX-License-Identifier: Apache-2.0
"""The part of README that lists what the ``joblog`` command takes: python -m tools.options writes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalent_joblog_plugin.cli.exits import Exit
from covalent_joblog_plugin.cli.main import joblog

if TYPE_CHECKING:
    from collections.abc import Iterator

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- written by `make docs`, from here -->", "<!-- to here -->"


def generated() -> str:
    """The commands, their options and the exit statuses, as Markdown tables."""
    context = click.Context(joblog, info_name="joblog")
    commands = {name: joblog.get_command(context, name) for name in joblog.list_commands(context)}
    found = {name: command for name, command in commands.items() if command}
    return "\n".join([*_commands(found), "", *_options(found), "", *_exits()])


def _commands(commands: dict[str, click.Command]) -> Iterator[str]:
    yield from ("| command | |", "|---|---|")
    for name, command in commands.items():
        arguments = [a.make_metavar(click.Context(command)) for a in command.params if not _option(a)]
        yield f"| `{' '.join(['joblog', name, *arguments])}` | {_cell(command.get_short_help_str(200))} |"


def _options(commands: dict[str, click.Command]) -> Iterator[str]:
    yield from ("| option | of | |", "|---|---|---|")
    owners: dict[tuple[str, str], list[str]] = {}
    for name, command in commands.items():
        for option in command.params:
            if _option(option) and (record := option.get_help_record(click.Context(command))):
                owners.setdefault(record, []).append(name)
    for (spelling, text), names in owners.items():
        whose = "all" if len(names) == len(commands) else ", ".join(f"`{name}`" for name in names)
        yield f"| `{_cell(spelling)}` | {whose} | {_cell(text)} |"


def _exits() -> Iterator[str]:
    yield from ("| exit status | |", "|---|---|")
    for status in Exit:
        yield f"| {status.value} | {status.meaning} |"


def _option(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option)


def _cell(text: str) -> str:
    # A limit such as [x>=0] is click's own way to say what the text says in words.
    return re.sub(r" *\[x>=\d+\]", "", text).replace("|", "\\|")


def rewritten(readme: str) -> str:
    """A README with that part as it is now."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README has not got both marks, {BEGIN} and {END}")
    return f"{before}{begin}\n{generated()}\n{end}{after}"


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text()))
