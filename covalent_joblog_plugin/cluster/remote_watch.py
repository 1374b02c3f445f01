# SPDX-License-Identifier: Apache-2.0
"""What is watched, and how often it may be looked at. Part of a program; see ``remote_frames``."""

import time
from typing import Any, Dict, Optional, Set, Tuple

LOOKS_PER_SECOND = 100.0
CPU_SHARE = 0.01
CPU_BURST = 0.5
BYTES_PER_CPU_SECOND = 100e6
LOOKS_AT_ONCE = 10
QUIET_AFTER = 60.0

Seen = Tuple[int, int, int, int]
"""Inode, device, size, mtime."""


class File:
    """A file of one slot, and what is known of it; ``hot`` where news is expected at once."""

    def __init__(self, path: str, now: float, hot: bool) -> None:
        self.path = path.encode("utf-8", "surrogateescape")
        self.pos = 0
        self.limit: Optional[int] = None
        self.pace: Optional[float] = None
        self.seen: Optional[Seen] = None
        self.complaint: Optional[str] = None
        self.missing = False
        self.news = now - (0.0 if hot else QUIET_AFTER - 5.0)
        self.looked = 0.0
        self.due = 0.0

    def interval(self, now: float) -> float:
        """Seconds between two looks."""
        idle = now - self.news
        pace = 0.2 if idle < 5 else 1.0 if idle < QUIET_AFTER else min(30.0, max(2.0, idle / 30))
        return pace if self.pace is None else min(pace, self.pace)

    def lateness(self, now: float) -> float:
        """Time since the last look, in its own intervals: where looks are few, all are late alike."""
        return (now - self.looked) / self.interval(now)


class Slot:
    """One conversation: its files and the request that waits."""

    def __init__(self) -> None:
        self.files: Dict[int, File] = {}
        self.seq: Optional[int] = None
        self.poll = False
        self.now: Optional[Set[int]] = None
        self.deadline = 0.0
        self.max = 0
        self.looked = 0.0

    def ask(self, message: Dict[str, Any], now: float) -> None:
        """Take in a request; it takes the place of one that waits."""
        for number in message.get("drop", ()):
            self.files.pop(number, None)
        for change in message.get("set", ()):
            number, pos, limit, pace = change[:4]
            if len(change) > 4:
                self.files[number] = File(change[4], now, bool(change[5]))
            one = self.files[number]
            one.pos, one.limit, one.pace = pos, limit, pace
            one.due = min(one.due, one.looked + one.interval(now))
        for one in self.files.values():
            if one.seen is not None and one.seen[2] > one.pos:
                one.due = 0.0
        self.seq, self.max = message["seq"], message["max"]
        self.poll = not message["wait"]
        self.now = set(message["now"]) if "now" in message else None
        self.deadline = now + message["wait"]

    def wants(self, number: int) -> bool:
        """Whether a file must be looked at and answered for, whatever there is to tell."""
        return self.poll and (self.now is None or number in self.now)


class Budget:
    """What looking may cost: two buckets that fill with time."""

    def __init__(self) -> None:
        self.filled = time.monotonic()
        self.looks = LOOKS_PER_SECOND
        self.cpu = CPU_BURST

    def fill(self, now: float) -> None:
        """Time has passed."""
        passed, self.filled = now - self.filled, now
        self.looks = min(LOOKS_PER_SECOND, self.looks + passed * LOOKS_PER_SECOND)
        self.cpu = min(CPU_BURST, self.cpu + passed * CPU_SHARE)

    def spend(self) -> None:
        """Somebody looked at a file; polls may run into debt, but not far."""
        self.looks = max(self.looks - 1, -LOOKS_PER_SECOND)

    def worked(self, cpu: float, carried: int) -> None:
        """So many seconds of CPU were used; carrying new bytes is not counted."""
        self.cpu = max(self.cpu - max(0.0, cpu - carried / BYTES_PER_CPU_SECOND), -CPU_SHARE)

    @property
    def empty(self) -> bool:
        """Whether nobody may look now."""
        return self.looks < 1 or self.cpu < 0

    def wait(self) -> float:
        """Seconds until it is worth while to look again: not for a single look."""
        if not self.empty:
            return 0.0
        return max((LOOKS_AT_ONCE - self.looks) / LOOKS_PER_SECOND, -self.cpu / CPU_SHARE)
