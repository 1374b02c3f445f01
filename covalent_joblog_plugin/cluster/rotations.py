# SPDX-License-Identifier: Apache-2.0
"""Was each file of a rotated log entered at its start?

A follow may enter a rotated file late, or skip a whole one, and say nothing. What tells is the head of the
current file, read at least every 2 s while text flows: the kubelet rotates at most every 3 s (10 s by
default), so that no file goes unseen.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .stamped import STAMP, nanoseconds
from .successors import Head

if TYPE_CHECKING:
    from .stamped import Known, Text

HEAD_BYTES = 4096
"""How much of a file's head is read."""


class Rotations:
    """Compares the heads of files with the text that was taken.

    Args:
        text: Where the text went; gaps are told there.
    """

    def __init__(self, text: Text) -> None:
        self._out = text
        self.current = Head(b"", b"")
        """Of the current file, as it was seen first; empty before."""
        self._waiting: deque[Head] = deque()

    def saw(self, head: bytes) -> None:
        """The head of the current file, as it came."""
        stamp = STAMP.match(head)
        if stamp and stamp[1] != self.current.stamp:
            self.current = Head(stamp[1], head[stamp.end() :])
            self._waiting.append(self.current)

    def check(self) -> bytes:
        """Judge the heads that the text has passed.

        Returns:
            Stamp of the first head that the text has not passed yet; empty when there is none.
        """
        window = self._out.window
        while self._waiting and window.newest:
            stamp, head = self._waiting[0]
            # The first read of all began at the head of its file.
            if stamp != window.first and not window.holds(stamp):
                if nanoseconds(stamp) >= nanoseconds(window.newest):
                    return stamp
                self._judge(stamp, head)
            self._waiting.popleft()
        return self._waiting[0][0] if self._waiting else b""

    def _judge(self, stamp: bytes, head: bytes) -> None:
        window, at = self._out.window, nanoseconds(stamp)
        if any(after < at <= before for after, before in self._out.gaps):
            return
        name = stamp.decode()
        if window.holds(stamp) is None:
            self._out.lose(at, at, f"whether the log file that begins at {name} was read whole is unknown")
            return
        known = window.known()
        number = next(n for n, (_, line) in enumerate(known.lines) if nanoseconds(line) > at)
        number = _line_after(known, head) or number
        if _ends_the_line_before(known, number, head):
            return
        before = known.lines[max(number - 1, 0)][1]
        back = window.size - known.lines[number][0]
        why = f"the beginning of the log file that begins at {name} was not read, {back} bytes before here"
        self._out.lose(nanoseconds(before), at, why)


def _line_after(known: Known, head: bytes) -> int:
    """Number of the known line that is the head's second one; 0 where it has none that is known."""
    second = STAMP.match(head, head.find(b"\n") + 1) if b"\n" in head else None
    numbers = (n for n, (_, stamp) in enumerate(known.lines) if second and stamp == second[1])
    return next(numbers, 0)


def _ends_the_line_before(known: Known, number: int, head: bytes) -> bool:
    """Whether the head's first line is the rest of a known line that the rotation cut."""
    if number == 0:
        return False
    before = known.part(known.lines[number - 1][0], known.lines[number][0])
    first, newline, _ = head.partition(b"\n")
    # Of a longer line the head shows a part.
    return before.endswith(first + newline) if newline else first in before
