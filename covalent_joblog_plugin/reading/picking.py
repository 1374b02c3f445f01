# SPDX-License-Identifier: Apache-2.0
"""A selection at work on one output: where to begin to read, and what of it is shown."""

from __future__ import annotations

from collections import deque
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import OutputUnsupported
from covalent_joblog_plugin.model.log_line import LogLine
from covalent_joblog_plugin.text.selector import Selector
from covalent_joblog_plugin.text.skimming import Skimmer
from covalent_joblog_plugin.text.skimming_times import TimeSkimmer
from covalent_joblog_plugin.text.stamps import own_time

from .assembling import Assembler
from .snapshot import Extent, line_start, pieces, tail_start

if TYPE_CHECKING:
    from covalent_joblog_plugin.text.selection import Selection
    from covalent_joblog_plugin.text.skimming import Skims

    from .assembling import Item
    from .client import Server

_MOST_SKEW = 15 * 3600.0
"""Seconds by which the stamp of a line may be ahead of its arrival: local time that claims to be UTC."""
_CLOCKS = 300.0
"""Seconds by which it may be more ahead than those around it: clocks, and text that arrived late."""
_RECORD_BYTES = 64 * 1024
"""So much before the first byte of interest is read as well: it may be in the middle of a record."""


class Picker:
    """Lets lines and breaks of one output pass.

    Breaks pass where the text is continuous: not where only some of the lines are wanted.

    Args:
        selection: What is wanted.
        now: Unix seconds from which "ago" counts back.
        judge: Whether each line gets its severity, though no filter asks for it.

    Raises:
        BadSelection: The span of time ends before it begins.

    Attributes:
        skimmer: What may leave out lines before they come here; None where all of them count.
    """

    def __init__(self, selection: Selection, now: float, *, judge: bool = True) -> None:
        self.skimmer: Skims | None = Skimmer.of(selection) or TimeSkimmer.of(selection, now)
        self._selection = selection
        # Breaks are among the lines of a tail, so it is cut here.
        self._selector = Selector(replace(selection, tail=None), now, judge=judge)
        self._tail = None if selection.tail is None else Tail(selection.tail)

    @property
    def rejected(self) -> dict[str, int]:
        """How many lines did not pass, by the option that held them back."""
        rejected = self._selector.rejected.copy()
        if self.skimmer is not None:
            rejected += self.skimmer.skipped
        return dict(+rejected)

    def feed(self, items: list[Item]) -> list[Item]:
        """What is known to pass now; raises ``BadSelection`` as ``Selector.feed`` does."""
        passed: list[Item] = []
        lines: list[LogLine] = []
        for item in items:
            if isinstance(item, LogLine):
                lines.append(item)
            elif self._is_shown(item.seam.execution):
                passed += self._selector.feed(lines)
                lines.clear()
                passed.append(item)
        passed += self._selector.feed(lines)
        return self._cut(passed)

    def idle(self) -> list[Item]:
        """What passes of what waits for more of its record, now that nothing came for a while."""
        return self._cut(list(self._selector.idle()))

    def caught_up(self) -> list[Item]:
        """What passes of all that was fed; raises as ``Selector.caught_up`` does."""
        passed = self._cut(list(self._selector.caught_up()))
        if self._tail is not None:
            passed, self._tail = list(self._tail.items), None
        return passed

    def takes_begun(self, line: LogLine) -> bool:
        """Whether a line passes that has no end yet; not where that depends on what is still to come."""
        return not self._selection.by_record and self._selection.execution in (None, line.execution)

    def _is_shown(self, execution: int) -> bool:
        return not self._selection.by_record and self._selection.execution in (None, execution)

    def _cut(self, passed: list[Item]) -> list[Item]:
        if self._tail is None:
            return passed
        self._tail.add(passed)
        return []


class Tail:
    """The last lines of what is added, and the breaks among them.

    Args:
        lines: How many.
    """

    def __init__(self, lines: int) -> None:
        self.items: deque[Item] = deque()
        self._left = lines

    def add(self, items: list[Item]) -> None:
        """Take what follows."""
        for item in items:
            self.items.append(item)
            self._left -= isinstance(item, LogLine)
            while self._left < 0:
                self._left += isinstance(self.items.popleft(), LogLine)


async def begin(server: Server, extent: Extent, selection: Selection, now: float) -> Extent:
    """An extent from where nothing that is wanted is left out, without what need not be read.

    Raises:
        OutputError: The output cannot be read.
        TransportError: The server does not answer.
    """
    if selection.since is not None:
        since = selection.since.at(now) / 10**9
        if not selection.since.ago:
            since -= await _ahead(server, extent, max(0.0, since))
        return await _since(server, extent, max(0.0, since))
    if selection.tail is None or selection.by_record or selection.execution is not None:
        return extent
    if not selection.tail:
        return replace(extent, start=await line_start(server, extent.source, extent.end))
    return replace(extent, start=await tail_start(server, extent, selection.tail))


async def _ahead(server: Server, extent: Extent, time: float) -> float:
    """By how many seconds stamps of lines may be ahead of their arrival, as those that arrived then tell."""
    around = await _since(server, extent, time)
    assembler, ahead = Assembler(around.start), 0.0
    upto = replace(around, end=min(extent.end, around.start + 2 * _RECORD_BYTES))
    async with aclosing(pieces(server, upto)) as parts:
        async for piece in parts:
            for item in assembler.feed(piece):
                if isinstance(item, LogLine) and item.time and (own := own_time(item.written, item.time)):
                    ahead = max(ahead, own / 10**9 - item.time)
    return min(_MOST_SKEW, ahead + _CLOCKS)


async def _since(server: Server, extent: Extent, since: float) -> Extent:
    source = extent.source
    try:
        piece = await server.piece(source.dispatch_id, source.node_id, source.file, since=since, size=1)
    except OutputUnsupported:
        # Nobody knows when it arrived; the lines may say when they were written.
        return extent
    start = await line_start(server, source, max(0, piece.cursor - _RECORD_BYTES))
    return replace(extent, start=min(start, extent.end))
