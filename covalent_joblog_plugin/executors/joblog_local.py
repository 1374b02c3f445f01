# SPDX-License-Identifier: Apache-2.0
"""``LocalJobLogExecutor``: the task as a child process of Covalent's server, its output live."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import JobFailed, OptionError
from covalent_joblog_plugin.web import hook

from . import options
from .base import JobLogExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from covalent_joblog_plugin.model.capabilities import Capabilities
    from covalent_joblog_plugin.model.reader import OutputReader
    from covalent_joblog_plugin.model.records import FileRef
    from covalent_joblog_plugin.model.source import DeltaSource
    from covalent_joblog_plugin.payload.bundle import Call
    from covalent_joblog_plugin.payload.child import Child

EXECUTOR_PLUGIN_NAME = "LocalJobLogExecutor"

TERM_GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""
CHILDREN_GRACE = 1.0
"""Seconds that processes the task left behind may still write before the node ends."""


class LocalJobLogExecutor(JobLogExecutor):
    """Runs the task as a child process group on the server's machine.

    Its file descriptors 1 and 2 are captured, so also what its own children, C extensions and
    ``subprocess`` write. Cancelling it ends the whole group.

    Args:
        workdir: Folder the function runs in; made if it is missing. Relative ``log_files`` are found here.
        python: The interpreter, as a path or as an argv list; None for the server's own.
        environment: Variables added to the server's environment.
        log_files: Files to show with the node beside stdout and stderr.
        time_limit: Seconds until the group is ended; -1 for no limit.
        **common: See ``JobLogExecutor``.
    """

    def __init__(
        self,
        workdir: str = "~/covalent/workdir",
        python: str | Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.workdir = workdir
        self.python = python if python is None or isinstance(python, str) else list(python)
        self.environment = dict(environment or {})

    def check_options(self) -> None:
        """See ``JobLogExecutor``."""
        super().check_options()
        name = type(self).__name__
        if not isinstance(self.workdir, str) or not self.workdir:
            raise OptionError(f"{name}: workdir={self.workdir!r} must be the path of a folder")
        if self.python is not None and not isinstance(self.python, str):
            options.check_strings(name, "python", self.python)
        options.check_environment(name, "environment", self.environment)

    def endpoint_key(self) -> str:
        """All local tasks are read by one loop."""
        return "this machine"

    def make_source(self) -> DeltaSource:
        """See ``JobLogExecutor``."""
        from covalent_joblog_plugin.cluster.local_files import LocalFiles

        return LocalFiles()

    def capabilities(self) -> Capabilities:
        """See ``JobLogExecutor``."""
        from covalent_joblog_plugin.model.capabilities import Capabilities

        return Capabilities()

    def get_files_to_monitor(self, dispatch_id: str, node_id: int) -> Iterable[FileRef | str]:  # noqa: ARG002
        """The two captured streams and ``log_files``, once the task has a folder."""
        from covalent_joblog_plugin.model.records import FileRef

        folder: Path | None = self.__dict__.get("_folder")
        if folder is None:
            return []
        workdir = self._workdir()
        return [
            FileRef(str(folder / "stdout"), stream="stdout"),
            FileRef(str(folder / "stderr"), stream="stderr"),
            *(FileRef(str(workdir / name), name=name) for name in self.log_files),
        ]

    async def run(
        self,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
        task_metadata: dict[str, Any],
    ) -> Any:
        """Run the function in a child process and return its result, not unpickled.

        Raises:
            JobFailed: The function raised, or its process ended without a result.
            TaskCancelledError: The task was cancelled.
        """
        from covalent._shared_files import TaskCancelledError

        from covalent_joblog_plugin.payload import child
        from covalent_joblog_plugin.payload.threads import in_thread

        call = self.take_apart(function, args, kwargs)
        folder = self.__dict__["_folder"] = Path(await in_thread(_scratch_folder))
        process = await self._start(call, folder, task_metadata)
        self.__dict__["_process"] = process
        self.session.files_changed()
        try:
            await self.announce_job({**process.handle, "folder": str(folder)})
            status = await self._ended(process)
        except Exception:
            # Cancelled while it started, too late, or a fault of ours: it must not run on without us.
            await process.terminate(TERM_GRACE)
            raise
        self.__dict__["_children_until"] = asyncio.get_running_loop().time() + CHILDREN_GRACE
        if self.cancel_requested:
            raise TaskCancelledError
        return await child.result(folder, status)

    def take_apart(self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Call:
        """What the child process is to call."""
        from covalent_joblog_plugin.payload import bundle

        return bundle.take_apart(function, args, kwargs)

    async def _start(self, call: Call, folder: Path, task_metadata: dict[str, Any]) -> Child:
        from covalent_joblog_plugin.payload import bundle, child
        from covalent_joblog_plugin.payload.threads import in_thread

        workdir = self._workdir()

        def prepare() -> bytes:
            workdir.mkdir(parents=True, exist_ok=True)
            return bundle.pack(
                call, dispatch_id=task_metadata["dispatch_id"], node_id=task_metadata["node_id"]
            )

        try:
            packed = await in_thread(prepare)
        except OSError as error:
            raise JobFailed(
                f"workdir {workdir} cannot be made: {error}; give the executor another workdir"
            ) from error
        return await child.start(
            packed,
            folder,
            stdout=folder / "stdout",
            stderr=folder / "stderr",
            python=[self.python] if isinstance(self.python, str) else self.python,
            cwd=workdir,
            environment=self.environment,
        )

    async def _ended(self, process: Child) -> int:
        limit = self.time_limit if self.time_limit > 0 else None
        try:
            return await asyncio.wait_for(process.wait(), limit)
        except asyncio.TimeoutError:
            raise JobFailed(
                f"time limit: the task was ended after time_limit={self.time_limit} s; its output up to then "
                "is kept. Give the executor a larger time_limit, or -1 for none"
            ) from None

    def open_output(self, handle: Any) -> OutputReader:
        """See ``JobLogExecutor``; the task's files are there until a server has stored what they hold."""
        from .local_direct import LocalJobReader

        return LocalJobReader(handle)

    async def cancel_job(self, handle: Any) -> None:
        """End the process group: SIGTERM, after three seconds SIGKILL."""
        from covalent_joblog_plugin.payload import child

        await child.terminate(handle, TERM_GRACE)

    async def writers_gone(self, dispatch_id: str, node_id: int) -> bool:  # noqa: ARG002
        """True when the task's whole session has ended, or had ``CHILDREN_GRACE`` seconds to."""
        process: Child | None = self.__dict__.get("_process")
        late = asyncio.get_running_loop().time() >= self.__dict__.get("_children_until", 0.0)
        return late or process is None or not await process.group_alive()

    async def after_final_read(self) -> None:
        """Remove the captured files, whose text is stored, and say who may still write to them."""
        from covalent_joblog_plugin.model.records import Seam, SeamKind
        from covalent_joblog_plugin.payload.threads import in_thread

        process: Child | None = self.__dict__.pop("_process", None)
        if process is not None and await process.group_alive():
            await self.session.seam(
                "stdout",
                Seam(
                    SeamKind.INCOMPLETE,
                    "processes that the task left behind still run; what they print from now on is not here",
                ),
            )
        folder = self.__dict__.pop("_folder", None)
        if folder is not None:
            await in_thread(partial(shutil.rmtree, folder, ignore_errors=True))

    def _workdir(self) -> Path:
        return Path(self.workdir).expanduser().absolute()


def _scratch_folder() -> str:
    """A folder (0700) below Covalent's cache: its disk is not that of the stored output."""
    from covalent._shared_files.config import get_config

    cache = Path(get_config("dispatcher.cache_dir"))
    cache.mkdir(parents=True, exist_ok=True)
    return tempfile.mkdtemp(prefix="joblog-", dir=cache)


_EXECUTOR_PLUGIN_DEFAULTS = options.plugin_defaults(LocalJobLogExecutor)

hook.install()
