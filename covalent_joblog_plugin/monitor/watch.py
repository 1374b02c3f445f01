# SPDX-License-Identifier: Apache-2.0
"""One node being read: its lanes, what to ask for next, and what to store of an answer."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.records import ReadRequest, Seam, SeamKind
from covalent_joblog_plugin.store.node_output import Append, SeamAt

from .lanes import Lane, Lanes
from .position import CERTAIN, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from covalent_joblog_plugin.model.records import Delta, FileRef
    from covalent_joblog_plugin.store.node_output import NodeOutput

log = logging.getLogger(__name__)

REFRESH = 0.25
"""Seconds between two questions to ``get_files_to_monitor``, however fast the ticks are."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A write on its way to the store, and the file position it will move."""

    item: Append | SeamAt
    lane: Lane
    position: Position


@dataclass(slots=True, eq=False)
class Watch:
    """One node being read.

    Attributes:
        output: Where its text is stored.
        files: Answers which files to read; asked all the time, so it may do no I/O.
        max_log_bytes: Bytes kept of each stored output; then a seam.
        lanes: What feeds which output.
        finishing: Its job is over.
        proving: Nobody writes any more, either: it is read to its end.
        retry_at: While the store cannot take more, the loop's time of the next try.
    """

    output: NodeOutput
    files: Callable[[], Iterable[FileRef | str]]
    max_log_bytes: int
    lanes: Lanes = field(default_factory=Lanes)
    finishing: bool = False
    proving: bool = False
    retry_at: float = 0.0
    _refresh_at: float | None = None
    _requests: list[tuple[ReadRequest, Lane]] | None = None
    _complaint: str = ""

    def refresh(self, now: float) -> None:
        """Ask which files there are, if it is time; ``now`` on the loop's clock.

        An author's mistake here costs the new files, not the known ones.
        """
        if self._refresh_at is not None and now < self._refresh_at:
            return
        self._refresh_at = now + REFRESH
        try:
            if self.lanes.update(self.files()):
                self._requests = None
        except Exception as error:  # noqa: BLE001 - the author's code; whatever it raises, the task goes on
            self.complain(f"get_files_to_monitor failed: {error!r}; reading the files known before")

    def complain(self, text: str) -> None:
        """Log a fault once, until another one comes."""
        if text != self._complaint:
            self._complaint = text
            log.warning("output of %s node %s: %s", self.output.dispatch_id, self.output.node_id, text)

    def open_lanes(self) -> list[Lane]:
        """The lanes that still take bytes, each moved on to the execution to be read now."""
        return [lane for lane in self.lanes.by_output.values() if not lane.capped]

    @property
    def probing(self) -> bool:
        """Whether an answer "nothing new" is needed, which only a poll without a wait gives."""
        return self.proving or any(lane.superseded for lane in self.open_lanes())

    @property
    def at_end(self) -> bool:
        """Whether all that was read is stored, and the last reads of every file had nothing new."""
        stored = all(
            position.stored == position.pos
            for lane in self.lanes.by_output.values()
            for position in lane.positions
        )
        return (
            self._refresh_at is not None
            and stored
            and all(not lane.superseded and lane.position.empties >= CERTAIN for lane in self.open_lanes())
        )

    def prove_end(self) -> None:
        """Nobody writes any more: from now on answers that have nothing new prove that nothing is left."""
        self.proving = True
        self._requests = None
        self.files_changed()
        for lane in self.open_lanes():
            for position in lane.positions:
                position.empties = 0

    def files_changed(self) -> None:
        """Ask which files there are on the next tick."""
        self._refresh_at = None

    def requests(self) -> list[tuple[ReadRequest, Lane]]:
        """What to ask for next; made anew only when something moved."""
        if self._requests is None:
            self._requests = []
            for lane in self.open_lanes():
                position = lane.position
                room = self.max_log_bytes - lane.taken
                asked = ReadRequest(
                    position.ref.path,
                    position.pos,
                    room + 1,
                    now=self.proving or lane.superseded,
                    stored=position.stored,
                )
                self._requests.append((asked, lane))
        return self._requests

    def accept(self, lane: Lane, delta: Delta) -> list[Pending]:
        """Turn an answer into writes, in order."""
        position = lane.position
        if delta.path != position.ref.path:
            return []  # asked for a file that is not read any more
        before = position.pos
        pending = [self._seam(lane, known) for known in position.fresh_seams(delta)]
        seam, data = position.accept(delta)
        if seam or position.pos != before:
            self._requests = None
        if position.problem:
            self.complain(f"{position.ref.path} cannot be read: {position.problem}")
        if seam:
            pending.append(self._seam(lane, seam))
        if data:
            pending.extend(self._append(lane, delta, data))
        if lane.superseded and position.empties >= CERTAIN:
            pending.append(self._next_execution(lane))
        return pending

    def _append(self, lane: Lane, delta: Delta, data: bytes) -> Sequence[Pending]:
        position = lane.position
        kept = data[: max(0, self.max_log_bytes - lane.taken)]
        lane.taken += len(kept)
        item = Append(lane.output, kept, position.ref.execution, delta.arrival, delta.mtime)
        if len(kept) == len(data):
            return [Pending(item, lane, position)]
        lane.capped = True
        self._requests = None
        position.pos -= len(data) - len(kept)
        message = (
            f"max_log_bytes={self.max_log_bytes} reached; later bytes of {position.ref.path} are not kept"
        )
        cap = Seam(SeamKind.CAPPED, message, execution=position.ref.execution)
        return [Pending(item, lane, position), self._seam(lane, cap)]

    def _next_execution(self, lane: Lane) -> Pending:
        before = lane.position.ref.execution
        lane.current += 1
        self._requests = None
        now = lane.position.ref.execution
        if now > before:
            return self._seam(lane, Seam(SeamKind.RESTART, f"execution {now} of the job", execution=now))
        message = f"more of execution {now}, written after execution {before} had begun"
        return self._seam(lane, Seam(SeamKind.LATE, message, execution=now))

    def _seam(self, lane: Lane, seam: Seam) -> Pending:
        return Pending(SeamAt(lane.output, seam), lane, lane.position)

    def stored(self, pending: Pending, taken: int, retry_at: float) -> None:
        """Record what the store took of one write."""
        if isinstance(pending.item, Append):
            data = pending.item.data
            self._requests = None
            if not pending.position.took(data, taken):
                pending.lane.taken -= len(data) - taken
                pending.lane.capped = False
                self.retry_at = retry_at
