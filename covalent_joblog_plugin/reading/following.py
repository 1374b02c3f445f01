# SPDX-License-Identifier: Apache-2.0
"""Outputs as they grow: of one node, or of all that are meant in a dispatch."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import OutputNotFound, TransportError
from covalent_joblog_plugin.model.records import Seam, SeamKind

from . import events
from .answers import ENDED, NodeInfo, Piece
from .assembling import Assembler, Break
from .rendering import Shown
from .snapshot import Extent, tail_start
from .sources import Found, Source, find_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .assembling import Item
    from .client import Server
    from .question import Question

_LOOK_EVERY = 1.0
"""Seconds between looks at which nodes of a dispatch have begun."""
_WAITING = 64
"""Batches of lines that wait for the reader before their sources do."""
_CUT_OFF = {"orphaned", "interrupted"}


class NodeFollower:
    """Follows the outputs of one node that are meant.

    Args:
        server: Whom to ask.
        found: The node.
        question: What is asked for.
        must: Whether it is an error that the node has no such output.
    """

    def __init__(self, server: Server, found: Found, question: Question, *, must: bool) -> None:
        self._server = server
        self._found = found
        self._question = question
        self._must = must
        self._sources: dict[str, Source] = {}
        self._assemblers: dict[str, Assembler] = {}
        self._cursors: dict[str, int] = {}
        self.info: NodeInfo | None = None

    async def follow(self) -> AsyncGenerator[list[Shown], None]:
        """Batches of lines and breaks until the output's end.

        Raises:
            OutputNotFound: The node has ended without such an output.
            OutputError: It cannot be read.
            TransportError: The server does not answer, or does not come back.
        """
        self.info = await self._server.node(*self._found.key)
        await self._begin(self.info)
        if not self._sources and not self._guess(self.info):
            return
        while True:
            stream = events.follow(self._server, *self._found.key, self._cursors)
            async with aclosing(stream):
                async for event in stream:
                    if isinstance(event, Piece):
                        if batch := self._shown(event.file, self._assemblers[event.file].feed(event)):
                            yield batch
                    elif isinstance(event, NodeInfo):
                        self.info = event
                        if self._is_news(event):
                            break
                    else:
                        self.info = event.node
                        yield self._end(event.node)
                        return
            await self._begin(self.info)

    def _is_news(self, info: NodeInfo) -> bool:
        """Whether there are outputs that are meant and not followed."""
        meant = {source.file for source in self._question.outputs.sources(info, self._found.label)}
        return bool(meant - self._sources.keys())

    async def _begin(self, info: NodeInfo) -> None:
        """Follow all that are meant; those that came later, from their start."""
        first = not self._cursors
        sizes = {file.name: file.size for file in info.files}
        sources = {s.file: s for s in self._question.outputs.sources(info, self._found.label)}
        cursors = {}
        for name, source in sources.items():
            cursor = self._cursors.get(name, 0)
            if first and self._question.tail is not None:
                cursor = await tail_start(self._server, Extent(source, 0, sizes[name]), self._question.tail)
            cursors[name] = cursor
            if name not in self._assemblers:
                self._assemblers[name] = Assembler(cursor, stream=source.stream, rank=source.rank)
        if sources:
            self._sources, self._cursors = sources, cursors

    def _guess(self, info: NodeInfo) -> bool:
        """Wait for an output that does not exist yet; whether there is any to wait for."""
        outputs = self._question.outputs
        if not info.growing:
            if self._must:
                raise outputs.missing(info)
            return False
        stream, rank = (None, None) if outputs.file else (outputs.stream, outputs.rank)
        name = outputs.file or f"rank{rank}.{stream}"
        if stream == "all" or rank == "all":
            return False
        self._sources = {name: Source(*self._found.key, name, stream, rank, self._found.label)}
        self._assemblers[name] = Assembler(stream=stream, rank=rank)
        self._cursors = {name: 0}
        return True

    def _shown(self, file: str, items: list[Item]) -> list[Shown]:
        source = self._sources[file]
        return [Shown(source, item) for item in items]

    def _end(self, info: NodeInfo) -> list[Shown]:
        batch = []
        for name in self._sources:
            batch += self._shown(name, self._assemblers[name].end())
        if info.state == "orphaned":
            message = (
                f"the server that ran node {info.node_id} ({info.name}) of {info.dispatch_id} was stopped; "
                "nothing more comes here, and what the job wrote later is on its cluster"
            )
            source = next(iter(self._sources.values()))
            seam = Seam(SeamKind.INTERRUPTED, message)
            batch.append(Shown(source, Break(self._assemblers[source.file].cursor, seam)))
        return batch


class DispatchFollower:
    """Follows all nodes that are meant, each from when it begins; children of sublattices too.

    Args:
        server: Whom to ask.
        dispatch_id: The dispatch.
        question: What is asked for.
    """

    def __init__(self, server: Server, dispatch_id: str, question: Question) -> None:
        self._server = server
        self._dispatch_id = dispatch_id
        self._question = question
        self._tasks: dict[tuple[str, int], asyncio.Task[NodeInfo | None]] = {}
        self._queue: asyncio.Queue[list[Shown] | BaseException | None] = asyncio.Queue(_WAITING)
        self._answered = time.monotonic()

    async def follow(self) -> AsyncGenerator[list[Shown], None]:
        """Batches as ``NodeFollower`` gives them, until nothing more comes from any; raises as it does."""
        watcher = asyncio.create_task(self._watch())
        try:
            while (batch := await self._queue.get()) is not None:
                if isinstance(batch, BaseException):
                    raise batch
                yield batch
        finally:
            tasks = [watcher, *self._tasks.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> None:
        try:
            over = await self._look()
            while not over:
                await asyncio.sleep(_LOOK_EVERY)
                over = await self._look()
            await self._queue.put(None)
        except Exception as error:  # noqa: BLE001 - raised where the batches are taken
            await self._queue.put(error)

    async def _look(self) -> bool:
        """Follow what has begun; whether all is over and was given."""
        try:
            over = await self._begin()
            self._answered = time.monotonic()
        except TransportError:
            # It may be starting again.
            if time.monotonic() - self._answered > events.PATIENCE:
                raise
            over = False
        running = [task for task in self._tasks.values() if not task.done()]
        if over:
            await asyncio.gather(*running)
            return True
        ended = [task.result() for task in self._tasks.values() if task.done()]
        # Nobody goes on with a dispatch whose server was stopped.
        return not running and any(info is not None and info.state in _CUT_OFF for info in ended)

    async def _begin(self) -> bool:
        """Follow the nodes that have begun; whether no other one will."""
        dispatch = await self._server.dispatch(self._dispatch_id)
        nodes = await find_nodes(self._server, self._dispatch_id, self._question.node)
        for found in nodes:
            if not found.pending and found.key not in self._tasks:
                self._tasks[found.key] = asyncio.create_task(self._pump(found))
        return dispatch.status in ENDED or all(found.node.status in ENDED for found in nodes)

    async def _pump(self, found: Found) -> NodeInfo | None:
        follower = NodeFollower(self._server, found, self._question, must=False)
        # A file that this node never had is not missed: others may have it.
        with suppress(OutputNotFound):
            async with aclosing(follower.follow()) as batches:
                async for batch in batches:
                    await self._queue.put(batch)
        return follower.info
