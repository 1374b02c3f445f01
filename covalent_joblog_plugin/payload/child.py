# SPDX-License-Identifier: Apache-2.0
"""A packed call in a child process of this machine.

Each child has a thread that starts it, waits for it and reaps it: no signal handler, no child watcher and no
thread of the event loop's own pool is involved, so it works in every event loop and beside whatever else
starts processes there. An ended leader is not reaped while others of its session run: until then its number
cannot be given to another process, and a signal cannot meet a stranger.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import JobFailed

from . import bundle as bundles
from . import verdict as verdicts
from .processes import Session
from .threads import in_own_thread, in_thread, pool
from .wording import error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from covalent._workflow.transportable_object import TransportableObject

TAIL_BYTES = 16 * 1024
"""Bytes of stderr from which an error text takes its last lines."""
UNKNOWN_STATUS = 255
"""Where somebody else reaped the child."""


class Child:
    """A running call. Made by ``start``."""

    def __init__(self, spawn: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[Session] = self._loop.create_future()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        threading.Thread(target=self._live, args=(spawn,), name="joblog-child", daemon=True).start()

    @property
    def session(self) -> Session:
        """Its processes."""
        return self._started.result()

    @property
    def handle(self) -> dict[str, Any]:
        """What ``terminate`` needs, as plain JSON."""
        return self.session.handle

    async def wait(self) -> int:
        """Wait for the end of the call's own process; others of its session may run on.

        Returns:
            Its exit status; -n where signal n ended it; ``UNKNOWN_STATUS`` where somebody else reaped it.
        """
        return await asyncio.shield(self._ended)

    async def terminate(self, grace: float) -> bool:
        """SIGTERM to every process of the session, after ``grace`` seconds SIGKILL.

        Returns:
            Whether all are gone.
        """
        return await in_own_thread(self.session.end, grace)

    async def group_alive(self) -> bool:
        """Whether any process of the session still runs, the call's own or one it left behind."""
        return await in_thread(self.session.alive)

    def _live(self, spawn: Callable[[], subprocess.Popen[bytes]]) -> None:
        """The life of the child, in its thread."""
        try:
            process = spawn()
            session = Session.of(process.pid)
        except Exception as error:  # noqa: BLE001 - it belongs to the one who awaits the start
            self._tell(self._started, error=error)
            return
        self._tell(self._started, session)
        status = _wait_unreaped(process.pid)
        if session.alive():
            weakref.finalize(self, process.wait).atexit = False
        else:
            process.wait()
        self._tell(self._ended, status)

    def _tell(self, future: asyncio.Future[Any], value: Any = None, error: Exception | None = None) -> None:
        def tell() -> None:
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        with contextlib.suppress(RuntimeError):  # the loop is closed, nobody waits any more
            self._loop.call_soon_threadsafe(tell)


def _wait_unreaped(pid: int) -> int:
    """Block until the process ended, and leave it to be reaped."""
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return UNKNOWN_STATUS
    if ended is None:
        return UNKNOWN_STATUS
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


async def start(
    bundle: bytes,
    folder: Path,
    *,
    stdout: Path,
    stderr: Path,
    python: Sequence[str] | None = None,
    cwd: Path,
    environment: Mapping[str, str],
) -> Child:
    """Run a packed call in a session of its own.

    ``PYTHONUNBUFFERED=1`` is set unless this process or ``environment`` sets it. Covalent, should the
    function import it, finds a copy of this server's configuration: every import locks and rewrites the file
    it reads.

    Args:
        bundle: From ``bundle.pack``.
        folder: Gets the bundle, the runner, and in the end result and verdict; made with mode 0700.
        stdout: What the session writes to its file descriptor 1 is appended here; made with mode 0600.
        stderr: The same for 2.
        python: How to start Python, as argv; None for this interpreter.
        cwd: Where the function runs.
        environment: Variables added to those of this process.

    Raises:
        JobFailed: The process cannot be started, or its files cannot be written.
    """
    streams = (stdout, stderr)
    spawn = functools.partial(_spawn, bundle, folder, streams, python or [sys.executable], cwd, environment)
    child = Child(spawn)
    try:
        await asyncio.shield(child._started)  # noqa: SLF001 - the other half of Child
    except asyncio.CancelledError:
        child._started.add_done_callback(_end_unwanted)  # noqa: SLF001
        raise
    return child


