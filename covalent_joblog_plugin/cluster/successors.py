# SPDX-License-Identifier: Apache-2.0
"""Log files that are begun while their reader is behind: each is opened while that is possible.

A follow that comes to the end of its file goes on with the newest one, and skips those between. But what is
open is read to its end, however often the log is rotated meanwhile. So each new file gets a stream of its
own as soon as its head is seen, and that waits, held up by nobody reading it, until the text has come so far.
"""

from __future__ import annotations

import re
from collections import deque
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from covalent_joblog_plugin.model.errors import JobLogError

from .stamped import LONGEST_STAMP, STAMP, nanoseconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

MOST = 16
"""Streams that wait."""
HELD_BYTES = 64 << 10
"""A longer line is not held back."""
_LATER_STAMPS = re.compile(rb"(?<=\n)" + STAMP.pattern)


class Head(NamedTuple):
    """How a log file begins: the stamp of its first line, and the text from there on, with later stamps."""

    stamp: bytes
    text: bytes

    @property
    def first(self) -> bytes:
        """Text of its first line, as much as is known."""
        return self.text[: self.text.find(b"\n") + 1] or self.text

    def goes_on(self, line: bytes, following: bytes) -> bool:
        """Whether the file's first line may be the end of ``line``, with ``following`` the next line's stamp.

        A rotation inside a line leaves its rest to the new file, and a follow across it shows no stamp there.
        """
        first = self.first
        second = STAMP.match(self.text, len(first))
        if second and second[1] != following:
            return False
        return line.endswith(first) if first.endswith(b"\n") else first in line


@dataclass(frozen=True, slots=True)
class Successor:
    """A stream that begins with a file's first line."""

    head: Head
    chunks: AsyncIterator[bytes]
    stack: AsyncExitStack


class Successors:
    """The streams that wait, oldest file first.

    Args:
        follow: Opens a follow that begins with the current file.
    """

    def __init__(self, follow: Callable[[], AbstractAsyncContextManager[AsyncIterator[bytes]]]) -> None:
        self._follow = follow
        self._waiting: deque[Successor] = deque()

    @property
    def first(self) -> Head | None:
        """The file that comes next; None where there is none."""
        return self._waiting[0].head if self._waiting else None

    async def open(self, head: Head) -> bool:
        """Open the file that is current and begins like that, unless it is; whether that was done."""
        if len(self._waiting) >= MOST or any(known.head.stamp == head.stamp for known in self._waiting):
            return False
        async with AsyncExitStack() as stack:
            try:
                chunks = await stack.enter_async_context(self._follow())
            except JobLogError:
                return False  # what is missing then is a gap
            self._waiting.append(Successor(head, chunks, stack.pop_all()))
        return True

    def pop(self) -> Successor:
        """Take the first; its ``stack`` is to be closed."""
        return self._waiting.popleft()

    async def drop(self) -> None:
        """The first is not needed: its text comes from elsewhere."""
        await self.pop().stack.aclose()

    async def close(self) -> None:
        """Drop all."""
        while self._waiting:
            await self.drop()


class Crossing(NamedTuple):
    """A stream went on to a later file: its last line before that, and the first stamp that is later."""

    line: bytes
    stamp: bytes

    def leaves(self, following: Head, current: Head) -> tuple[bytes, bool] | None:
        """What is left of the last line where the stream skipped a file; None where it did not.

        Args:
            following: The file that comes next.
            current: The file that is current now.

        Returns:
            The line's text that is surely of the file before; whether it is all of it.
        """
        if self.stamp == following.stamp or following.goes_on(self.line, self.stamp):
            return None
        if self.stamp == current.stamp:
            return self.line, True
        if current.first.endswith(b"\n") and current.goes_on(self.line, self.stamp):
            return self.line.removesuffix(current.first), True
        return b"", False  # it may be joined from two files


class Edge:
    """Holds a stream back at the end of the file before ``limit``, the first stamp of the next one.

    The last line is held until it is known that the next is of the same file, because the rest of a line may
    be that of another file, which was begun inside a line.
    """

    def __init__(self) -> None:
        self.crossing: Crossing | None = None
        self._begun = b""  # the beginning of the line that was given on last
        self._held = b""  # whole lines and one that may go on

    def feed(self, chunk: bytes, limit: bytes) -> bytes:
        """What can be given on of this and of what was held; an empty ``limit`` holds nothing."""
        self._held, self.crossing, text = b"", None, self._held + chunk
        end = self._end(text, limit) if limit else len(text)
        given, self._held = text[:end], text[end:]
        begin = given.rfind(b"\n") + 1
        before = b"" if begin else self._begun
        self._begun = (before + given[begin : begin + LONGEST_STAMP])[:LONGEST_STAMP]
        return given

    def rest(self) -> bytes:
        """What is held; it counts as given on."""
        return self.feed(b"", b"")

    def drop(self) -> None:
        """What is held is of a later file."""
        self._held = b""

    def _end(self, text: bytes, limit: bytes) -> int:
        least, begun = nanoseconds(limit), self._begun
        if len(begun) < LONGEST_STAMP:
            stamp = STAMP.match(begun + text)
            if stamp and nanoseconds(stamp[1]) >= least:
                self.crossing = Crossing(b"", stamp[1])
                return 0
        for stamp in _LATER_STAMPS.finditer(text):
            if nanoseconds(stamp[1]) >= least:
                begin = text.rfind(b"\n", 0, stamp.start() - 1) + 1
                self.crossing = Crossing(text[begin : stamp.start()], stamp[1])
                return begin
        begin = text.rfind(b"\n") + 1
        if begin and not STAMP.match(text, begin):
            begin = text.rfind(b"\n", 0, begin - 1) + 1
        return begin if len(text) - begin <= HELD_BYTES else len(text)
