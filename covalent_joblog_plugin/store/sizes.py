# SPDX-License-Identifier: Apache-2.0
"""Keeps the sizes in Covalent's asset rows: its client fetches an asset only when that is not 0.

One thread for all nodes: the first byte at once, then at most every ``EVERY`` seconds, many rows in one short
transaction, again while the database is locked. No text waits for it.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING

from .nodes import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

log = logging.getLogger("covalent_joblog_plugin")

EVERY = 30.0
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
_LAST_WAIT = 5.0
"""Seconds given to the last sizes when the server ends."""


class SizeRecorder:
    """Records lengths of asset files in their rows.

    Args:
        write: Stores (row, bytes) pairs in one transaction, or raises.
    """

    def __init__(self, write: Callable[[Iterable[tuple[int, int]]], None]) -> None:
        self._write = write
        self._changed = threading.Condition()
        self._lengths: dict[int, int] = {}
        self._due: dict[int, float] = {}
        self._settling: dict[int, list[Future[None]]] = {}
        self._ending = False
        self._thread: threading.Thread | None = None

    def note(self, row: int, length: int, delay: float) -> None:
        """The file of ``row`` is ``length`` bytes long; record it within ``delay`` seconds."""
        with self._changed:
            self._lengths[row] = length
            due = time.monotonic() + delay
            if due < self._due.get(row, float("inf")):
                self._due[row] = due
                self._wake()

    def settle(self, row: int, length: int) -> Future[None]:
        """Record the length for good; the future is done when it is in the database."""
        done: Future[None] = Future()
        with self._changed:  # one step: a write of the row that is under way is not this one
            self._settling.setdefault(row, []).append(done)
            self.note(row, length, 0)
        return done

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="joblog-sizes", daemon=True)
            self._thread.start()
            atexit.register(self.end)
        self._changed.notify()

    def end(self) -> None:
        """Record everything now, for at most ``_LAST_WAIT`` seconds: the server ends."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_LAST_WAIT)

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while (rows := self._next()) is not None:
            try:
                self._write(list(rows.items()))
            except Exception as error:  # noqa: BLE001 - whatever the database says, the sizes are tried again
                if pause == _FIRST_PAUSE:
                    log.warning("sizes of %d outputs cannot be recorded yet: %s", len(rows), error)
                self._again(rows)
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                pause = _FIRST_PAUSE
                self._settled(rows)

    def _next(self) -> dict[int, int] | None:
        """The rows that are due, waiting for the first; None at the end."""
        with self._changed:
            while True:
                now = time.monotonic()
                rows = [row for row, due in self._due.items() if due <= now or self._ending]
                if rows:
                    for row in rows:
                        del self._due[row]
                    return {row: self._lengths.pop(row) for row in rows}
                if self._ending:
                    return None
                self._changed.wait(min(self._due.values()) - now if self._due else None)

    def _again(self, rows: dict[int, int]) -> None:
        with self._changed:
            for row, length in rows.items():
                self._lengths.setdefault(row, length)
                self._due[row] = 0

    def _settled(self, rows: dict[int, int]) -> None:
        with self._changed:
            done = [future for row in rows if row not in self._due for future in self._settling.pop(row, ())]
        for future in done:
            if future.set_running_or_notify_cancel():
                future.set_result(None)


@cache
def recorder() -> SizeRecorder:
    """The one of this process."""
    return SizeRecorder(rows().set_sizes)
