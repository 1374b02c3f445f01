# SPDX-License-Identifier: Apache-2.0
"""Finds the few lines of much output that a selection can want, so that the others need not be taken apart.

It looks for bytes without which no line is wanted, and keeps what may be in a record with them. It may keep
too much; what it leaves out, the selection would have left out.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import re2

from covalent_joblog_plugin.model.log_line import Severity

from .lines import Lines
from .records import begins_anyhow, is_frame

if TYPE_CHECKING:
    from covalent_joblog_plugin.model.log_line import LogLine
    from covalent_joblog_plugin.model.records import Stream

    from .selection import Selection

ODD = r"\x1b|\x08|\r[^\n]|\xc2[\x80-\x9f]|Traceback"
"""What is shown of a line with one of these is not what stands there. After a traceback, lines belong
together that look as if each began a record."""
_NOT_AS_IT_STANDS = re.compile(rb"[\x1b\x08]|\r[^\r]|Traceback")
_MEMORY = 8 << 20
"""Bytes for the states the expression has met."""
_FEW, _SPARSE = 8, 1024
"""Where more is found than this, and then one in so many bytes, looking on costs more than it spares."""

_DIED = (
    r"(?i:crit(?:ical)?|fatal|ftl|alert|emerg(?:ency)?|panic)\W|panicked at|terminate called|forrtl: severe"
    r"|Segmentation fault|Bus error|Illegal instruction|Aborted|Killed|Process received signal|NCCL F"
)
_RAISED = r"(?i:err(?:or)?|severe)\W|(?:Exception|Interrupt|Exit|Failure)\W|NCCL E"
_WARNED = r"(?i:warn(?:ing)?|wrn)\W|Warning messages|NCCL W"
_LETTER = r"[{0}](?:\d{{4}}|\d{{8}}) |\[[{0}][^\]\n]*:\d+\]|: [{0}] "
# Only in JSON: one letter, a number, and letters written as numbers.
_JSON = (
    r'"\s*:\s*"(?i:[{0}])"|levelno"\s*:\s*(?:[{1}]\d|\d{{3}})'
    r'|(?:l|level|severity|levelname|lvl)"\s*:\s*[{2}]0|\\u00(?:2[eE]|[4-7])'
)
_LEVELS = {
    Severity.WARNING: (_DIED, _RAISED, _WARNED, _LETTER.format("WEF"), _JSON.format("WEF", "3-9", "4-6")),
    Severity.ERROR: (_DIED, _RAISED, _LETTER.format("EF"), _JSON.format("EF", "4-9", "5-6")),
    Severity.CRITICAL: (_DIED, _LETTER.format("F"), _JSON.format("F", "5-9", "6")),
}


class Skims(Protocol):
    """What leaves out lines that nobody wants.

    Attributes:
        skipped: How many were left out, by the filter that would have done so.
    """

    skipped: Counter[str]

    def parts(self, data: bytes, time: float | None) -> list[tuple[int, int]]:
        """The parts of whole lines, arrived at ``time``, that have to be taken apart, in order."""


class Skimmer:
    """Skims one output.

    Args:
        expression: What a line has that may be wanted, in RE2's syntax, about bytes.
        reason: The filter that leaves out what has none.

    Attributes:
        skipped: How many lines were left out, by that filter.
    """

    def __init__(self, expression: str, reason: str) -> None:
        self._expression = compiled(f"{expression}|{ODD}")
        self._reason = reason
        self.skipped: Counter[str] = Counter()

    @classmethod
    def of(cls, selection: Selection) -> Skimmer | None:
        """What skims for ``selection``; None where every line has to be looked at."""
        if any((selection.since, selection.until)) or selection.execution is not None:
            return None
        if selection.severity is not None:
            levels = _LEVELS.get(selection.severity)
            return cls("|".join(levels), "severity") if levels else None
        if selection.query is None or selection.query.regex:
            return None
        words = selection.query.patterns
        # What is no UTF-8 is shown as U+FFFD.
        if any("\ufffd" in word for word in words):
            return None
        return cls("|".join(_as_it_stands(word) for word in words), "query")

    def parts(self, data: bytes, time: float | None = None) -> list[tuple[int, int]]:  # noqa: ARG002
        """The parts of whole lines that have to be taken apart, as starts and ends, in order.

        Each begins where a record begins whatever stands before it, except at the start: there, what stands
        before ``data`` may go on.

        Args:
            data: Whole lines.
            time: When they arrived, which makes no difference here.
        """
        parts: list[tuple[int, int]] = []
        begun, at, indented, end = 0, 0, -1, 0
        for _ in range(_FEW + len(data) // _SPARSE):
            if at > indented:
                indented = _indented(data, at)
                # The line behind what is indented may be the exception of a traceback.
                if (after := _next(data, indented)) > end:
                    end = _beginning(data, after)
            match = self._expression.search(data, at)
            found = match.start() if match else len(data) - 1
            head = _head(data, data.rfind(b"\n", 0, found) + 1, end)
            if head > end:
                parts.append((begun, end))
                begun = head
            if match is None:
                break
            at = _next(data, found)
        parts.append((begun, len(data)))
        kept = sum(data.count(b"\n", start, stop) for start, stop in parts)
        self.skipped[self._reason] += data.count(b"\n") - kept
        return parts


def compiled(expression: str) -> Any:
    """An expression in RE2's syntax about bytes, as one of ``re``; it takes time linear in the text."""
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    # Every byte counts as a character.
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(expression.encode("ascii"), options)


