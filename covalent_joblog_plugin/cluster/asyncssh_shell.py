# SPDX-License-Identifier: Apache-2.0
"""The Shell over one shared asyncssh connection.

One connection for everything, made again when it was lost. An sshd allows 10 sessions on a connection, and
frees one only after the client has seen it end, so that 7 at a time are already refused now and then: at
most ``max_sessions`` are open, and a refused one is tried again.
"""

from __future__ import annotations

import asyncio
import math
import random
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asyncssh
import tenacity

from covalent_joblog_plugin.model.errors import AuthenticationError, JobLogError, TransportError

from .shell import Completed
from .ssh_trust import HostKeys, explain, known_host_files

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from .ssh_endpoint import SshEndpoint

FIRST_BACKOFF, LAST_BACKOFF = 1.0, 60.0
"""Seconds between two attempts to connect."""
LOGIN_ATTEMPTS = 2
QUIET = 30 * 60.0
"""Seconds without any attempt after so many refused ones: sites ban repeated failures."""
OPEN_ATTEMPTS = 8
STDERR_KEPT = 4096
WRITE_BYTES = 256 * 1024
PACKET_BYTES = 256 * 1024
"""Larger than usual: what a packet costs here is mostly the same for any size."""
GRACE = 15.0
"""Seconds beyond a command's own time limit before it is given up from here."""

# Reading configuration and key files must not wait for a pool that other executors' tasks may hold.
_FILES = ThreadPoolExecutor(1, "joblog-ssh-files")


@dataclass(slots=True)
class _Attempts:
    """When to connect again after failures."""

    failures: int = 0
    refused: int = 0
    not_before: float = 0.0
    last: JobLogError | None = None

    def check(self, now: float) -> None:
        """Raise the last failure again while its time has not passed."""
        if self.last is not None and now < self.not_before:
            wait = self.not_before - now
            when = f"{wait / 60:.0f} minutes" if wait > 90 else f"{wait:.0f} s"
            raise type(self.last)(f"{self.last} (next attempt in {when})")

    def failed(self, error: JobLogError, now: float) -> None:
        """Record a failure."""
        self.last = error
        self.failures += 1
        delay = min(LAST_BACKOFF, FIRST_BACKOFF * 2 ** min(self.failures - 1, 10))
        if isinstance(error, AuthenticationError):
            self.refused += 1
            if self.refused >= LOGIN_ATTEMPTS:
                self.not_before = now + QUIET
                return
        self.not_before = now + delay * random.uniform(0.5, 1.0)  # noqa: S311 - jitter


@dataclass(slots=True, eq=False)
class AsyncsshShell:
    """Commands on a login node over one connection; see ``Shell``.

    Attributes:
        endpoint: Where to.
        max_sessions: How many commands and channels may be open at a time.
    """

    endpoint: SshEndpoint
    max_sessions: int = 4
    _connection: asyncssh.SSHClientConnection | None = None
    _keys: HostKeys | None = None
    _attempts: _Attempts = field(default_factory=_Attempts)
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        """Make the limit of open sessions."""
        self._slots = asyncio.Semaphore(self.max_sessions)

    async def run(self, command: str, stdin: bytes = b"", timeout: float = 60) -> Completed:
        """See ``Shell.run``; the time limit holds on the far side too."""
        async with self._slots:
            process = await self._open(_limited(command, timeout))
            try:
                stdout, stderr = await asyncio.wait_for(_communicate(process, stdin), timeout + GRACE)
            except asyncio.TimeoutError as error:
                raise TransportError(
                    f"{self.endpoint}: a command did not end within {timeout:g} s; it will be tried again"
                ) from error
            except (OSError, asyncssh.Error) as error:
                raise self._lost(error) from error
            finally:
                process.close()
        return Completed(self._exit_status(process, timeout), stdout, stderr)

    async def channel(self, command: str) -> SshChannel:
        """See ``Shell.channel``."""
        await self._slots.acquire()
        try:
            process = await self._open(_in_sh(command))
        except BaseException:
            self._slots.release()
            raise
        return SshChannel(self, process)

    async def close(self) -> None:
        """See ``Shell.close``."""
        if self._connection is not None:
            self._connection.close()
            await asyncio.wait([asyncio.ensure_future(self._connection.wait_closed())], timeout=2)
            self._connection = None

    @property
    def connected(self) -> bool:
        """Whether the connection stands, as far as is known here."""
        return self._keys is not None and not self._keys.lost

    def released(self) -> None:
        """Give a channel's place to the next; called by the channel."""
        self._slots.release()

    async def _open(self, command: str) -> asyncssh.SSHClientProcess[bytes]:
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(asyncssh.ChannelOpenError),
            stop=tenacity.stop_after_attempt(OPEN_ATTEMPTS),
            wait=tenacity.wait_random_exponential(multiplier=0.05, max=2),
            reraise=True,
        )
        try:
            async for attempt in retrying:
                with attempt:
                    connection = await self._connected()
                    # Text mode would end the whole connection at the first byte that is not UTF-8.
                    return await connection.create_process(command, encoding=None, max_pktsize=PACKET_BYTES)
        except asyncssh.ChannelOpenError as error:
            if not self.connected:
                raise self._lost(error) from error
            raise TransportError(
                f"{self.endpoint} refuses another session ({error.reason}); set max_sessions below its "
                f"sshd's MaxSessions, now {self.max_sessions}"
            ) from error
        except (OSError, asyncssh.Error) as error:
            raise self._lost(error) from error
        raise AssertionError("unreachable: tenacity raises the last error")

    async def _connected(self) -> asyncssh.SSHClientConnection:
        async with self._connecting:
            if self._connection is not None and self.connected:
                return self._connection
            self._attempts.check(time.monotonic())
            keys: list[HostKeys] = []
            try:
                self._connection = await self._connect(keys)
            except (OSError, ValueError, asyncssh.Error) as error:
                explained = explain(error, self.endpoint, keys[0] if keys else None)
                if self._connection is not None and not isinstance(explained, TransportError):
                    # The options were right before: a name server or a key file is away for a while.
                    explained = TransportError(f"{explained} (it worked before, and will be tried again)")
                self._attempts.failed(explained, time.monotonic())
                raise explained from error
            self._attempts = _Attempts()
            return self._connection

    async def _connect(self, keys: list[HostKeys]) -> asyncssh.SSHClientConnection:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = await loop.run_in_executor(_FILES, self.endpoint.connect_options)
        if self.endpoint.check_host_key:
            files = await loop.run_in_executor(_FILES, known_host_files, self.endpoint, options)
            keys.append(HostKeys(files))
            options["known_hosts"] = keys[0].lookup
        else:
            keys.append(HostKeys([]))
            options["known_hosts"] = None
        connection = await asyncssh.connect(self.endpoint.host, client_factory=lambda: keys[0], **options)
        self._keys = keys[0]
        return connection

    def _lost(self, error: Exception) -> TransportError:
        if isinstance(error, TransportError):
            return error
        reason = str(error) or type(error).__name__
        return TransportError(f"the connection to {self.endpoint} was lost ({reason}); it will be made again")

    def _exit_status(self, process: asyncssh.SSHClientProcess[bytes], timeout: float) -> int:
        status = process.exit_status
        if status is None or status < 0:
            raise self._lost(ConnectionError("a command ended without an exit status"))
        if status == 124:
            raise TransportError(
                f"{self.endpoint}: a command was ended after {timeout:g} s; it will be tried again"
            )
        return status


