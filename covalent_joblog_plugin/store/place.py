# SPDX-License-Identifier: Apache-2.0
"""Where in the job's own files a stored output ends, so that another process can go on from there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.records import FINGERPRINT_BYTES, SeamKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .index_view import Entry
    from .views import Snapshot

_FROM_START = frozenset({SeamKind.RESTART, SeamKind.TRUNCATED, SeamKind.REPLACED})
"""What follows is read from the start of a file."""
_LEFT_OUT = frozenset({SeamKind.LOST, SeamKind.HOLE})
"""So many bytes of the file are not in the output."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stored output ends.

    Attributes:
        execution: Which start of the job its last bytes are of.
        pos: Byte offset in that execution's file of the first byte that is not stored.
        before: The bytes right before it, at most ``FINGERPRINT_BYTES``, as they are stored.
        unclear: Why it is not known; empty where it is.
        full: Whether it takes nothing more: a limit was reached.
    """

    execution: int = 0
    pos: int = 0
    before: bytes = b""
    unclear: str = ""
    full: bool = False


def end_of(snapshot: Snapshot, file: str) -> Place:
    """Where the output ``file`` ends, by its length and its index.

    Raises:
        OSError: Output or index cannot be read.
        OutputGone: Somebody removed one of them.
    """
    entries = (entry for _, entry in snapshot.index.entries(file)) if snapshot.index else ()
    return _place(snapshot, entries)


def _place(snapshot: Snapshot, entries: Iterable[Entry]) -> Place:
    execution = begin = joined = left_out = 0
    unclear, full = "", False
    for entry in entries:
        if "seam" not in entry:
            execution = entry.get("execution", execution)
            continue
        kind = SeamKind(entry["seam"])
        execution, joined = entry["execution"], entry["cursor"]
        if kind in _FROM_START:
            begin, left_out, unclear = entry["cursor"], 0, ""
        elif kind in _LEFT_OUT and entry.get("lost") is None:
            unclear = "it is not known how many bytes were lost"
        elif kind in _LEFT_OUT:
            left_out += entry["lost"]
        elif kind is SeamKind.LATE:
            unclear = "text of an earlier execution came late"
        full = full or kind is SeamKind.CAPPED
    total = snapshot.view.total
    # What stands before a break is not what stands there in the job's file.
    since = min(FINGERPRINT_BYTES, total - joined)
    before = snapshot.view.read(total - since, since)
    return Place(execution, total - begin + left_out, before, unclear, full)
