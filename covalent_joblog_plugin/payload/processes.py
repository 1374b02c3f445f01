# SPDX-License-Identifier: Apache-2.0
"""A session of processes on this machine: who is in it, and how it is ended (Linux, from ``/proc``)."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")
LOOK_EVERY, SELDOM = 0.05, 0.25
"""Seconds between two looks at who is left, first and later; nothing tells of the end of other people's
children, and many may be ended at once."""
KILL_PATIENCE = 5.0
"""Seconds a killed process may take to disappear (it may wait for a disk)."""


@dataclass(frozen=True, slots=True)
class _Process:
    state: str
    group: int
    started: int


@dataclass(frozen=True, slots=True)
class Session:
    """A process that leads its own session and process group, and all that descend from it and stayed.

    Attributes:
        pid: The leader, and the number of the session.
        started: When the leader started, in clock ticks since ``boot``: a number used again is not it.
        boot: Which boot of this machine that was.
    """

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Session:
        """The session of a leader that has not been reaped.

        Raises:
            ProcessLookupError: There is no such process.
        """
        process = _look(pid)
        if process is None:
            raise ProcessLookupError(f"process {pid} is not there")
        return cls(pid, process.started, _boot())

    @classmethod
    def from_handle(cls, handle: dict[str, Any]) -> Session:
        """Read back ``handle``."""
        return cls(int(handle["pid"]), int(handle["started"]), str(handle["boot"]))

    @property
    def handle(self) -> dict[str, Any]:
        """The same as plain JSON."""
        return {"pid": self.pid, "started": self.started, "boot": self.boot}

    def alive(self) -> bool:
        """Whether any process of it still runs; a leader that ended and was not reaped does not."""
        return bool(self._groups())

    def end(self, grace: float) -> bool:
        """SIGTERM to every process of it, after ``grace`` seconds SIGKILL; blocks until all are gone.

        Returns:
            Whether all are gone; a process may hang in the kernel.
        """
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a stopped process gets the first signal only then
        if self._gone_within(grace):
            return True
        self._signal(signal.SIGKILL)
        return self._gone_within(KILL_PATIENCE)

    def _gone_within(self, seconds: float) -> bool:
        deadline, pause = time.monotonic() + seconds, LOOK_EVERY
        while self.alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(1.2 * pause, SELDOM)
        return True

    def _signal(self, number: signal.Signals) -> None:
        for group in self._groups():
            # PermissionError: a program of another user, such as sudo; it counts as still there.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)

    def _groups(self) -> set[int]:
        """Process groups with a living member; more than one where a shell uses job control."""
        leader = _look(self.pid)
        # Without its leader (reaped, or of a server before this one) the number may be anybody's.
        if leader is None or leader.started != self.started or _boot() != self.boot:
            return set()
        pids = [int(name) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208 - see _is_in
        processes = [_look(pid) for pid in pids if _is_in(self.pid, pid)]
        return {process.group for process in processes if process and process.state not in "ZX"}


def _is_in(session: int, pid: int) -> bool:
    # Asked for every process of the machine at the end of every child: a system call, not a file.
    try:
        return os.getsid(pid) == session
    except ProcessLookupError:
        return False


def _look(pid: int) -> _Process | None:
    try:
        line = (PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in brackets and may hold brackets itself.
    values = line[line.rindex(b")") + 2 :].split()
    return _Process(values[0].decode("ascii"), int(values[2]), int(values[19]))


def _boot() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
