# SPDX-License-Identifier: Apache-2.0
"""Files on this machine as a source: looked at in a thread, often while they grow, seldom when they rest.

Looking is a ``stat``; a file is opened only when that shows news. A watcher of the kernel's would need one
watch for every folder and still a look now and then, because it does not see network file systems.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.records import FINGERPRINT_BYTES, Delta, Identity
from covalent_joblog_plugin.model.source import FAIR_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalent_joblog_plugin.model.records import ReadRequest

PACE = ((5.0, 0.05), (60.0, 0.25), (float("inf"), 1.0))
"""A file with news in the last 5 s is looked at every 0.05 s, in the last minute every 0.25 s, else 1 s."""


@dataclass(slots=True)
class _Seen:
    news: float
    due: float = 0.0
    file: tuple[int, int, int] | None = None
    """Inode, device and time of the last change in ns, when it was last looked at."""
    suspicious: int = 0
    """Looks that must open the file although its size says nothing new: it is another one, or rewritten."""
    told: bool = False


class LocalFiles:
    """The source of local tasks; see ``DeltaSource``."""

    def __init__(self) -> None:
        self._session = uuid.uuid4().hex
        self._seen: dict[str, _Seen] = {}
        # A thread of our own: executors of other kinds may hold all threads of the loop's pool.
        self._thread = ThreadPoolExecutor(1, "joblog-local-files")

    async def read_deltas(
        self, requests: Sequence[ReadRequest], wait: float, max_bytes: int
    ) -> Sequence[Delta]:
        """See ``DeltaSource``."""
        loop = asyncio.get_running_loop()
        deadline = time.monotonic() + wait
        self._forget_all_but(requests)
        while True:
            everything = not wait
            deltas = await loop.run_in_executor(self._thread, self._look, requests, everything, max_bytes)
            rest = deadline - time.monotonic()
            if deltas or rest <= 0:
                return deltas
            due = min((self._seen[request.path].due for request in requests), default=deadline)
            await asyncio.sleep(max(0.01, min(rest, due - time.monotonic())))

    async def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False)

    def _forget_all_but(self, requests: Sequence[ReadRequest]) -> None:
        now = time.monotonic()
        self._seen = {r.path: self._seen.get(r.path) or _Seen(news=now) for r in requests}

    def _look(self, requests: Sequence[ReadRequest], everything: bool, max_bytes: int) -> list[Delta]:
        now = time.monotonic()
        found: list[Delta] = []
        news: list[ReadRequest] = []
        for request in requests:
            seen = self._seen[request.path]
            if not everything and seen.due > now:
                continue
            at_rest = self._at_rest(request, seen)
            if at_rest is None:
                news.append(request)
            elif everything:
                found.append(at_rest)
            age = now - seen.news
            seen.due = now + next(interval for limit, interval in PACE if age < limit)
        room = max_bytes
        for request in news:
            share = room if len(news) == 1 else min(room, FAIR_BYTES)
            if share <= 0:
                break
            delta = self._read(request, share)
            room -= len(delta.data)
            if everything or not self._said_before(delta):
                found.append(delta)
        return found

    def _said_before(self, delta: Delta) -> bool:
        seen = self._seen[delta.path]
        before, seen.told = seen.told, bool(delta.problem)
        if delta.data:
            seen.news = time.monotonic()
        return before and seen.told

    def _at_rest(self, request: ReadRequest, seen: _Seen) -> Delta | None:
        """An answer without data where a ``stat`` shows no news; else None."""
        try:
            status = os.stat(request.path)  # noqa: PTH116 - this is the hot path
        except FileNotFoundError:
            return self._empty(request)
        except OSError:
            return None  # opening it says what is wrong
        file = (status.st_ino, status.st_dev, status.st_mtime_ns)
        if seen.file not in {None, file}:
            seen.suspicious = 3
        seen.file = file
        if status.st_size != request.pos or seen.suspicious or not stat.S_ISREG(status.st_mode):
            seen.suspicious = max(0, seen.suspicious - 1)
            return None
        return self._empty(request, status.st_size)

    def _empty(self, request: ReadRequest, size: int | None = None, problem: str = "") -> Delta:
        return Delta(request.path, request.pos, b"", time.time(), size=size, problem=problem)

    def _read(self, request: ReadRequest, share: int) -> Delta:
        try:
            # Without O_NONBLOCK, opening a FIFO that has no writer would wait for one.
            fd = os.open(request.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return self._empty(request)
        except OSError as error:
            return self._empty(request, problem=f"{error.strerror} ({request.path})")
        try:
            return self._read_open(fd, request, share)
        except OSError as error:
            return self._empty(request, problem=f"{error.strerror} ({request.path})")
        finally:
            os.close(fd)

    def _read_open(self, fd: int, request: ReadRequest, share: int) -> Delta:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return self._empty(request, problem="not a regular file")
        size = share if request.size < 0 else min(share, request.size)
        start = max(0, request.pos - FINGERPRINT_BYTES)
        text = os.pread(fd, request.pos - start + size, start)
        # The head is read after the data: a file rewritten in between shows itself by it.
        head = os.pread(fd, FINGERPRINT_BYTES, 0)
        status = os.fstat(fd)
        return Delta(
            request.path,
            request.pos,
            text[request.pos - start :],
            time.time(),
            size=status.st_size,
            identity=Identity(status.st_ino, status.st_dev, self._session, head),
            before=text[: request.pos - start],
            mtime=status.st_mtime,
            hole=_hole_at_head(fd, status) if status.st_size > request.pos else 0,
        )


def _hole_at_head(fd: int, status: os.stat_result) -> int:
    # st_blocks counts 512 bytes; a file without a hole need not be asked.
    if status.st_blocks * 512 >= status.st_size:
        return 0
    try:
        return os.lseek(fd, 0, os.SEEK_DATA)
    except OSError:
        return status.st_size  # ENXIO: nothing but a hole
