# SPDX-License-Identifier: Apache-2.0
"""A line of output as people and programs get it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How bad a line says it is; the numbers are those of Python's ``logging``."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40
    CRITICAL = 50


@dataclass(slots=True)
class LogLine:
    """One line. Not frozen: a million of them may be made to show one, and frozen ones take thrice as long.

    Attributes:
        text: What a terminal would show of it, without the end of line. Colours and other escape sequences
            are still in it: whoever prints it to a terminal has them filtered (``text.terminal``).
        cursor: Byte offset in the stored output at which the line begins.
        time: When it arrived, Unix seconds; None where nobody recorded that. What the line itself says of
            time stands in ``text``.
        stream: ``stdout``, ``stderr`` or ``log`` (both in one); None for an extra file.
        rank: Who wrote it: global rank on Slurm, node rank on Kubeflow; None for an extra file.
        execution: Which start of the job wrote it, 0, 1, … in restart order; None where that is unknown.
        severity: How bad it is, by its own words or as part of a record that began above; None without any.
        size: Bytes of it in the stored output, newline included: the next line begins at ``cursor + size``.
        ended: Whether a newline ended it. A line without one is the last of its output, or of its execution.
        mark: Characters at the end of ``text`` that are no output but say that the line is cut there.
    """

    text: str
    cursor: int
    time: float | None = None
    stream: str | None = None
    rank: int | None = None
    execution: int | None = None
    severity: Severity | None = None
    size: int = 0
    ended: bool = True
    mark: int = 0

    @property
    def written(self) -> str:
        """``text`` without the mark of a cut line."""
        return self.text[: -self.mark] if self.mark else self.text
