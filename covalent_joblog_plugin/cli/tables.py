# SPDX-License-Identifier: Apache-2.0
"""Answers as a table for people, or as JSON Lines for programs."""

from __future__ import annotations

import io
import shutil
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from covalent_joblog_plugin.text.terminal import fit, safe

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
"""Columns."""


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
        rows: Its cells; a column that has only ``-`` is left out, and on a terminal the last one is cut where
            the line ends.
    """
    if form == "json":
        console.say_json(values)
        return
    cells = [list(row) for row in rows]
    kept = [at for at in range(len(heads)) if not cells or any(row[at] != "-" for row in cells)]
    _table([heads[at] for at in kept], [[row[at] for at in kept] for row in cells])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    # Takes its time to be imported.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colour = console.has_colour(sys.stdout)
    table = Table(box=None, pad_edge=False, header_style="bold" if colour else "")
    for head in heads:
        table.add_column(head, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(safe(cell), style=_COLOURS.get(cell, "") if colour else "") for cell in row))
    drawn = io.StringIO()
    # Drawn as wide as it is, and cut at the end: narrower columns could not be read.
    Console(file=drawn, width=_UNBOUNDED, force_terminal=colour, no_color=not colour, highlight=False).print(
        table, crop=False
    )
    columns = shutil.get_terminal_size().columns if console.is_terminal(sys.stdout) else _UNBOUNDED
    lines = (line.rstrip() for line in drawn.getvalue().split("\n")[:-1])
    console.write("".join(f"{fit(line, columns)}\n" for line in lines))
