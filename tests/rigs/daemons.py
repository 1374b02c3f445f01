# SPDX-License-Identifier: Apache-2.0
"""Processes a rig starts, found again by their recorded ids, also from another process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def until(true: Callable[[], bool], what: str, timeout: float = 20) -> None:
    """Wait until ``true()``; it may raise meanwhile, which counts as not yet."""
    deadline = time.monotonic() + timeout
    last: Exception | None = None
    while time.monotonic() < deadline:
        try:
            if true():
                return
        except (OSError, RuntimeError, LookupError) as error:
            last = error
        time.sleep(0.05)
    raise TimeoutError(f"waited {timeout:.0f} s and still not so: {what}") from last


def _stat(pid: int) -> tuple[str, int, str] | None:
    """State, parent and start time of a process, or None."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1]), fields[19]


def alive(pid: int) -> bool:
    """Whether the process runs; in a container a dead one may stay a zombie for long."""
    stat = _stat(pid)
    return stat is not None and stat[0] not in "ZX"


def descendants(pid: int) -> list[int]:
    """The process and all below it, from the top."""
    parents = {int(p.name): _stat(int(p.name)) for p in Path("/proc").iterdir() if p.name.isdigit()}

    def below(one: int) -> list[int]:
        children = [child for child, stat in parents.items() if stat and stat[1] == one]
        return [one] + [found for child in children for found in below(child)]

    return below(pid)


class Daemons:
    """Named processes with their ids recorded below ``folder``.

    A record holds the start time too: an id may later belong to somebody else.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "pid"
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *argv: str) -> None:
        """Start a process in a session of its own; its output goes to ``log/<name>.out``."""
        self._folder.mkdir(exist_ok=True)
        with (self._folder.parent / "log" / f"{name}.out").open("ab") as out:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        stat = _stat(process.pid)
        (self._folder / name).write_text(f"{process.pid} {stat[2] if stat else 0}\n")
        self._started[name] = process

    def pid(self, name: str) -> int | None:
        """Id of the running process of that name."""
        try:
            pid, began = (self._folder / name).read_text().split()
        except (OSError, ValueError):
            return None
        stat = _stat(int(pid))
        return int(pid) if stat and stat[0] not in "ZX" and stat[2] == began else None

    def stop(self, name: str) -> None:
        """End it, by force after 5 s."""
        if pid := self.pid(name):
            os.kill(pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                until(lambda: not alive(pid), f"{name} ended", timeout=5)
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
                until(lambda: not alive(pid), f"{name} is gone")
        if process := self._started.pop(name, None):
            process.wait()

    def children(self, name: str) -> list[int]:
        """Ids of the direct children of a daemon."""
        pid = self.pid(name)
        return [
            p for p in self._all() if pid and (stat := _stat(p)) and stat[0] not in "ZX" and stat[1] == pid
        ]

    def kill(self, pids: Iterable[int]) -> None:
        """Kill processes with all below them, from the top: none can tell of another's end."""
        doomed = [found for pid in pids for found in descendants(pid)]
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(alive(pid) for pid in doomed), f"{doomed} are gone")

    def running(self, command: str) -> list[int]:
        """Ids of all running processes of that command name, ours or not."""
        return [p for p in self._all() if alive(p) and self._read(p, "comm").strip() == command.encode()]

    def environ_of(self, pid: int) -> list[bytes]:
        """Environment of a process; empty when it is gone."""
        return self._read(pid, "environ").split(b"\0")

    def cmdline_of(self, pid: int) -> bytes:
        """Command line of a process; empty when it is gone."""
        return self._read(pid, "cmdline")

    def _all(self) -> list[int]:
        return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]

    def _read(self, pid: int, name: str) -> bytes:
        try:
            return Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            return b""
