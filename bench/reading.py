# SPDX-License-Identifier: Apache-2.0
"""Readers that note when each line reached them."""

from __future__ import annotations

import http.client
import subprocess
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

POLL = 0.005
"""Seconds between two requests; the mean of half of it is in our figures."""


class Lines:
    """Lines with the time, in Unix nanoseconds, at which each was complete."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, int]] = []
        self._rest = b""
        self.bytes = 0

    def add(self, data: bytes) -> None:
        """Take what has just arrived."""
        now = time.time_ns()
        self.bytes += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.seen += [(line, now) for line in lines]

    def latencies(self) -> list[float]:
        """Milliseconds from write to arrival, of the lines that are nothing but the time of their writing."""
        return [(arrived - int(line)) / 1e6 for line, arrived in self.seen if line.isdigit()]

    def wait_for(self, line: bytes, timeout: float = 60) -> None:
        """Wait until ``line`` has arrived."""
        eventually(lambda: any(seen == line for seen, _ in self.seen), timeout, f"{line!r} is read")


class HttpReader(Lines):
    """Reads a node's stdout from Covalent's server, where "stored" means that it is served."""

    def __init__(self, url: str, dispatch_id: str, node_id: int = 0) -> None:
        super().__init__()
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self._path = f"/api/v0/files/{dispatch_id}/node_{node_id}/stdout.log"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def poll(self) -> None:
        """Read what is new."""
        self._connection.request("GET", self._path, headers={"Range": f"bytes={self.bytes}-"})
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status == http.client.PARTIAL_CONTENT:
            self.add(body)

    def _run(self) -> None:
        while not self._stopping.wait(POLL):
            try:
                self.poll()
            except (OSError, http.client.HTTPException):
                # A node that is just being made; the next request opens a new connection.
                self._connection.close()

    def __enter__(self) -> Self:
        """Read in a thread of its own."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop reading."""
        self._stopping.set()
        self._thread.join()
        self._connection.close()


class CommandReader(Lines):
    """Reads what a command writes, such as ``ssh HOST tail -F FILE``."""

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__()
        self._argv = argv
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        assert self._process.stdout is not None
        while data := self._process.stdout.read1(1 << 16):  # type: ignore[attr-defined]
            self.add(data)

    def __enter__(self) -> Self:
        """Start the command."""
        self._process = subprocess.Popen(
            self._argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the command."""
        self._process.terminate()
        self._process.wait()
        self._thread.join()