def _spawn(
    bundle: bytes,
    folder: Path,
    streams: tuple[Path, Path],
    python: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    folder = folder.absolute()  # the process runs elsewhere
    argv = [*python, str(folder / "runner.py"), str(folder / "bundle"), str(folder)]
    try:
        _prepare(folder, bundle)
        variables = {"PYTHONUNBUFFERED": "1", **os.environ, **_config_copy(folder), **environment}
        with _appender(streams[0]) as out, _appender(streams[1]) as err:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env=variables,
                start_new_session=True,
            )
    except OSError as error:
        raise JobFailed(
            f"{argv[0]} cannot be started in {cwd}: {error}; check the executor's python and workdir, "
            f"and that {folder} can be written"
        ) from error


def _end_unwanted(started: asyncio.Future[Session]) -> None:
    """Nobody waits for this child any more."""
    if started.exception() is None:
        pool().submit(started.result().end, 0.0)


def _prepare(folder: Path, bundle: bytes) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("verdict", "result"):  # of an earlier run, should Python not even start
        (folder / name).unlink(missing_ok=True)
    _write(folder / "bundle", bundle)
    _write(folder / "runner.py", bundles.runner_source())


def _write(path: Path, data: bytes) -> None:
    with _opened(path, os.O_WRONLY | os.O_TRUNC) as file:
        file.write(data)


def _appender(path: Path) -> Any:
    return _opened(path, os.O_WRONLY | os.O_APPEND)


def _opened(path: Path, flags: int) -> Any:
    """The file, made if it is not there, with mode 0600 whatever the umask."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "wb")


def _config_copy(folder: Path) -> dict[str, str]:
    """A copy of this server's configuration of Covalent, and the variable that points to it."""
    from covalent._shared_files.config import get_config  # noqa: PLC0415 - reads the configuration

    config = Path(get_config("sdk.config_file"))
    if not config.exists():
        return {}
    copy = folder / "config"
    copy.mkdir(mode=0o700, exist_ok=True)
    _write(copy / config.name, config.read_bytes())
    return {"COVALENT_CONFIG_DIR": str(copy)}


async def terminate(handle: dict[str, Any], grace: float) -> bool:
    """End the session that ``handle`` names, as ``Child.terminate``; one that is gone is left alone.

    Returns:
        Whether all its processes are gone.
    """
    return await in_own_thread(Session.from_handle(handle).end, grace)


async def result(folder: Path, exit_status: int, stderr: Path | None = None) -> TransportableObject:
    """The result of an ended call, not unpickled.

    Args:
        folder: As given to ``start``.
        exit_status: From ``Child.wait``.
        stderr: As given to ``start``; None for ``folder/stderr``.

    Raises:
        CannotBegin: The function never began; another Python may be able to run the call.
        JobFailed: The call gave no result; the text says all that is known.
        PayloadError: Result or verdict are damaged.
    """
    return await in_thread(_result, folder, exit_status, stderr or folder / "stderr")


def _result(folder: Path, exit_status: int, stderr: Path) -> TransportableObject:
    try:
        verdict = verdicts.parse((folder / "verdict").read_bytes())
    except FileNotFoundError:
        verdict = None
    if verdict is not None and verdict.kind == "ok" and exit_status == 0:
        return bundles.load_result((folder / "result").read_bytes(), verdict)
    text = error_text(verdict, exit_status, _tail(stderr))
    raise verdicts.CannotBegin(text) if verdict and verdict.before_user_code else JobFailed(text)


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return file.read(TAIL_BYTES)
    except OSError:  # the error to tell is another one
        return b""