def lines_of(
    skimmer: Skims | None, cursor: int = 0, *, stream: Stream | None = None, rank: int | None = None
) -> Lines:
    """What cuts an output into lines, as ``Lines``; without most of those that ``skimmer`` leaves out."""
    if skimmer is None:
        return Lines(cursor, stream=stream, rank=rank)
    return SkimmedLines(skimmer, cursor, stream=stream, rank=rank)


class SkimmedLines(Lines):
    """As ``Lines``, without most of those that ``skimmer`` knows nobody wants.

    Args:
        skimmer: What leaves them out.
        cursor: As in ``Lines``, like the others.
        stream: The same.
        rank: The same.
    """

    def __init__(
        self, skimmer: Skims, cursor: int = 0, *, stream: Stream | None = None, rank: int | None = None
    ) -> None:
        super().__init__(cursor, stream=stream, rank=rank)
        self._skimmer = skimmer

    def feed(self, data: bytes, *, time: float | None = None, execution: int | None = None) -> list[LogLine]:
        """The lines that end in ``data`` and may be wanted."""
        lines: list[LogLine] = []
        if self.begun:
            upto = data.find(b"\n") + 1 or len(data)
            lines += super().feed(data[:upto], time=time, execution=execution)
            data = data[upto:]
        upto = data.rfind(b"\n") + 1
        if upto:
            at = 0
            for start, end in self._skimmer.parts(data[:upto], time):
                self.skip(start - at)
                lines += super().feed(data[start:end], time=time, execution=execution)
                at = end
        return lines + super().feed(data[upto:], time=time, execution=execution)


def _as_it_stands(word: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word.encode("utf-8", "surrogatepass"))


def _next(data: bytes, at: int) -> int:
    """Where the line behind the one at ``at`` begins."""
    return data.find(b"\n", at) + 1 or len(data)


def _line(data: bytes, at: int) -> bytes:
    return data[at : data.find(b"\n", at)]


def _indented(data: bytes, at: int) -> int:
    """Where, from ``at`` on, a line begins that does not go on with the frames of a traceback."""
    while at < len(data) and is_frame(_shown(_line(data, at))):
        at = _next(data, at)
    return at


def _beginning(data: bytes, at: int) -> int:
    """Where, from ``at`` on, a line begins that begins a record."""
    while at < len(data) and not _begins(_line(data, at)):
        at = _next(data, at)
    return at


def _head(data: bytes, at: int, least: int) -> int:
    """Where the record begins that the line at ``at`` is in; not before ``least``."""
    while at > least and not _begins(_line(data, at)):
        at = data.rfind(b"\n", 0, at - 1) + 1
    return at


def _begins(line: bytes) -> bool:
    return _NOT_AS_IT_STANDS.search(line) is None and begins_anyhow(_shown(line))


def _shown(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
