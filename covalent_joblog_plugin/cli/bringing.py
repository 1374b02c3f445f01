# SPDX-License-Identifier: Apache-2.0
"""Text of a job whose server has ended: from its cluster into the node's stored output, to its end."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import OutputNotFound, OutputNotYet, OutputUnsupported, StoreError
from covalent_joblog_plugin.model.records import Seam, SeamKind
from covalent_joblog_plugin.store.items import Append, SeamAt
from covalent_joblog_plugin.store.layout import OUR_FOLDER
from covalent_joblog_plugin.store.node_output import NodeOutput, write
from covalent_joblog_plugin.store.place import Place, end_of
from covalent_joblog_plugin.store.reading import OutputName
from covalent_joblog_plugin.store.state import NodeState, writer_lives
from covalent_joblog_plugin.store.threads import in_reader

from . import direct

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from covalent_joblog_plugin.model.reader import OutputReader
    from covalent_joblog_plugin.model.records import Stream
    from covalent_joblog_plugin.store.folders import StoredJob

LOCK = "reconnect.lock"
STREAMS: tuple[Stream, ...] = ("stdout", "stderr")


@dataclass(slots=True)
class _Output:
    """One output that grows.

    Attributes:
        name: What it is stored as.
        stream: What it is on the cluster.
        rank: Whose.
        place: How far it is stored.
        room: Bytes that may still be kept of it.
        brought: Bytes that were brought.
    """

    name: str
    stream: Stream
    rank: int
    place: Place
    room: int
    brought: int = 0


async def bring(job: StoredJob, say: Callable[[str], None]) -> None:
    """Store what the job has written since its server ended, and goes on to write; then close the output.

    Extra files are not brought.

    Args:
        job: Its writer has said that it ended, or is dead.
        say: Is told what happens.

    Raises:
        OutputUnsupported: It cannot be done exactly, and nothing was stored.
        OutputError: The cluster has not got it.
        StoreError: It cannot be stored.
        TransportError: The cluster refuses us.
    """
    lives = writer_lives(job.writer)
    if lives is not False and job.state == NodeState.LIVE:
        why = (
            "a server writes it" if lives else "whether its server still runs cannot be known on this machine"
        )
        raise OutputUnsupported(f"{why}; run this where that server ran")
    with _alone(job):
        async with direct.opened(job) as reader:
            await reader.executions()  # before anything is opened: not all clusters number them
            bounds = job.executor["options"] if job.executor else {}
            stored = await NodeOutput.open(job.dispatch_id, job.node_id, **_only("max_node_bytes", bounds))
            cap = int(bounds.get("max_log_bytes", 1 << 30))
            resumes = job.state == NodeState.INTERRUPTED
            await _Bringing(stored, reader, cap, resumes=resumes, say=say).run()
            await stored.close()


def _only(name: str, bounds: dict[str, int]) -> dict[str, int]:
    return {name: int(bounds[name])} if name in bounds else {}


@contextmanager
def _alone(job: StoredJob) -> Iterator[None]:
    """While it lasts nobody else brings text of this node: it would be stored twice."""
    path = job.folder / OUR_FOLDER / LOCK
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise StoreError(f"another joblog reconnect is at work on {job}; wait for it") from error
    finally:
        os.close(descriptor)


class _Bringing:
    """One node's text on its way.

    Args:
        stored: Where it goes.
        reader: Where it comes from.
        cap: Bytes kept of each output.
        resumes: Whether the stored text says that it was interrupted.
        say: Is told what happens.
    """

    def __init__(
        self,
        stored: NodeOutput,
        reader: OutputReader,
        cap: int,
        *,
        resumes: bool,
        say: Callable[[str], None],
    ) -> None:
        self._stored = stored
        self._reader = reader
        self._cap = cap
        self._resumes = resumes
        self._say = say

    async def run(self) -> None:
        """Until the job's end; rank 0's stdout is followed, the others are read before and afterwards."""
        found = [await self._output(name) for name in await in_reader(self._stored.sizes)]
        outputs = [output for output in found if output is not None]
        for output in outputs:
            await self._bring(output)
        self._say(f"{sum(o.brought for o in outputs)} bytes were missing; reading on until the job's end")
        await self._bring(next(o for o in outputs if o.name == "stdout"), follow=True)
        outputs += await self._unstored({output.rank for output in outputs})
        for output in outputs:
            await self._bring(output)
        brought = ", ".join(f"{o.brought} bytes of {o.name}" for o in outputs if o.brought)
        self._say(f"stored: {brought or 'nothing, all was there'}")

    async def _unstored(self, known: set[int]) -> list[_Output]:
        """The outputs of ranks of which nothing was stored."""
        executions = await self._reader.executions()
        found, rank = list[_Output](), 0
        while True:
            rank += 1
            if rank in known:
                continue
            if not any([await self._has(rank, execution) for execution in executions]):
                return found
            found += [_Output(f"rank{rank}.{s}", s, rank, Place(), self._cap) for s in STREAMS]

    async def _has(self, rank: int, execution: int) -> bool:
        try:
            async with aclosing(self._reader.output(rank=rank, execution=execution)) as output:
                await anext(output, b"")
        except OutputNotFound:
            return False
        return True

    async def _output(self, name: str) -> _Output | None:
        """An output of the job by its stored name; None for an extra file."""
        said = OutputName.of(name)
        snapshot = await in_reader(self._stored.snapshot, name)
        if said.stream is None or said.rank is None or snapshot is None:
            return None
        place = await in_reader(end_of, snapshot, name)
        if place.unclear and not place.full:
            raise OutputUnsupported(f"where {name} goes on is not certain: {place.unclear}")
        output = _Output(name, said.stream, said.rank, place, self._cap - snapshot.view.total)
        await self._check(output)
        return output

    async def _check(self, output: _Output) -> None:
        """Refuse where the cluster's file is not the one that was stored."""
        place, found = output.place, b""
        if place.full or not place.before:
            return
        start = place.pos - len(place.before)
        async with aclosing(self._pieces(output, start, execution=place.execution)) as pieces:
            async for piece in pieces:
                found += piece.data
                if len(found) >= len(place.before):
                    break
        if not found.startswith(place.before):
            raise OutputUnsupported(
                f"what the cluster has of {output.name}, execution {place.execution}, is not what was stored "
                f"before byte {place.pos}"
            )

    async def _bring(self, output: _Output, *, follow: bool = False) -> None:
        place = output.place
        source = self._pieces(output, place.pos, since=place.execution, follow=follow)
        try:
            async with aclosing(source) as pieces:
                async for piece in pieces:
                    # Who follows waits for the job's end, whatever is kept of it.
                    if not await self._store(output, piece) and not follow:
                        return
        except OutputNotYet:
            return  # it waits in the queue; following waits for it

    def _pieces(self, output: _Output, start: int, **wanted: Any) -> AsyncGenerator[direct.Piece, None]:
        # Each execution may have another number of ranks.
        gaps = output.rank > 0
        return direct.pieces(
            self._reader, stream=output.stream, rank=output.rank, start=start, gaps=gaps, **wanted
        )

    async def _store(self, output: _Output, piece: direct.Piece) -> bool:
        """Store a piece; False when no more of this output is kept."""
        place, number = output.place, piece.execution or 0
        if place.full:
            return False
        items: list[Append | SeamAt] = []
        if self._resumes and piece.data and not output.brought:
            said = "joblog reconnect brought what follows"
            items.append(SeamAt(output.name, Seam(SeamKind.RESUMED, said, place.execution)))
        if number > place.execution:
            seam = Seam(SeamKind.RESTART, f"execution {number} of the job", number)
            items.append(SeamAt(output.name, seam))
            place = Place(number)
        data = piece.data[: max(0, output.room)]
        items.append(Append(output.name, data, number, time.time()))
        if len(data) < len(piece.data):
            said = f"max_log_bytes={self._cap} reached; later bytes are not kept"
            items.append(SeamAt(output.name, Seam(SeamKind.CAPPED, said, number)))
        taken = sum(await write([(self._stored, item) for item in items]))
        if taken < len(data):
            raise StoreError(
                f"{output.name}: {self._stored.trouble or 'the store refuses it'}; call it again"
            )
        output.place = replace(place, pos=place.pos + taken, full=len(data) < len(piece.data))
        output.brought += taken
        output.room -= taken
        return not output.place.full
