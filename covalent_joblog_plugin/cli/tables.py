# SPDX-License-Identifier: Apache-2.0
"""Answers as a table for people, or as JSON Lines for programs."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from covalent_joblog_plugin.text.terminal import safe

from . import console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

F = TypeVar("F", bound="Callable[..., Any]")

_COLOURS = {
    "COMPLETED": "green",
    "RUNNING": "cyan",
    "FAILED": "red",
    "CANCELLED": "red",
    "ORPHANED": "red",
    "INTERRUPTED": "red",
    "PENDING": "yellow",
    "yes": "green",
    "no": "red",
    "unknown": "yellow",
}
"""Of words that fill a cell."""
_UNBOUNDED = 1 << 16
"""Columns of what is no terminal."""


def form_option(command: F) -> F:
    """``-o``."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        help="text; json: JSON Lines.",
    )(command)


def show(
    form: str, values: Iterable[dict[str, Any]], heads: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """Write an answer.

    Args:
        form: ``text`` or ``json``.
        values: It for programs.
        heads: Over the columns of it for people.
        rows: Its cells; on a terminal the last column is cut where the line ends.
    """
    if form == "json":
        console.say_json(values)
    else:
        _table(heads, rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    # Takes its time to be imported.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colour = console.has_colour(sys.stdout)
    table = Table(box=None, pad_edge=False, header_style="bold" if colour else "")
    for head in heads[:-1]:
        table.add_column(head, no_wrap=True, overflow="fold")
    table.add_column(heads[-1], no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows:
        table.add_row(*(Text(safe(cell), style=_COLOURS.get(cell, "") if colour else "") for cell in row))
    drawn = io.StringIO()
    width = None if console.is_terminal(sys.stdout) else _UNBOUNDED
    Console(file=drawn, width=width, force_terminal=colour, no_color=not colour, highlight=False).print(
        table, crop=False
    )
    console.write("".join(f"{line.rstrip()}\n" for line in drawn.getvalue().splitlines()))
