# SPDX-License-Identifier: Apache-2.0
"""Covalent's server as a process of this machine: what it can reach is what counts, not what a shell can."""

from __future__ import annotations

import os
import pwd
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server.

    Attributes:
        pid: Its process.
        python: The interpreter that runs it.
        environ: Its environment as it was started.
        addresses: Where it listens, without the port.
    """

    pid: int
    python: str
    environ: Mapping[str, str]
    addresses: tuple[str, ...]


def find(pid_file: Path, port: int) -> ServerProcess | str:
    """The server that ``covalent start`` started; where it cannot be seen, why.

    Args:
        pid_file: Where Covalent wrote the number of the shell above it.
        port: Where it listens.
    """
    try:
        shell = psutil.Process(int(pid_file.read_text()))
        family = [shell, *shell.children(recursive=True)]
    except (OSError, ValueError):
        return f"{pid_file} does not tell its process: it was started in another way, or elsewhere"
    except psutil.Error:
        return f"the process that {pid_file} names is gone"
    for process in family:
        try:
            listening = {
                c.laddr.ip
                for c in process.net_connections("tcp")
                if c.status == psutil.CONN_LISTEN and c.laddr.port == port
            }
            if listening:
                python = process.cmdline()[0]
                return ServerProcess(process.pid, python, process.environ(), tuple(sorted(listening)))
        except psutil.AccessDenied:
            return f"process {process.pid} is another user's"
        except (psutil.Error, IndexError):
            continue
    return f"no process below {shell.pid} listens on port {port}"


def agent_answers(path: str) -> bool:
    """Whether an ssh agent listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(2)
        try:
            client.connect(path)
        except (OSError, ValueError):
            return False
    return True


def other_logins() -> list[str]:
    """Names of other users who are logged in on this machine."""
    own = pwd.getpwuid(os.getuid()).pw_name
    return sorted({user.name for user in psutil.users()} - {own})


@contextmanager
def environment_of(process: ServerProcess | None) -> Iterator[None]:
    """While it lasts this process has the server's environment; its own where no server is to be seen."""
    if process is None:
        yield
        return
    own = dict(os.environ)
    os.environ.clear()
    os.environ.update(process.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(own)
