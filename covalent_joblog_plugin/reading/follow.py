# SPDX-License-Identifier: Apache-2.0
"""Lines as they come, for ``for`` and for ``async for``."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import BadSelection

from . import events
from .answers import Piece
from .blocking import blocking
from .client import Server
from .evaluation import RAW_IS_WHOLE, several
from .following import DispatchFollower, NodeFollower
from .picking import begin
from .rendering import Rendering
from .snapshot import Extent
from .sources import SUBLATTICE, find_dispatch, find_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

    from .answers import NodeInfo
    from .question import Question
    from .rendering import Shown


class Follow:
    """The lines of outputs, from the first one asked for until nothing more comes.

    Iterating begins to read; leaving the loop, or interrupting it, ends that, and nothing else: the job goes
    on. A line is given when it is whole. A server that is started again is waited for, and the text goes on
    where it was. It raises as ``logs`` does.

    Args:
        question: What is asked for.
        told: Called with what is known of each node, when its turn comes and whenever that changes.

    Raises:
        BadSelection: It would end before it begins.
    """

    def __init__(self, question: Question, told: Callable[[NodeInfo], None] = lambda _: None) -> None:
        if question.selection.until is not None:
            raise BadSelection("until", "following ends when the output does; leave one of the two out")
        self._question = question
        self._told = told
        self._follower: NodeFollower | DispatchFollower | None = None
        self.rendering = Rendering(labels=False, timestamps=question.timestamps)

    def __iter__(self) -> Iterator[str]:
        for shown in self.shown():
            yield self.rendering.line(shown)

    async def __aiter__(self) -> AsyncIterator[str]:
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for shown in batch:
                    yield self.rendering.line(shown)

    def shown(self) -> Iterator[Shown]:
        """The lines and the breaks, each with the output it is in."""
        for batch in blocking(self.batches()):
            yield from batch

    @property
    def of_one_node(self) -> bool:
        """Whether all lines are one node's; known when the first of them is."""
        return isinstance(self._follower, NodeFollower)

    def begun(self) -> list[Shown]:
        """The lines that have no end yet (progress bars), as they would be shown now; for ``batches``."""
        return self._follower.begun() if self._follower else []

    async def batches(self) -> AsyncGenerator[list[Shown], None]:
        """The same, as many at a time as came together."""
        question = self._question
        async with Server(question.address) as server:
            dispatch_id = await find_dispatch(server, question.dispatch)
            found = await find_nodes(server, dispatch_id, question.node)
            single = question.node is not None and len(found) == 1
            single = single and not found[0].node.name.startswith(SUBLATTICE)
            if single:
                self._follower = NodeFollower(server, found[0], question, must=True, told=self._told)
                labels = question.outputs.several
            else:
                self._follower = DispatchFollower(server, dispatch_id, question, self._told)
                labels = True
            self.rendering = Rendering(labels, question.timestamps)
            async with aclosing(self._follower.follow()) as batches:
                async for batch in batches:
                    yield batch

    async def raw(self) -> AsyncGenerator[bytes, None]:
        """The bytes of the one output as they come, exactly as the job wrote them.

        Raises:
            BadSelection: There are several outputs, or lines are selected.
            OutputNotFound: The node has ended without such an output.
            OutputError: It cannot be read.
            TransportError: The server does not answer, or does not come back.
        """
        question = self._question
        if question.selection.by_record or question.selection.execution is not None:
            raise BadSelection("raw", RAW_IS_WHOLE)
        async with Server(question.address) as server:
            dispatch_id = await find_dispatch(server, question.dispatch)
            found = await find_nodes(server, dispatch_id, question.node)
            if len(found) > 1:
                raise BadSelection("raw", several(node.label for node in found))
            info = await server.node(*found[0].key)
            self._told(info)
            file, start = await self._place(server, info)
            async with aclosing(events.follow(server, *found[0].key, {file: start})) as happening:
                async for event in happening:
                    if isinstance(event, Piece):
                        yield event.data
                    else:
                        self._told(event.node if isinstance(event, events.End) else event)

    async def _place(self, server: Server, info: NodeInfo) -> tuple[str, int]:
        """The one output, which may not be there yet, and the cursor to begin at."""
        question = self._question
        sources = question.outputs.sources(info, info.name)
        if len(sources) > 1:
            raise BadSelection("raw", several(source.file for source in sources))
        if sources:
            size = next(file.size for file in info.files if file.name == sources[0].file)
            extent = await begin(server, Extent(sources[0], 0, size), question.selection, 0)
            return sources[0].file, extent.start
        file = question.outputs.guess()[2]
        if file is None or not info.growing:
            raise question.outputs.missing(info)
        return file, 0
