# SPDX-License-Identifier: Apache-2.0
"""The log of a framed container → what each stream held, and what is missing of it.

``framing_encoder`` says what the marks mean. Text is given on as soon as it is clear whose it is. After a gap
it is not: what comes next may be the end of any line. It is held until the next position, which tells how
many bytes of each stream are missing and, often, whose that first text is. Text in doubt counts as lost.
"""

from __future__ import annotations

from pathlib import Path

from .framing_encoder import STDERR, STDOUT, Counts, Encoder
from .framing_lines import (
    LATER_MARK,
    LONGEST_MARK,
    MARK,
    SUFFIXES,
    Event,
    Frame,
    Lost,
    Position,
    Text,
    begun,
    certain,
    decode,
    has_marks,
    may_be_control,
    unmarked,
    whole_lines,
)

__all__ = ["Decoder", "Encoder", "Event", "Frame", "Lost", "Text", "source"]

HELD_BYTES = 1 << 20
"""Most text kept back while no position comes; the encoder writes one every 256 KiB."""
CONTROL_BYTES = 16 << 10
"""No line of the encoder's is longer."""


def source() -> bytes:
    """The encoder, which travels to the pod as ``framing.py``."""
    return Path(__file__).with_name("framing_encoder.py").read_bytes()


class Decoder:
    """Text of one container's log → events.

    Text before the position 0 0 is somebody else's, such as an entry point's: it is given on as stdout and
    not counted. Its beginning is like a gap, as it may have been rotated away before it was read.
    """

    def __init__(self) -> None:
        self._counts = Counts()
        self._position: list[int] | None = [0, 0]  # of the encoder, as far as we have come; None: not known
        self._open = 0  # the stream of the unfinished line whose beginning was given on
        self._rest = b""  # the end of what came, where it cannot be told yet what it is
        self._held: list[bytearray] = [bytearray()]  # text after each gap; empty where there is none
        self._at_start = True
        self._events: list[Event] = []

    def counted(self) -> tuple[tuple[int, str], tuple[int, str]]:
        """Bytes and hexadecimal sha256 of stdout and stderr as they were given on."""
        sizes, hashes = self._counts.sizes, self._counts.sha256()
        return (sizes[0], hashes[0]), (sizes[1], hashes[1])

    def feed(self, text: bytes) -> list[Event]:
        """More of the log, without Kubernetes' stamps, cut anywhere."""
        if self._held:
            self._hold(text)
        else:
            self._live(text)
        return self._take()

    def gap(self) -> list[Event]:
        """Text may be missing before what comes next, which may begin inside a line."""
        self._open, self._rest = 0, b""
        if not self._held or self._held[-1]:
            self._held.append(bytearray())
        return self._take()

    def end(self, sizes: tuple[int, int] | None) -> list[Event]:
        """No more text comes.

        Args:
            sizes: Bytes of stdout and stderr as they were counted where they were written; None where nobody
                could tell.
        """
        if not self._held:
            if self._open:  # else it is the beginning of a line of the encoder's
                self._text(self._open, self._rest)
            if sizes is not None:
                self._arrive(Position(*sizes))
        elif sizes is not None:
            self._resolve(Position(*sizes))
        else:
            self._release()
        self._open, self._rest = 0, b""
        return self._take()

    def _take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    # -- what is given on -----------------------------------------------------------------------------

    def _give(self, found: list[Event | Position]) -> None:
        for event in found:
            if isinstance(event, Text):
                self._text(event.stream, event.data)
            elif isinstance(event, Position):
                self._arrive(event)
            else:
                self._events.append(event)

    def _text(self, stream: int, data: bytes) -> None:
        self._counts.add(stream, data)
        if self._position is not None:
            self._position[stream - 1] += len(data)
        self._show(stream, data)

    def _show(self, stream: int, data: bytes) -> None:
        last = self._events[-1] if self._events else None
        if isinstance(last, Text) and last.stream == stream:
            self._events[-1] = Text(stream, last.data + data)
        elif data:
            self._events.append(Text(stream, data))

    def _arrive(self, there: Position) -> None:
        """What is missing although no gap was told; it is somewhere since the last position."""
        if self._position is not None:
            self._lose([a - b for a, b in zip(there, self._position, strict=True)])
        self._position = list(there)

    def _lose(self, sizes: list[int]) -> None:
        for stream, size in zip((STDOUT, STDERR), sizes, strict=True):
            if size > 0:
                self._events.append(Lost(stream, size))

    # -- while nothing is missing ---------------------------------------------------------------------

    def _live(self, text: bytes) -> None:
        data = self._rest + text if self._rest else text
        begin = data.find(b"\n") + 1 if self._open else 0
        if begin:
            self._text(self._open, unmarked(data[:begin]))
            self._open = 0
        if not self._open:
            end = data.rfind(b"\n") + 1
            self._give(decode(data[begin:end]))
            begin = end
        self._unfinished(data[begin:])

    def _unfinished(self, line: bytes) -> None:
        """Give on of a line what its end cannot change."""
        self._rest = b""
        if not line:
            return
        if not self._open:
            if may_be_control(line) and len(line) < CONTROL_BYTES:
                self._rest = line
                return
            self._open, line = begun(line)
        if line.endswith(SUFFIXES):
            line, self._rest = line[:-1], line[-1:]
        self._text(self._open, line)

    # -- after a gap ----------------------------------------------------------------------------------

    def _hold(self, text: bytes) -> None:
        piece = self._held[-1]
        begin = max(0, len(piece) - LONGEST_MARK)
        piece += text
        # Only the encoder writes this at a line's start, but the first text may begin inside a line.
        found = LATER_MARK.search(piece, begin)
        if self._at_start and len(self._held) == 1 and piece.startswith(b"\x1c@0 0\n"):
            found = MARK.match(piece)
        if found is not None:
            there, rest = Position(int(found[1]), int(found[2])), bytes(piece[found.end() :])
            del piece[found.start() :]
            self._resolve(there)
            self._live(rest)
        elif sum(map(len, self._held)) > HELD_BYTES:
            end = piece.rfind(b"\n") + 1 or len(piece)
            rest = bytes(piece[end:])
            del piece[end:]
            if self._release():
                self._live(rest)
            else:
                self._held[-1] += rest

    def _resolve(self, there: Position) -> None:
        """A position: it tells what is missing of the text before it."""
        pieces, self._held = self._held, []
        at_start, self._at_start = self._at_start, False
        if at_start and there == (0, 0):
            self._show(STDOUT, b"".join(pieces).removesuffix(b"\x1e\n"))
        else:
            firsts, found = whole_lines(pieces)
            if self._position is None:
                self._lose_unknown()
            else:
                sizes = _sizes(found)
                missing = [a - b - c for a, b, c in zip(there, self._position, sizes, strict=True)]
                if len(firsts) == 1 and (first := certain(firsts[0], missing)):
                    missing[first.stream - 1] -= len(first.data)
                    found.insert(0, first)
                self._lose(missing)
            self._give(found)
        self._position = list(there)

    def _release(self) -> bool:
        """No position came; False where the runner seems not to have been reached yet."""
        pieces, self._held = self._held, []
        if self._at_start and len(pieces) == 1 and not has_marks(pieces[0]):
            self._show(STDOUT, bytes(pieces[0]))
            self._held = [bytearray()]
            return False
        self._at_start = False
        self._lose_unknown()
        self._position = None
        self._give(whole_lines(pieces)[1])
        return True

    def _lose_unknown(self) -> None:
        self._events += [Lost(STDOUT, None), Lost(STDERR, None)]


def _sizes(found: list[Event | Position]) -> tuple[int, int]:
    sizes = [0, 0]
    for event in found:
        if isinstance(event, Text):
            sizes[event.stream - 1] += len(event.data)
    return sizes[0], sizes[1]
