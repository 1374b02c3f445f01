# SPDX-License-Identifier: Apache-2.0
"""A container's log as containerd writes it and the kubelet reads it, in memory.

The rules are those of Kubernetes 1.34 with containerd 1.6 as far as they can be seen from outside;
``test_log_simulator.py`` holds them against a real node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

RECORD_BYTES = 16384
"""A record holds at most so much text."""


@dataclass(frozen=True)
class Record:
    """What one line of a log file holds; ``text`` with its newline if it ends with one."""

    nanoseconds: int
    stream: int
    text: bytes


@dataclass
class ContainerLog:
    """One container instance's log.

    Attributes:
        files: In the order in which they were begun; only the last one can be read.
        now: The node's clock, Unix nanoseconds.
        zone: Offset of the node's time zone in minutes.
        running: Whether the container runs.
    """

    files: list[list[Record]] = field(default_factory=lambda: [[]])
    now: int = 1_764_547_200 * 10**9
    zone: int = 0
    running: bool = True
    _pending: dict[int, bytes] = field(default_factory=lambda: {1: b"", 2: b""})

    def write(self, stream: int, data: bytes, late: int = 0) -> None:
        """The container writes; a stream's records may be stamped a little ``late`` (nanoseconds)."""
        self._pending[stream] += data
        while b"\n" in self._pending[stream] or len(self._pending[stream]) > RECORD_BYTES:
            line, newline, rest = self._pending[stream].partition(b"\n")
            if len(line) > RECORD_BYTES:
                line, newline, rest = line[:RECORD_BYTES], b"", self._pending[stream][RECORD_BYTES:]
            elif newline and line.endswith(b"\r"):
                line = line[:-1]
            self._record(stream, line + newline, late)
            self._pending[stream] = rest

    def rotate(self) -> None:
        """The kubelet rotates; what was pending stays behind as the old file's last records."""
        self._flush()
        self.files.append([])

    def exit(self) -> None:
        """The container ends."""
        self._flush()
        self.running = False

    @property
    def truth(self) -> bytes:
        """All text, in the order of its records."""
        return b"".join(record.text for records in self.files for record in records)

    def stamp(self, nanoseconds: int) -> bytes:
        """A time as the kubelet writes it."""
        zone = timezone(timedelta(minutes=self.zone))
        seconds = datetime.fromtimestamp(nanoseconds // 10**9, zone)
        offset = seconds.strftime("%z")
        suffix = f"{offset[:3]}:{offset[3:]}" if self.zone else "Z"
        return f"{seconds:%Y-%m-%dT%H:%M:%S}.{nanoseconds % 10**9:09}{suffix}".encode()

    def _record(self, stream: int, text: bytes, late: int = 0) -> None:
        self.files[-1].append(Record(self.now - late, stream, text))
        self.now += 1

    def _flush(self) -> None:
        for stream, text in self._pending.items():
            if text:
                self._record(stream, text)
                self._pending[stream] = b""


class LogStream:
    """One answer of ``pods/log`` with stamps: what it has to say so far, and more when the log grows.

    Args:
        log: What is read.
        since: Unix seconds.
        follow: Whether it moves on to files that are begun later.
        skips: Whether it then jumps to the newest one.
        lags: Whether it does so at the end of its file only, as a reader does that cannot keep up.
    """

    def __init__(
        self,
        log: ContainerLog,
        since: int | None = None,
        *,
        follow: bool = False,
        skips: bool = False,
        lags: bool = False,
    ) -> None:
        self._log, self._since, self._follow, self._skips = log, (since or 0) * 10**9, follow, skips
        self._lags = lags
        self._file, self._next = len(log.files) - 1, 0
        self._new_line = True

    def more(self) -> bytes:
        """What can be read now and was not yet."""
        parts = []
        last = len(self._log.files) - 1
        if self._skips and self._file < last:
            self._file, self._next = last, 0
        while True:
            for record in self._log.files[self._file][self._next :]:
                parts.append(self._shown(record))
                self._next += 1
            if not self._follow or self._file == last:
                return b"".join(parts)
            self._file, self._next = last if self._lags else self._file + 1, 0

    def begin_again(self) -> None:
        """Read the current file once more, as a reader does that was slow while the log rotated twice."""
        self._next = 0

    def _shown(self, record: Record) -> bytes:
        # One flag for both streams, and it heeds what ``since`` leaves out.
        begins, self._new_line = self._new_line, record.text.endswith(b"\n")
        if record.nanoseconds < self._since:
            return b""
        return (self._log.stamp(record.nanoseconds) + b" " if begins else b"") + record.text
