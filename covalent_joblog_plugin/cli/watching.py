# SPDX-License-Identifier: Apache-2.0
"""``joblog logs -f``: lines as they come, events between them, and how it stands below them."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import JobLogError, OutputError, TransportError
from covalent_joblog_plugin.reading.client import Server
from covalent_joblog_plugin.reading.evaluation import Evaluation
from covalent_joblog_plugin.reading.explaining import why_nothing
from covalent_joblog_plugin.reading.follow import Follow
from covalent_joblog_plugin.reading.pausing import with_pauses
from covalent_joblog_plugin.reading.record import records
from covalent_joblog_plugin.reading.sources import find_dispatch, find_nodes
from covalent_joblog_plugin.text.terminal import safe

from . import console, status
from .followed import Followed
from .overview import is_helper
from .places import place_of
from .screen import Screen

if TYPE_CHECKING:
    from covalent_joblog_plugin.reading.answers import NodeInfo
    from covalent_joblog_plugin.reading.question import Question
    from covalent_joblog_plugin.reading.rendering import Shown

    from .exits import Exit
    from .lines import Style, StyleMaker
    from .places import Place

_TICK = 0.1
"""Seconds between two paintings of a terminal while nothing comes."""
_LOOK = 1.0
"""Seconds between two looks at how the nodes stand, and at whether anybody reads."""
_SELDOM = 5.0
"""The same where there is no row to keep up to date."""
_PATIENCE = 2.0
"""Seconds without a line after which it is said why."""


async def follow(question: Question, style: StyleMaker) -> Exit:
    """Show outputs as they grow, until their end.

    Args:
        question: What is asked for.
        style: How its lines are written.

    Raises:
        JobLogError: As ``logs`` does.
        BrokenPipeError: Nobody reads the text any more.
    """
    watching = _Watching(question, style)
    try:
        return await watching.run()
    finally:
        watching.screen.clear()


async def follow_raw(question: Question) -> Exit:
    """Write the bytes of one output as they come; raises as ``follow`` does."""
    screen = Screen()
    followed = Followed(question, screen)
    async with aclosing(with_pauses(Follow(question, followed.told).raw(), _LOOK, again=True)) as pieces:
        async for piece in pieces:
            if piece:
                console.write_bytes(piece)
            elif piece is None:
                raise_if_closed()
    return await followed.end()


class _Watching:
    def __init__(self, question: Question, style: StyleMaker) -> None:
        self.screen = Screen()
        self._question = question
        self._style = style
        self._followed = Followed(question, self.screen)
        self._follow = Follow(question, self._followed.told)
        self._last: float | None = None
        self._seen = False
        self._states: list[str] = []
        self._node: tuple[NodeInfo, Place] | None = None
        self._options: dict[str, Any] | None = None

    async def run(self) -> Exit:
        asides = [asyncio.create_task(self._explain()), asyncio.create_task(self._look())]
        pause = _TICK if self.screen.live else _LOOK
        try:
            async with aclosing(with_pauses(self._follow.batches(), pause, again=True)) as batches:
                async for batch in batches:
                    if batch is None:
                        raise_if_closed()
                    self._show(batch or [])
        finally:
            for aside in asides:
                aside.cancel()
            await asyncio.gather(*asides, return_exceptions=True)
        self.screen.clear()
        if not self._seen and self._question.selection.tail != 0:
            await self._say_why(filtered=self._question.selection.by_record)
        return await self._followed.end()

    def _show(self, batch: list[Shown]) -> None:
        style = self._style(self._follow.of_one_node)
        times = [shown.item.time or 0.0 for shown in batch]
        self._last = max(self._last or 0.0, *times) or None if times else self._last
        self._seen = bool(self.screen.show(batch, style, self._rows(style))) or self._seen

    def _rows(self, style: Style) -> list[str]:
        begun = self._follow.begun() if style.paints and self.screen.shows_text else []
        said = safe(self._status())
        said = console.dim(said) if said and self.screen.colour else said
        return [*(style.line(shown) for shown in begun), *([said] if said else [])]

    async def _look(self) -> None:
        """Keep how it stands up to date, and tell when the server goes away and comes back."""
        away: bool | None = None
        async with Server(self._question.address) as server:
            while True:
                try:
                    await self._look_once(server)
                except TransportError as error:
                    # A server that never answered is told of where the lines come from.
                    if away is False:
                        self.screen.event(f"{error}. It is waited for", bad=True)
                    away = away is not None
                except JobLogError:
                    away = False
                else:
                    if away:
                        self.screen.event("the server answers again")
                    away = False
                await asyncio.sleep(_LOOK if self.screen.live else _SELDOM)

    async def _look_once(self, server: Server) -> None:
        dispatch_id = await find_dispatch(server, self._question.dispatch)
        found = await find_nodes(server, dispatch_id, self._question.node)
        if len(found) == 1:
            node = await server.node(*found[0].key)
            if self._options is None:
                record = (await records(server, node.dispatch_id)).get(node.node_id)
                self._options = record.options if record else {}
            self._node = node, place_of(node, self._options)
            return
        whole = self._question.node is None
        self._states = [known.node.status for known in found if not (whole and is_helper(known.node.name))]

    def _status(self) -> str:
        if self._node is not None:
            return status.of_node(*self._node, self._question.outputs, self._last, time.time())
        return status.of_nodes(self._states, self._last, time.time()) if self._states else ""

    async def _explain(self) -> None:
        """Say after a while why there is nothing."""
        await asyncio.sleep(_PATIENCE)
        selection = self._question.selection
        if not (self._seen or self._followed.has_told or selection.by_record or selection.tail == 0):
            await self._say_why(filtered=False)

    async def _say_why(self, filtered: bool) -> None:
        if filtered:
            self.screen.event("nothing passes what is asked for")
            return
        try:
            evaluation = await Evaluation.of(self._question)
        except OutputError as error:
            self.screen.event(str(error))
            return
        if not evaluation.size and not self._seen:
            self.screen.event(why_nothing(evaluation))


def raise_if_closed() -> None:
    """Notice that whoever reads stdout has gone, though nothing is written.

    Raises:
        BrokenPipeError: Nobody reads it any more.
    """
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return
    if any(happened & select.POLLERR for _, happened in poll.poll(0)):
        raise BrokenPipeError(os.strerror(32))
