# SPDX-License-Identifier: Apache-2.0
"""Reads growing files. Runs on the login node, one process for all jobs; see ``remote_frames``.

Requests are JSON, one a line:

    {"slot": 0, "seq": 7, "wait": 30, "max": 4194304,
     "set": [[id, pos, size, pace, path, hot], ...], "drop": [id, ...]}

Each slot is a conversation of its own with its own files; a request tells only what changed in it, and a new
one takes the place of the one that waits. ``path`` is given when the id is new, with ``hot`` 1 where news
is expected at once. ``pace`` is the longest time
in seconds between two looks, or null. ``wait`` 0 is a poll: every file is answered.

Answers are frames:

    {"slot": 0, "seq": 7, "files": [{"i": id, "ino": …, "dev": …, "size": …, "mtime": …,
                                     "hole": …, "parts": [head, before, data]}, ...]}

``parts`` are lengths within the raw bytes. A missing file is ``{"i": id, "missing": 1}``, one that cannot be
read ``{"i": id, "problem": text}``. ``{"bye": 1}`` says that the process renews itself.

What it may cost the login node: 100 looks a second and 1 % of a core for looking, by stretching the
intervals; carrying new bytes is not counted. A file with news in the last 5 s is looked at every 0.2 s, in
the last minute every 1 s, then every 2 to 30 s.
"""

import errno
import json
import os
import select
import stat
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

if TYPE_CHECKING:
    from .remote_frames import answer
    from .remote_watch import Budget, File, Seen, Slot

FAIR = 64 * 1024
HEAD = 64
IDLE_EXIT = 600.0
CPU_LIFE = 300.0
LIST_AGAIN = 30.0
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

Entry = Dict[str, Any]
Parts = Tuple[bytes, bytes, bytes]


