# SPDX-License-Identifier: Apache-2.0
"""A local task's output and result from the files it writes, for when its server was killed.

They are there until a server has taken them: then the node's stored output has all of it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.cluster.local_files import LocalFiles
from covalent_joblog_plugin.model.capabilities import Answer, Capabilities, Capability
from covalent_joblog_plugin.model.errors import JobFailed, OutputGone, OutputNotFound, OutputUnsupported
from covalent_joblog_plugin.model.records import ReadRequest
from covalent_joblog_plugin.payload import child
from covalent_joblog_plugin.payload.processes import Session
from covalent_joblog_plugin.payload.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from covalent_joblog_plugin.model.records import Stream

PIECE_BYTES = 1 << 20
WAIT = 0.25
"""Seconds between two looks whether the processes of another parent have ended: nothing tells."""


class LocalJobReader:
    """See ``OutputReader``.

    Args:
        handle: As given to ``announce_job``.
    """

    def __init__(self, handle: dict[str, Any]) -> None:
        self._session = Session.from_handle(handle)
        self._folder = Path(handle["folder"])
        self._files = LocalFiles()

    async def capabilities(self) -> Capabilities:
        """See ``OutputReader``."""
        retained = Capability(Answer.NO, "the task's files are removed when a server has stored its output")
        if await in_thread(self._folder.is_dir):
            return Capabilities(retained=retained)
        gone = Capability(Answer.NO, self._gone())
        return Capabilities(read=gone, follow=gone, retained=retained)

    async def executions(self) -> list[int]:
        """See ``OutputReader``; a local task is started once."""
        return [0] if await in_thread(self._folder.is_dir) else []

    async def output(
        self,
        *,
        execution: int | None = None,
        rank: int = 0,
        stream: Stream = "stdout",
        follow: bool = False,
        start: int = 0,
    ) -> AsyncGenerator[bytes, None]:
        """See ``OutputReader``."""
        if stream == "log":
            raise OutputUnsupported(
                "split_streams: a local task's streams are apart: ask for stdout or stderr"
            )
        if rank or execution:
            raise OutputNotFound("a local task has one execution, 0, and one rank, 0")
        if not await in_thread(self._folder.is_dir):
            raise OutputGone(self._gone())
        pos, path = start, str(self._folder / stream)
        while True:
            ended = not follow or not await in_thread(self._session.alive)
            request = ReadRequest(path, pos)
            deltas = await self._files.read_deltas([request], 0 if ended else WAIT, PIECE_BYTES)
            data = b"".join(delta.data for delta in deltas)
            if data:
                pos += len(data)
                yield data
            elif ended:
                return

    async def result(self) -> Any:
        """See ``OutputReader``."""
        while not await in_thread((self._folder / "verdict").exists):
            if not await in_thread(self._folder.is_dir):
                raise OutputGone(self._gone())
            if not await in_thread(self._session.alive):
                break
            await asyncio.sleep(WAIT)
        if not await in_thread((self._folder / "verdict").exists):
            raise JobFailed(
                f"the task's process {self._session.pid} is gone and left no result: it was killed, or this "
                f"machine was started again; its last words are in {self._folder}"
            )
        return await child.result(self._folder, 0)

    async def close(self) -> None:
        """See ``OutputReader``."""
        await self._files.close()

    def _gone(self) -> str:
        return f"the task's folder {self._folder} is gone, its output stored; read the node's stored output"
