# SPDX-License-Identifier: Apache-2.0
"""A selection at work on the lines of one output, as they come."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import BadSelection

from .records import Records
from .stamps import own_time
from .terminal import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalent_joblog_plugin.model.log_line import LogLine

    from .selection import Selection


class Selector:
    """Lets those lines pass that are wanted, each with its severity.

    Lines come out in their order, each once. A line may wait for the rest of its record, and with ``tail``
    all of them wait for ``caught_up``.

    Args:
        selection: What is wanted.
        now: Unix seconds from which "ago" counts back.
        judge: Whether every line gets its severity; else those alone that a filter has to look at.

    Raises:
        BadSelection: The span of time ends before it begins.

    Attributes:
        rejected: How many lines did not pass, by the filter that held them back first: it says why there is
            nothing. ``no time`` are those that no span of time can be compared with.
    """

    def __init__(self, selection: Selection, now: float, *, judge: bool = True) -> None:
        self.rejected: Counter[str] = Counter()
        self._selection = selection
        self._judge = judge or selection.by_record
        self._window = selection.window(now)
        self._records = Records()
        self._record: list[LogLine] = []
        self._passes: bool | None = None
        self._beyond = ""
        self._own: int | None = None
        self._arrival: int | None = None
        self._tail: deque[LogLine] | None = None
        if selection.tail is not None:
            self._tail = deque(maxlen=selection.tail)

    def feed(self, lines: Iterable[LogLine]) -> list[LogLine]:
        """The lines that are known to pass now.

        Raises:
            BadSelection: A regular expression takes too long.
        """
        passed: list[LogLine] = []
        for line in lines:
            if reason := self._elsewhere(line):
                self.rejected[reason] += 1
                continue
            begins = self._judge and self._records.judge(line)
            if not self._selection.by_record:
                passed.append(line)
                continue
            if begins:
                passed += self._judged()
                self._passes = None
                self._beyond = self._beyond_window(line) if self._window else ""
            if self._passes:
                passed.append(line)
            else:
                self._record.append(line)
        return self._at_the_end(passed)

    def idle(self) -> list[LogLine]:
        """What passes of what waits for more of its record: nothing came for a while, so it is judged now.

        If more of the record comes later, it passes with what passed, or is judged by itself.
        """
        return self._at_the_end(self._judged())

    def caught_up(self) -> list[LogLine]:
        """What passes of all that was fed; from now on ``tail`` holds nothing back.

        Raises:
            BadSelection: There is a span of time, and no line said when it was written or arrived.
        """
        passed = self.idle()
        if self.rejected["no time"] and (option := self._window.unknown(self._own, self._arrival)):
            raise BadSelection(option, "nothing says when these lines were written or arrived; leave it out")
        if self._tail is not None:
            passed, self._tail = list(self._tail), None
        return passed

    def _at_the_end(self, passed: list[LogLine]) -> list[LogLine]:
        if self._tail is None:
            return passed
        self.rejected["tail"] += max(0, len(self._tail) + len(passed) - (self._tail.maxlen or 0))
        self._tail.extend(passed)
        return []

    def _elsewhere(self, line: LogLine) -> str:
        wanted = self._selection
        if wanted.stream is not None and line.stream != wanted.stream:
            return "stream"
        if wanted.rank is not None and line.rank != wanted.rank:
            return "rank"
        return "execution" if wanted.execution not in (None, line.execution) else ""

    def _judged(self) -> list[LogLine]:
        """Judge what there is of the record."""
        record, self._record = self._record, []
        if not record:
            return []
        reason = self._beyond or self._unwanted(record)
        if reason:
            self.rejected[reason] += len(record)
        self._passes = not reason
        return [] if reason else record

    def _unwanted(self, record: list[LogLine]) -> str:
        wanted = self._selection
        worst = record[-1].severity
        if wanted.severity is not None and (worst is None or worst < wanted.severity):
            return "severity"
        if wanted.query is None and wanted.exclude is None:
            return ""
        texts = [plain(line.written) for line in record]
        if wanted.query is not None and not any(wanted.query.match(text) for text in texts):
            return "query"
        if wanted.exclude is not None and any(wanted.exclude.match(text) for text in texts):
            return "exclude"
        return ""

    def _beyond_window(self, line: LogLine) -> str:
        """Why a line is outside of the span of time; one without a time stands with the one before it."""
        arrival = None if line.time is None else round(line.time * 10**9)
        own = own_time(line.written, line.time)
        self._arrival = self._arrival if arrival is None else arrival
        self._own = own if own is not None else self._own if arrival is None else arrival
        return self._window.beyond(self._own, self._arrival)
