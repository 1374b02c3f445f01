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
from .pausing import with_pauses
from .picking import Picker, begin
from .rendering import Shown
from .snapshot import Extent
from .sources import Found, Source, find_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from .assembling import Item
    from .client import Server
    from .question import Question

    Told = Callable[[NodeInfo], None]

_LOOK_EVERY = 1.0
"""Seconds between looks at which nodes of a dispatch have begun."""
_WAITING = 64
"""Batches of lines that wait for the reader before their sources do."""
_IDLE = 0.5
"""Seconds after which a line is judged without the rest of its record: nothing more of it came."""
_CUT_OFF = {"orphaned", "interrupted"}


class NodeFollower:
    """Follows the outputs of one node that are meant.

    Args:
        server: Whom to ask.
        found: The node.
        question: What is asked for.
        must: Whether it is an error that the node has no such output.
        told: Called with what is known of the node, at first and whenever that changes.
    """

    def __init__(self, server: Server, found: Found, question: Question, *, must: bool, told: Told) -> None:
        self._server = server
        self._found = found
        self._question = question
        self._must = must
        self._told = told
        self._now = time.time()
        self._outputs: dict[str, _Output] = {}
        self._cursors: dict[str, int] = {}
        self.info: NodeInfo | None = None

    async def follow(self) -> AsyncGenerator[list[Shown], None]:
        """Batches of lines and breaks until the output's end.

        Raises:
            BadSelection: What is asked for cannot be found out here.
            OutputNotFound: The node has ended without such an output.
            OutputError: It cannot be read.
            TransportError: The server does not answer, or does not come back.
        """
        self.info = await self._server.node(*self._found.key)
        self._told(self.info)
        await self._begin(self.info)
        if not self._outputs and not self._guess(self.info):
            return
        while True:
            stream = events.follow(self._server, *self._found.key, self._cursors)
            async with aclosing(with_pauses(stream, _IDLE)) as found:
                async for event in found:
                    batch = self._taken(event)
                    if batch:
                        yield batch
                    if isinstance(event, events.End):
                        return
                    if isinstance(event, NodeInfo) and self._is_news(event):
                        break
            await self._begin(self.info)

    def begun(self) -> list[Shown]:
        """The lines without an end yet, as they would be shown now."""
        return [shown for output in self._outputs.values() for shown in output.begun()]

    def _taken(self, event: NodeInfo | Piece | events.End | None) -> list[Shown]:
        """What an event, or a pause, brings to be shown."""
        if isinstance(event, Piece):
            return self._outputs[event.file].feed(event)
        if isinstance(event, NodeInfo):
            self.info = event
            self._told(event)
            return []
        outputs = self._outputs.values()
        if event is None:
            return [shown for output in outputs for shown in output.idle()]
        self.info = event.node
        self._told(event.node)
        last = [shown for output in outputs for shown in output.end()]
        return last + self._cut_off(event.node)

    def _is_news(self, info: NodeInfo) -> bool:
        """Whether there are outputs that are meant and not followed."""
        meant = {source.file for source in self._question.outputs.sources(info, self._found.label)}
        return bool(meant - self._outputs.keys())

    async def _begin(self, info: NodeInfo) -> None:
        """Follow all that are meant; those that came later, from their start."""
        sources = self._question.outputs.sources(info, self._found.label)
        if not sources:
            return
        sizes = {file.name: file.size for file in info.files}
        first = not self._cursors
        outputs, cursors = {}, {}
        for source in sources:
            name = source.file
            outputs[name], cursors[name] = self._outputs.get(name), self._cursors.get(name, 0)
            if outputs[name] is None:
                extent = Extent(source, 0, sizes[name] if first else 0)
                if first:
                    extent = await begin(self._server, extent, self._question.selection, self._now)
                outputs[name], cursors[name] = self._output(extent), extent.start
        self._outputs = {name: output for name, output in outputs.items() if output}
        self._cursors = cursors

    def _guess(self, info: NodeInfo) -> bool:
        """Wait for an output that does not exist yet; whether there is any to wait for."""
        outputs = self._question.outputs
        if not info.growing:
            if self._must:
                raise outputs.missing(info)
            return False
        stream, rank, name = outputs.guess()
        if name is None:
            return False
        source = Source(*self._found.key, name, stream, rank, self._found.label)
        self._outputs, self._cursors = {name: self._output(Extent(source, 0, 0))}, {name: 0}
        return True

    def _output(self, extent: Extent) -> _Output:
        return _Output(extent, Picker(self._question.selection, self._now))

    def _cut_off(self, info: NodeInfo) -> list[Shown]:
        if info.state != "orphaned" or any(output.told for output in self._outputs.values()):
            return []
        message = (
            f"the server that ran node {info.node_id} ({info.name}) of {info.dispatch_id} was stopped; "
            "nothing more comes here, and what the job wrote later is on its cluster"
        )
        output = next(iter(self._outputs.values()))
        return [output.shown(Break(output.cursor, Seam(SeamKind.INTERRUPTED, message)))]


