# SPDX-License-Identifier: Apache-2.0
"""How far one file has been read, and whether an answer continues what was read before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.records import FINGERPRINT_BYTES, FileRef, Identity, Seam, SeamKind

if TYPE_CHECKING:
    from covalent_joblog_plugin.model.records import Delta

CERTAIN = 2
"""Answers that must agree before a file counts as truncated, replaced or read to its end: caches of network
file systems show old sizes."""
PATIENCE = 2.0
"""Seconds for which a file must be unreadable before that counts as its end: it may be a passing fault."""


@dataclass(slots=True)
class Position:
    """How far one source file has been read.

    Attributes:
        ref: The file.
        pos: Byte offset of the next read.
        stored: Byte offset up to which the store has taken the bytes; never beyond ``pos``.
        empties: Answers in a row that had nothing new.
        problem: Why the file cannot be read; empty when it can.
    """

    ref: FileRef
    pos: int = 0
    stored: int = 0
    empties: int = 0
    problem: str = ""
    _identity: Identity | None = None
    _doubts: int = 0
    _tail: bytes = b""
    _stored_tail: bytes = b""
    _emptied: bool = False
    _told: tuple[int, int] = (0, 0)
    _unreadable_since: float | None = None

    def accept(self, delta: Delta) -> tuple[Seam | None, bytes]:
        """Take in an answer; return a seam to store first and the bytes to store, either may be empty.

        ``pos`` moves past the bytes returned; ``stored`` moves when the store has them.
        """
        if delta.pos != self.pos:
            return None, b""  # asked before the store fell behind; it will come again
        self.problem = delta.problem
        if delta.problem:
            self._unreadable_since = self._unreadable_since or delta.arrival
            if delta.arrival - self._unreadable_since >= PATIENCE:
                self.empties += 1
            return None, b""
        self._unreadable_since = None
        if delta.size is None and not delta.data:
            self.empties += 1
            return None, b""
        if kind := self._contradiction(delta):
            self.empties = 0
            self._doubts += 1
            return (self._start_over(kind, delta) if self._doubts >= CERTAIN else None), b""
        self._doubts = 0
        self._identity = delta.identity or self._identity
        seam, data = self._skip_hole(delta) if self._emptied else (None, delta.data)
        self.pos += len(data)
        self._tail = (self._tail + data)[-FINGERPRINT_BYTES:]
        self.empties = 0 if self.pos > delta.pos or (delta.size or 0) > self.pos else self.empties + 1
        return seam, data

    def fresh_seams(self, delta: Delta) -> tuple[Seam, ...]:
        """The source's own seams at the position that were not returned before."""
        if delta.pos != self.pos:
            return ()
        told = self._told[1] if self._told[0] == delta.pos else 0
        self._told = delta.pos, max(told, len(delta.seams))
        return delta.seams[told:]

    def took(self, data: bytes, taken: int) -> bool:
        """Record that the store took the first ``taken`` bytes of ``data``; False if that was not all.

        What it did not take will be read again.
        """
        self.stored += taken
        self._stored_tail = (self._stored_tail + data[:taken])[-FINGERPRINT_BYTES:]
        if taken == len(data):
            return True
        self.pos, self._tail, self.empties = self.stored, self._stored_tail, 0
        return False

    def _contradiction(self, delta: Delta) -> SeamKind | None:
        if delta.size is not None and delta.size < self.pos:
            return SeamKind.TRUNCATED
        known, now = self._identity, delta.identity
        if known and now and not now.continues(known):
            same_inode = (now.inode, now.device) == (known.inode, known.device)
            return SeamKind.TRUNCATED if same_inode else SeamKind.REPLACED
        if delta.before is not None:
            n = min(len(delta.before), len(self._tail))
            if n and delta.before[-n:] != self._tail[-n:]:
                return SeamKind.TRUNCATED
        return None

    def _start_over(self, kind: SeamKind, delta: Delta) -> Seam:
        fresh = Position(self.ref, _identity=delta.identity, _emptied=kind is SeamKind.TRUNCATED)
        for name in ("pos", "stored", "_identity", "_doubts", "_tail", "_stored_tail", "_emptied"):
            setattr(self, name, getattr(fresh, name))
        what = "was truncated" if kind is SeamKind.TRUNCATED else "was replaced by another file"
        return Seam(kind, f"{self.ref.path} {what}; reading it from its start", execution=self.ref.execution)

    def _skip_hole(self, delta: Delta) -> tuple[Seam | None, bytes]:
        """Leave out what a writer without O_APPEND leaves behind: NULs from the start to its old offset.

        ``delta.hole`` saves reading them where the file system knows; the rest is found in the data.
        Nothing is on its way to the store yet, so ``stored`` may move along.
        """
        if delta.hole > self.pos:
            self._skip(delta.hole - self.pos)
            return None, b""
        data = delta.data.lstrip(b"\0")
        self._skip(len(delta.data) - len(data))
        if not data:
            return None, b""
        self._emptied = False
        if not self.pos:
            return None, data
        message = (
            f"{self.pos} bytes skipped: {self.ref.path} was truncated while its writer kept its old offset, "
            "so they were never written and read as NUL"
        )
        return Seam(SeamKind.HOLE, message, execution=self.ref.execution, lost=self.pos), data

    def _skip(self, size: int) -> None:
        self.pos += size
        self.stored += size
        self._tail = self._stored_tail = (self._tail + bytes(min(size, FINGERPRINT_BYTES)))[
            -FINGERPRINT_BYTES:
        ]
