# SPDX-License-Identifier: Apache-2.0
"""One output of a node while it is written: when it pauses, goes on, breaks and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import StoreError
from covalent_joblog_plugin.model.records import Seam, SeamKind

from . import live
from .outputs import PIECE_BYTES
from .sizes import EVERY, recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .disk import Disk
    from .index import Index
    from .items import Append
    from .outputs import RawOutput, TextOutput

_CONTINUING = frozenset({SeamKind.PAUSED, SeamKind.RESUMED})
"""Seams across which the bytes go on: a character may begin before and end after."""


def pieces(data: bytes) -> Iterator[bytes]:
    """``data`` in pieces that are stored whole or not at all; one empty piece if there is none."""
    if len(data) <= PIECE_BYTES:
        yield data
        return
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES]


class Channel:
    """Writes one output and its lines of the index.

    Attributes:
        name: What the output is called.
        output: Where its bytes go.
        row: The asset's row in Covalent's database; None for an output Covalent does not know.
        trouble: Why it is paused; None while it is not.
    """

    __slots__ = ("_disk", "_execution", "_index", "_reserve", "_sized", "name", "output", "row", "trouble")

    def __init__(
        self,
        name: str,
        output: RawOutput | TextOutput,
        row: int | None,
        index: Index,
        disk: Disk,
        reserve: int,
    ) -> None:
        self.name = name
        self.output = output
        self.row = row
        self._sized = False
        self.trouble: StoreError | None = None
        self._index = index
        self._disk = disk
        self._reserve = reserve
        self._execution = 0

    def store(self, piece: bytes, item: Append) -> bool:
        """Store one piece of ``item``; False, with ``trouble`` set, if nothing of it could be."""
        start, self._execution = self.output.end, item.execution
        cost = self.output.cost(len(piece))
        # Once stopped it wants more room before it goes on: it must not stop and go at every write.
        reserve = self._reserve + (self._reserve // 8 if self.trouble else 0)
        try:
            self._disk.check(self.output.files[0].path.parent, cost, reserve)
            self.output.store(piece)
            self._disk.written(cost)
        except (OSError, StoreError) as error:
            self._pause(error)
            return False
        self._resume(start)
        if piece:
            self._index.arrived(start, item)
        return True

    def _pause(self, error: OSError | StoreError) -> None:
        message = str(error) if isinstance(error, StoreError) else f"{self.name} cannot be stored: {error}"
        if self.trouble is None:
            self._seam(SeamKind.PAUSED, message)
        self.trouble = error if isinstance(error, StoreError) else StoreError(message)

    def _resume(self, cursor: int) -> None:
        if self.trouble is not None:
            self._index.seam(self.name, cursor, Seam(SeamKind.RESUMED, "storing goes on", self._execution))
            self.trouble = None

    def _seam(self, kind: SeamKind, message: str) -> None:
        self._index.seam(self.name, self.output.end, Seam(kind, message, self._execution))

    def seam(self, seam: Seam) -> None:
        """A break at the present end; a character that was held back will not be finished."""
        self._execution = seam.execution
        if seam.kind not in _CONTINUING:
            self._break_off()
        self._index.seam(self.name, self.output.end, seam)

    def _break_off(self) -> None:
        self.output.break_off()
        held = self.output.end > self.output.length
        try:
            self.output.flush()
        except (OSError, StoreError) as error:
            self._pause(error)  # the bytes wait and go before the next piece
        else:
            if held:
                self._resume(self.output.end)

    def note(self) -> None:
        """Tell of what has grown: the files' readers, and the asset's row, at once when it was 0."""
        files = self.output.files
        live.add(files)
        if self.row is not None and files[0].length:
            recorder().note(self.row, files[0].length, EVERY if self._sized else 0)
            self._sized = True

    def interrupted(self, message: str) -> None:
        """The server stops; what is held back is not stored, so the end is the committed length."""
        seam = Seam(SeamKind.INTERRUPTED, message, self._execution)
        self._index.seam(self.name, self.output.length, seam)

    def end(self) -> None:
        """No more will come."""
        self._break_off()
        self._index.end(self.name, self.output.length)
