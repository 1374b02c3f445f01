# SPDX-License-Identifier: Apache-2.0
"""Where things are written: text of jobs and answers to stdout, all that is said about them to stderr.

Whatever a job or a cluster says reaches a terminal through ``text.terminal.safe``.
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.text.terminal import safe

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

_DIM, _RED, _RESET = "\x1b[2m", "\x1b[31m", "\x1b[0m"


def is_terminal(stream: TextIO) -> bool:
    """Whether people see what is written there at once, and it can be painted over."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: TextIO) -> bool:
    """Whether colours may be written there: a terminal, and nobody has set ``NO_COLOR``."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def write(text: str, stream: TextIO | None = None) -> None:
    """Write what is safe already, to stdout if not said otherwise; what the encoding lacks is escaped.

    Raises:
        BrokenPipeError: Nobody reads it any more.
    """
    stream = stream or sys.stdout
    # A TextIOWrapper would raise where a locale has no such character.
    write_bytes(text.encode(stream.encoding or "utf-8", "backslashreplace"), stream)


def write_bytes(data: bytes, stream: TextIO | None = None) -> None:
    """Write bytes as they are, to stdout if not said otherwise; raises as ``write`` does."""
    stream = stream or sys.stdout
    stream.flush()
    left = memoryview(data)
    while left:
        # With PYTHONUNBUFFERED there is no buffer, and a part may be taken.
        taken = stream.buffer.write(left)
        if taken is None:
            select.select([], [stream], [])
        left = left[taken or 0 :]
    stream.buffer.flush()


def say(line: str) -> None:
    """Write a line of an answer to stdout."""
    write(f"{safe(line)}\n")


def say_json(values: Iterable[dict[str, Any]]) -> None:
    """Write JSON Lines to stdout, in ASCII."""
    for value in values:
        write(f"{json.dumps(value)}\n")


def event(text: str, *, bad: bool = False) -> None:
    """Tell on stderr what happens; lines stay lines.

    Args:
        text: What is to be told.
        bad: Whether it is a fault.
    """
    write("".join(f"{line}\n" for line in event_lines(text, bad=bad)), sys.stderr)


def event_lines(text: str, *, bad: bool = False) -> list[str]:
    """What ``event`` writes, a line at a time."""
    lines = [safe(line) for line in text.rstrip("\n").split("\n")]
    if not has_colour(sys.stderr):
        return lines
    return [f"{_RED}{line}{_RESET}" if bad else dim(line) for line in lines]


def dim(line: str) -> str:
    """What is safe already, so that it is not taken for text of a job; for a stream with colours."""
    return f"{_DIM}{line}{_RESET}"