class Reader:
    """Serves the slots."""

    def __init__(self) -> None:
        self.slots: Dict[int, Slot] = {}
        self.budget = Budget()
        self.listed: Dict[bytes, float] = {}
        self.asked = time.monotonic()

    def request(self, line: bytes) -> None:
        """Take in one line of stdin."""
        now = time.monotonic()
        message = json.loads(line.decode("ascii"))
        self.asked = now
        self.slots.setdefault(message["slot"], Slot()).ask(message, now)

    def serve(self) -> float:
        """Look at what is due and answer; returns seconds until the next look."""
        now, began, carried = time.monotonic(), time.process_time(), 0
        self.budget.fill(now)
        pause = IDLE_EXIT
        # Who looked last comes last: where looks are few, each slot gets its share.
        for number, slot in sorted(self.slots.items(), key=lambda item: item[1].looked):
            if slot.seq is None:
                continue
            files, raw = self.look_at_due(slot, now)
            carried += sum(map(len, raw))
            if files or slot.poll or slot.deadline <= now:
                answer({"slot": number, "seq": slot.seq, "files": files}, raw)
                slot.seq = None
                continue
            due = min([one.due for one in slot.files.values()] or [slot.deadline])
            due = max(due, now + self.budget.wait())
            pause = min(pause, max(0.0, min(slot.deadline, due) - now))
        self.budget.worked(time.process_time() - began, carried)
        return pause

    def look_at_due(self, slot: Slot, now: float) -> Tuple[List[Entry], List[bytes]]:
        """Look at the files whose time has come; entries and raw bytes of those with news."""
        due = [(one.lateness(now), n) for n, one in slot.files.items() if slot.wants(n) or one.due <= now]
        due.sort(reverse=True)
        files: List[Entry] = []
        raw: List[Optional[Parts]] = []
        room, last = slot.max, None
        for _, number in due:
            if room <= 0:
                break
            if self.budget.empty and not slot.wants(number):
                continue
            one = slot.files[number]
            slot.looked = time.monotonic()
            entry, parts = self.look(one, min(FAIR, room), now, slot.wants(number))
            if entry is None:
                continue
            entry["i"] = number
            files.append(entry)
            raw.append(parts)
            if parts and parts[2]:
                room -= len(parts[2])
                last = one
        if last is not None and room > 0 and sum(1 for parts in raw if parts and parts[2]) == 1:
            self.extend(files, raw, slot, last, now)
        return files, [part for parts in raw for part in parts or ()]

    def extend(
        self, files: List[Entry], raw: List[Optional[Parts]], slot: Slot, one: File, now: float
    ) -> None:
        """The only file with news gets the whole answer."""
        at, data = next((i, parts[2]) for i, parts in enumerate(raw) if parts and parts[2])
        if one.seen is None or one.seen[2] <= one.pos + len(data):
            return
        entry, parts = self.look(one, slot.max, now, True)
        if entry and parts:
            entry["i"] = files[at]["i"]
            files[at], raw[at] = entry, parts

    def look(
        self, one: File, room: int, now: float, everything: bool
    ) -> Tuple[Optional[Entry], Optional[Parts]]:
        """One look at a file: its entry and raw parts; (None, None) when there is nothing to tell."""
        self.budget.spend()
        one.looked = now
        try:
            found = self.read(one, room if one.limit is None else min(room, one.limit))
        except OSError as error:
            found = failed(error)
        entry, parts, seen = found
        news = bool(parts and parts[2])
        before, one.seen = one.seen, seen
        complaint, one.complaint = one.complaint, entry.get("problem")
        appeared = seen is not None and before is None and one.missing
        one.missing = "missing" in entry
        if news or appeared or (seen is not None and before is not None and before != seen):
            one.news = now
        one.due = now + one.interval(now)
        if everything or news or (one.complaint and one.complaint != complaint):
            return entry, parts
        # Same size, and yet written to or replaced: the bytes around the position tell.
        if seen is not None and (
            seen[2] < one.pos or (before or seen) != seen or (one.pos and before is None)
        ):
            return entry, parts
        return None, None

    def read(self, one: File, room: int) -> Tuple[Entry, Optional[Parts], Optional[Seen]]:
        """Read a file from its position."""
        fd = self.open(one.path)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            data = os.pread(fd, room, one.pos) if status.st_size > one.pos else b""
            # The head and what stands before the position are read after the data: a file rewritten in
            # between shows itself by them.
            head = os.pread(fd, HEAD, 0)
            start = max(0, one.pos - HEAD)
            before = os.pread(fd, one.pos - start, start) if one.pos else b""
            status = os.fstat(fd)
            hole = hole_at_head(fd, status) if data or status.st_size > one.pos else 0
        finally:
            os.close(fd)
        entry: Entry = {"ino": status.st_ino, "dev": status.st_dev, "size": status.st_size}
        entry["mtime"], entry["hole"] = status.st_mtime, hole
        entry["parts"] = [len(head), len(before), len(data)]
        mtime = int(status.st_mtime * 1e6)
        seen = (status.st_ino, status.st_dev, status.st_size, mtime)
        return entry, (head, before, data), seen

    def open(self, path: bytes) -> int:
        """Open a regular file."""
        # Opening the reading end of a FIFO would end its writer's wait and then kill it: look first.
        try:
            if stat.S_ISREG(os.stat(path).st_mode):
                return os.open(path, FLAGS)
            raise OSError(errno.EINVAL, "not a regular file")  # noqa: TRY301 - as fstat would find
        except OSError as error:
            if error.errno not in (errno.ENOENT, getattr(errno, "ESTALE", errno.ENOENT)):
                raise
        # A network file system remembers for a while that a file was not there; listing its folder cures it.
        folder, now = os.path.dirname(path), time.monotonic()
        if now - self.listed.get(folder, -LIST_AGAIN) >= LIST_AGAIN:
            self.listed[folder] = now
            try:
                os.listdir(folder)
            except OSError:
                pass
        return os.open(path, FLAGS)


def failed(error: OSError) -> Tuple[Entry, Optional[Parts], Optional[Seen]]:
    """The entry of a file that cannot be read."""
    if error.errno == errno.ENOENT:
        return {"missing": 1}, None, None
    return {"problem": error.strerror or str(error)}, None, None


def hole_at_head(fd: int, status: os.stat_result) -> int:
    """Bytes never written at the head of a sparse file."""
    if status.st_blocks * 512 >= status.st_size or not hasattr(os, "SEEK_DATA"):
        return 0
    try:
        return os.lseek(fd, 0, os.SEEK_DATA)
    except OSError as error:
        return status.st_size if error.errno == errno.ENXIO else 0


def main(first: bytes) -> None:
    """Serve until stdin ends. ``first`` are bytes of stdin that were read already."""
    reader, rest = Reader(), first
    while True:
        lines = rest.split(b"\n")
        rest = lines.pop()
        for line in lines:
            reader.request(line)
        while not select.select([0], [], [], reader.serve())[0]:
            if time.process_time() > CPU_LIFE or time.monotonic() - reader.asked > IDLE_EXIT:
                answer({"bye": 1})
                return
        data = os.read(0, 1 << 16)
        if not data:
            return
        rest += data


if __name__ == "__main__":
    try:
        main(b"")
    except BrokenPipeError:
        sys.exit(0)
