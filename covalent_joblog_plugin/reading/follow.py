# SPDX-License-Identifier: Apache-2.0
"""Lines as they come, for ``for`` and for ``async for``."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import BadSelection

from .blocking import blocking
from .client import Server
from .following import DispatchFollower, NodeFollower
from .rendering import Rendering
from .sources import SUBLATTICE, find_dispatch, find_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from .question import Question
    from .rendering import Shown


class Follow:
    """The lines of outputs, from the first one asked for until nothing more comes.

    Iterating begins to read; leaving the loop, or interrupting it, ends that, and nothing else: the job goes
    on. A line is given when it is whole. A server that is started again is waited for, and the text goes on
    where it was. It raises as ``logs`` does.

    Args:
        question: What is asked for.

    Raises:
        BadSelection: It would end before it begins.
    """

    def __init__(self, question: Question) -> None:
        if question.selection.until is not None:
            raise BadSelection("until", "following ends when the output does; leave one of the two out")
        self._question = question
        self._rendering = Rendering(labels=False, timestamps=question.timestamps)

    def __iter__(self) -> Iterator[str]:
        for shown in self.shown():
            yield self._rendering.line(shown)

    async def __aiter__(self) -> AsyncIterator[str]:
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for shown in batch:
                    yield self._rendering.line(shown)

    def shown(self) -> Iterator[Shown]:
        """The lines and the breaks, each with the output it is in."""
        for batch in blocking(self.batches()):
            yield from batch

    async def batches(self) -> AsyncGenerator[list[Shown], None]:
        """The same, as many at a time as came together."""
        question = self._question
        async with Server(question.address) as server:
            dispatch_id = await find_dispatch(server, question.dispatch)
            found = await find_nodes(server, dispatch_id, question.node)
            single = question.node is not None and len(found) == 1
            single = single and not found[0].node.name.startswith(SUBLATTICE)
            follower: NodeFollower | DispatchFollower
            if single:
                follower = NodeFollower(server, found[0], question, must=True)
                labels = question.outputs.several
            else:
                follower = DispatchFollower(server, dispatch_id, question)
                labels = True
            self._rendering = Rendering(labels, question.timestamps)
            async with aclosing(follower.follow()) as batches:
                async for batch in batches:
                    yield batch