class _Output:
    """One output on its way to the reader."""

    def __init__(self, extent: Extent, picker: Picker) -> None:
        self._source = extent.source
        self._history = extent.end
        self._caught_up = False
        self._last: Item | None = None
        self._picker = picker
        source = extent.source
        self._assembler = Assembler(
            extent.start, stream=source.stream, rank=source.rank, skimmer=picker.skimmer
        )

    @property
    def cursor(self) -> int:
        """Of the next byte."""
        return self._assembler.cursor

    @property
    def told(self) -> bool:
        """Whether the last that was shown says that the server was stopped."""
        return isinstance(self._last, Break) and self._last.seam.kind is SeamKind.INTERRUPTED

    def feed(self, piece: Piece) -> list[Shown]:
        return self._all_shown(self._picker.feed(self._assembler.feed(piece))) + self._up_to_now()

    def idle(self) -> list[Shown]:
        return self._up_to_now() + self._all_shown(self._picker.idle())

    def begun(self) -> list[Shown]:
        line = self._assembler.unfinished()
        is_shown = line is not None and self._caught_up and self._picker.takes_begun(line)
        return [self.shown(line)] if line and is_shown else []

    def end(self) -> list[Shown]:
        passed = self._picker.feed(self._assembler.end())
        return self._all_shown(passed + self._picker.caught_up())

    def shown(self, item: Item) -> Shown:
        return Shown(self._source, item)

    def _up_to_now(self) -> list[Shown]:
        """What was held back until all that there was at first had been read."""
        if self._caught_up or self.cursor < self._history:
            return []
        self._caught_up = True
        return self._all_shown(self._picker.caught_up())

    def _all_shown(self, items: list[Item]) -> list[Shown]:
        self._last = items[-1] if items else self._last
        return [self.shown(item) for item in items]


class DispatchFollower:
    """Follows all nodes that are meant, each from when it begins; children of sublattices too.

    Args:
        server: Whom to ask.
        dispatch_id: The dispatch.
        question: What is asked for.
        told: As in ``NodeFollower``, for each node.
    """

    def __init__(self, server: Server, dispatch_id: str, question: Question, told: Told) -> None:
        self._server = server
        self._dispatch_id = dispatch_id
        self._question = question
        self._told = told
        self._followers: list[NodeFollower] = []
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

    def begun(self) -> list[Shown]:
        """As in ``NodeFollower``, of all nodes."""
        return [shown for follower in self._followers for shown in follower.begun()]

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
        follower = NodeFollower(self._server, found, self._question, must=False, told=self._told)
        self._followers.append(follower)
        # A file that this node never had is not missed: others may have it.
        with suppress(OutputNotFound):
            async with aclosing(follower.follow()) as batches:
                async for batch in batches:
                    await self._queue.put(batch)
        return follower.info
