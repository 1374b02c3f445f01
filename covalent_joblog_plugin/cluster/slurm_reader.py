# SPDX-License-Identifier: Apache-2.0
"""Output of a Slurm job straight from its folder on the cluster, which keeps every execution."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.capabilities import Answer, Capabilities, Capability
from covalent_joblog_plugin.model.errors import OutputGone, OutputNotFound, OutputNotYet, OutputUnsupported
from covalent_joblog_plugin.model.records import Delta, ReadRequest

from .job_script import ScriptSpec
from .slurm_job import Job, JobSpec
from .slurm_states import parse_record

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from covalent_joblog_plugin.model.records import Stream

    from .slurm import SlurmCluster

PIECE_BYTES = 4 << 20
LOOK_AT_ONCE = 16
"""Executions that one question asks for; a gap of so many is their end."""
WAIT = 5.0
"""Seconds one question may wait for news."""
CERTAIN = 2
"""Looks without news, after the end of an execution, that prove its file is read."""
_MARKERS = ("started", "exit", "ranks")


class SlurmReader:
    """Reads one job; see ``OutputReader``.

    Args:
        cluster: Its login node; closed with the reader.
        handle: What ``Job.handle`` gave.
    """

    def __init__(self, cluster: SlurmCluster, handle: dict[str, Any]) -> None:
        self._cluster = cluster
        spec = JobSpec("", "", (), {}, ScriptSpec())
        self.job = Job(spec, handle["name"], "", handle["dir"], handle["id"])

    async def executions(self) -> list[int]:
        """See ``OutputReader``."""
        found: list[int] = []
        first = 0
        while True:
            numbers = range(first, first + LOOK_AT_ONCE)
            paths = [f"{self.job.execution_folder(n)}/{marker}" for n in numbers for marker in _MARKERS]
            seen = {delta.path for delta in await self._look(paths) if self._saw(delta)}
            begun = [n for n in numbers if f"{self.job.execution_folder(n)}/started" in seen]
            if not begun:
                return found
            found += begun
            first += LOOK_AT_ONCE

    async def begun(self) -> list[int]:
        """The executions, of which there is at least one.

        Raises:
            OutputNotYet: The job waits.
            OutputGone: Nothing is left of it.
            TransportError: The cluster cannot be reached.
        """
        if self.job.job_id is None:
            raise OutputNotYet(
                f"Slurm has not taken job {self.job.name} yet; ask again with its newer handle"
            )
        found = await self.executions()
        if not found:
            await self._say_why_nothing()
        return found

    async def capabilities(self) -> Capabilities:
        """See ``OutputReader``."""
        (script,) = await self._look([f"{self.job.path}/job.sh"])
        if script.size is not None:
            return Capabilities()
        no = Capability(Answer.NO, script.problem or self._gone())
        return Capabilities(read=no, follow=no, retained=no)

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
                "split_streams: a Slurm job's streams are apart: ask for stdout or stderr"
            )
        path, execution = await self._file(execution, rank, stream)
        pos, empties = start, 0
        end = asyncio.ensure_future(self._end(execution)) if follow else None
        try:
            while empties < CERTAIN:
                ended = end is None or end.done()  # before the look: what came until then is in the answer
                (delta,) = await self._read(path, pos, None if ended else end)
                if delta.problem:
                    raise OutputNotFound(f"{path} cannot be read: {delta.problem}")
                if delta.data:
                    pos += len(delta.data)
                    yield delta.data
                empties = 0 if delta.data or not ended else empties + 1
        finally:
            if end is not None:
                end.cancel()
                await asyncio.wait([end])

    async def close(self) -> None:
        """See ``OutputReader``."""
        await self._cluster.close()

    async def _look(self, paths: list[str]) -> list[Delta]:
        requests = [ReadRequest(path, 0) for path in paths]
        return list(await self._cluster.read_deltas(requests, 0, PIECE_BYTES))

    def _saw(self, delta: Delta) -> bool:
        record = parse_record(delta.data)
        if record is not None:
            self.job.saw_marker(delta.path, record)
        return record is not None

    async def _read(self, path: str, pos: int, until: asyncio.Future[None] | None) -> list[Delta]:
        request = ReadRequest(path, pos)
        if until is None:
            return list(await self._cluster.read_deltas([request], 0, PIECE_BYTES))
        reading = asyncio.ensure_future(self._cluster.read_deltas([request], WAIT, PIECE_BYTES))
        try:
            waiting: list[asyncio.Future[Any]] = [reading, until]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            found = list(reading.result()) if reading.done() else []
            if until.done():
                until.result()
            return found or [Delta(path, pos, b"", 0.0)]
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def _end(self, execution: int) -> None:
        """Until that execution is over."""
        ending = asyncio.ensure_future(self._cluster.ended(self.job))
        try:
            while not ending.done() and self.job.execution == execution and execution not in self.job.exits:
                await asyncio.wait([ending], timeout=1)
        finally:
            ending.cancel()
            self._cluster.forget(self.job)

    async def _file(self, execution: int | None, rank: int, stream: Stream) -> tuple[str, int]:
        found = await self.begun()
        if execution is not None and execution not in found:
            there = ", ".join(map(str, found))
            raise OutputNotFound(f"job {self.job.job_id} has no execution {execution}: there is {there}")
        execution = found[-1] if execution is None else execution
        if rank:
            names = [file.path for file in self.job.output_files() if file.execution == execution]
            wanted = f"{self.job.execution_folder(execution)}/rank{rank}.{stream}"
            if wanted not in names:
                raise OutputNotFound(
                    f"job {self.job.job_id} has no rank {rank} in execution {execution}: its ranks are known "
                    "when its step has begun, and only use_srun=True gives it more than rank 0"
                )
            return wanted, execution
        return f"{self.job.execution_folder(execution)}/{stream}", execution

    async def _say_why_nothing(self) -> None:
        row = await self._cluster.row(self.job)
        what = f"Slurm job {self.job.job_id} ({self.job.name})"
        if row is not None:
            reason = f", reason {row.reason}" if row.reason else ""
            raise OutputNotYet(f"{what} is {row.state}{reason}: it has not begun; ask again later")
        raise OutputGone(f"{what} is not in the queue, and {self._gone()}")

    def _gone(self) -> str:
        return (
            f"its folder {self.job.path} holds nothing: it was removed, as after a success unless "
            "cleanup='never', or the job never began; read the node's stored output"
        )
