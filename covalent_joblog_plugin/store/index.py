# SPDX-License-Identifier: Apache-2.0
"""When what arrived, and where the breaks are: ``index.jsonl``.

One JSON object a line, of three kinds, all with ``file`` and ``cursor``:

    {"file", "cursor", "arrival", "source_time", "execution"}   the bytes from ``cursor`` on arrived then
    {"file", "cursor", "seam", "message", "execution", "lost"}  a break right before ``cursor``
    {"file", "cursor", "end": true}                             the output ends at ``cursor``

It is written after the data and may lag behind: a record of arrival at most every second or 64 KiB of a
file, and one where the execution changes; every seam at once. Lines the disk has no room for wait in memory.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import StoreError

from .growing_file import GrowingFile
from .index_view import EVERY_SECONDS, IndexView

if TYPE_CHECKING:
    from pathlib import Path

    from covalent_joblog_plugin.model.records import Seam

    from .items import Append

EVERY_BYTES = 64 * 1024


class Index:
    """The index of one node."""

    def __init__(self, path: Path) -> None:
        """Open or make it, without the half line a killed server may have left; raises OSError."""
        self._file = GrowingFile.create(path)
        while self._file.length:
            tail = self._file.read(max(0, self._file.length - EVERY_BYTES), EVERY_BYTES)
            self._file.length -= len(tail) - (tail.rfind(b"\n") + 1)
            if b"\n" in tail:
                break
        self._waiting: list[bytes] = []
        self._last: dict[str, tuple[int, float, int]] = {}

    def arrived(self, cursor: int, item: Append) -> None:
        """Record the arrival of an append that begins at ``cursor``, if it is time for a record."""
        last = self._last.get(item.file)
        if (
            last is not None
            and cursor - last[0] < EVERY_BYTES
            and 0 <= item.arrival - last[1] < EVERY_SECONDS
            and item.execution == last[2]
        ):
            return
        self._last[item.file] = (cursor, item.arrival, item.execution)
        self._add(
            item.file,
            cursor,
            arrival=item.arrival,
            source_time=item.source_time,
            execution=item.execution,
        )

    def seam(self, file: str, cursor: int, seam: Seam) -> None:
        """Record a break right before ``cursor``."""
        self._last.pop(file, None)
        self._add(
            file,
            cursor,
            seam=seam.kind.value,
            message=seam.message,
            execution=seam.execution,
            lost=seam.lost,
        )

    def end(self, file: str, cursor: int) -> None:
        """Record the end of an output."""
        self._add(file, cursor, end=True)

    def _add(self, file: str, cursor: int, **values: Any) -> None:
        self._waiting.append(json.dumps({"file": file, "cursor": cursor, **values}).encode() + b"\n")

    def view(self) -> IndexView:
        """All lines so far, those that wait included."""
        return IndexView(self._file.path, self._file.length, b"".join(self._waiting))

    def flush(self) -> bool:
        """Write the lines that wait; False when that failed and they go on waiting."""
        if self._waiting:
            with suppress(OSError, StoreError):
                self._file.append(b"".join(self._waiting))
                self._waiting.clear()
        return not self._waiting
