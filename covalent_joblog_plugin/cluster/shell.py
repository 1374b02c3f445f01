# SPDX-License-Identifier: Apache-2.0
"""The two things every transport can do: run a command to its end, and keep one open.

Everything travels by stdin and stdout, as bytes. No SFTP and no scp: sites switch them off. The command is
always a constant of ours or argv quoted with ``shlex.join``; data never reaches a shell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended.

    Attributes:
        exit_status: Its exit status; 128 + n where signal n ended it.
        stdout: All it wrote to stdout.
        stderr: All it wrote to stderr.
    """

    exit_status: int
    stdout: bytes
    stderr: bytes


class Channel(Protocol):
    """A command that stays open."""

    async def write(self, data: bytes) -> None:
        """Send ``data`` to its stdin.

        Raises:
            TransportError: The channel is closed.
        """

    async def read(self, size: int) -> bytes:
        """Return 1 to ``size`` bytes of its stdout; ``b""`` at the end.

        Raises:
            TransportError: The connection was lost.
        """

    async def close(self) -> bytes:
        """End the command and return the last of what it wrote to stderr (at most 4 KiB)."""


class Shell(Protocol):
    """A way to run commands where Slurm's are to be found."""

    async def run(self, command: str, stdin: bytes = b"", timeout: float = 60) -> Completed:
        """Run ``command`` to its end, at most ``timeout`` seconds.

        Raises:
            TransportError: The connection failed, or the time was over.
            AuthenticationError: A key was refused.
        """

    async def channel(self, command: str) -> Channel:
        """Start ``command`` and leave it open.

        Raises:
            TransportError: The connection failed or refused another channel.
            AuthenticationError: A key was refused.
        """

    async def close(self) -> None:
        """Close the connection; never raises."""