class SshChannel:
    """A command that stays open; see ``Channel``."""

    def __init__(self, shell: AsyncsshShell, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self._shell = shell
        self._process = process
        self._closed = False
        self._stderr = b""
        self._drain = asyncio.create_task(self._keep_stderr(), name="joblog stderr of a channel")

    async def write(self, data: bytes) -> None:
        """See ``Channel.write``."""
        await self._guarded(_write(self._process, data))

    async def read(self, size: int) -> bytes:
        """See ``Channel.read``."""
        data = await self._guarded(self._process.stdout.read(size))
        if not data and not self._shell.connected:
            raise TransportError(f"the connection to {self._shell.endpoint} was lost; it will be made again")
        return bytes(data)

    async def close(self) -> bytes:
        """See ``Channel.close``."""
        if not self._closed:
            self._closed = True
            self._process.close()
            self._shell.released()
            await asyncio.wait([self._drain], timeout=1)
            self._drain.cancel()
        return self._stderr

    async def _guarded(self, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except (OSError, asyncssh.Error) as error:
            reason = str(error) or type(error).__name__
            raise TransportError(f"a channel to {self._shell.endpoint} was lost ({reason})") from error

    async def _keep_stderr(self) -> None:
        # Unread stderr would hold up stdout: they share the channel's window.
        try:
            while data := await self._process.stderr.read(STDERR_KEPT):
                self._stderr = (self._stderr + data)[-STDERR_KEPT:]
        except (OSError, asyncssh.Error):
            return


def _in_sh(command: str) -> str:
    # The login shell, whichever it is, sees one simple command.
    return f"exec sh -c {shlex.quote(command)}"


def _limited(command: str, timeout: float) -> str:
    return f"exec timeout -k 5 {math.ceil(timeout)} sh -c {shlex.quote(command)}"


async def _communicate(process: asyncssh.SSHClientProcess[bytes], stdin: bytes) -> tuple[bytes, bytes]:
    async def feed() -> None:
        try:
            await _write(process, stdin)
            process.stdin.write_eof()
        except (BrokenPipeError, ConnectionResetError):
            return  # it ended without reading everything: its exit status says why

    stdout, stderr, _ = await asyncio.gather(process.stdout.read(), process.stderr.read(), feed())
    await process.wait_closed()
    return stdout, stderr


async def _write(process: asyncssh.SSHClientProcess[bytes], data: bytes) -> None:
    for start in range(0, len(data), WRITE_BYTES):
        process.stdin.write(data[start : start + WRITE_BYTES])
        await process.stdin.drain()
