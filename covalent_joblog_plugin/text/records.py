# SPDX-License-Identifier: Apache-2.0
"""Which lines belong together, so that no filter cuts a traceback apart.

A record is a line and what continues it: a traceback with its exception and those it came from, the traceback
under a message of a warning or worse, indented lines under a line with a severity. Everything else is a
record of one line. A line that begins one has the severity it gives itself, the others that of the record.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.log_line import Severity

from .severity import TRACEBACK, is_progress, severity, source
from .terminal import plain

if TYPE_CHECKING:
    from covalent_joblog_plugin.model.log_line import LogLine

RECORD_LINES = 1000
RECORD_CHARACTERS = 1 << 20
"""What goes on for longer than either is another record."""

_CHAINED = re.compile(
    r"During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:"
)
_EXCEPTION = re.compile(r"[A-Za-z_][\w.<>]{0,200}(?::|\(|\s*$)")
_CONTINUES = re.compile(r"\s+\S|Caused by: |Suppressed: |[│└╰] ?")


def begins_anyhow(text: str) -> bool:
    """Whether a line begins a record whatever stands before it, frames of a traceback apart."""
    text = text[source(text) :]
    if not text.strip() or text.rstrip().endswith(TRACEBACK):
        return False
    return not (_CONTINUES.match(text) or _CHAINED.match(text))


def is_frame(text: str) -> bool:
    """Whether a line in a traceback goes on with its frames."""
    return text[source(text) :][:1].isspace()


class _State(Enum):
    PLAIN = "nothing to continue"
    HEAD = "a line with a severity, and what is indented under it"
    FRAMES = "in a traceback, before its exception"
    RAISED = "after the exception of a traceback"


class Records:
    """Follows the lines of one output."""

    def __init__(self) -> None:
        self._state = _State.PLAIN
        self._severity: Severity | None = None
        self._execution: int | None = None
        self._broken = False
        self._lines = 0
        self._characters = 0

    def judge(self, line: LogLine) -> bool:
        """Give ``line`` its severity; whether it begins a record."""
        text = plain(line.written) if "\x1b" in line.text else line.written
        text = text[source(text) :]
        if self._broken or line.execution != self._execution or self._full(text):
            self._state = _State.PLAIN
        self._broken, self._execution = not line.ended, line.execution
        begins = not self._continues(text)
        if begins:
            self._begin(text)
        else:
            self._lines += 1
            self._characters += len(text)
        line.severity = self._severity
        return begins

    def _full(self, text: str) -> bool:
        return self._lines >= RECORD_LINES or self._characters + len(text) > RECORD_CHARACTERS

    def _begin(self, text: str) -> None:
        self._lines, self._characters = 1, len(text)
        self._severity = severity(text)
        if text.rstrip().endswith(TRACEBACK):
            self._state = _State.FRAMES
        else:
            self._state = _State.PLAIN if self._severity is None else _State.HEAD

    def _continues(self, text: str) -> bool:
        if self._state is _State.PLAIN:
            return False
        if self._state is _State.FRAMES:
            return self._in_frames(text)
        if self._state is _State.RAISED and (not text.strip() or _CHAINED.match(text)):
            return True
        if text.rstrip().endswith(TRACEBACK):
            return self._traceback()
        return _CONTINUES.match(text) is not None and not is_progress(text) and severity(text) is None

    def _in_frames(self, text: str) -> bool:
        if text[:1].isspace():
            return True
        self._state = _State.RAISED
        # A line of somebody else's, before the exception: what follows it is not known to belong to either.
        return _EXCEPTION.match(text) is not None and not is_progress(text)

    def _traceback(self) -> bool:
        """Whether a traceback belongs to what stands before it: a message of somebody who logged it."""
        if self._severity is None or self._severity < Severity.WARNING:
            return False
        self._state = _State.FRAMES
        self._severity = max(self._severity, Severity.ERROR)
        return True
