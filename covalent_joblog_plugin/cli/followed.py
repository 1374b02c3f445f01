# SPDX-License-Identifier: Apache-2.0
"""The nodes that are followed: what is to be told of them, and how they ended."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from covalent_joblog_plugin.reading.answers import ENDED, NOT_STARTED
from covalent_joblog_plugin.reading.client import Server
from covalent_joblog_plugin.reading.record import error_of, records
from covalent_joblog_plugin.reading.sources import SUBLATTICE, find_dispatch

from .exits import Exit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalent_joblog_plugin.reading.answers import NodeInfo
    from covalent_joblog_plugin.reading.question import Question

    from .screen import Screen

_SETTLING = 60.0
"""Seconds that Covalent may take to record the end of a node whose output has ended."""
_ASK = 0.3
_LEFT = frozenset({"orphaned", "interrupted"})


class Followed:
    """Nodes from when they are first told of until their end.

    Args:
        question: What is followed.
        screen: Where events go.

    Attributes:
        has_told: Whether there was anything to be told of a node that goes on.
    """

    def __init__(self, question: Question, screen: Screen) -> None:
        self.has_told = False
        self._question = question
        self._screen = screen
        self._known: dict[tuple[str, int], NodeInfo] = {}

    def told(self, node: NodeInfo) -> None:
        """Take what is known of a node, and tell what of it is news."""
        key = (node.dispatch_id, node.node_id)
        before, self._known[key] = self._known.get(key), node
        trouble = node.reading.trouble if node.reading else ""
        had = before.reading.trouble if before and before.reading else ""
        if node.note != (before.note if before else "") and node.note:
            self._tell(node, node.note)
        if trouble != had:
            self._tell(node, trouble or "its files are read again", bad=bool(trouble))
        if node.trouble != (before.trouble if before else "") and node.trouble:
            self._tell(node, f"its output is not stored: {node.trouble}", bad=True)

    def _tell(self, node: NodeInfo, text: str, *, bad: bool = False) -> None:
        self.has_told = True
        self._screen.event(f"{name_of(node)}: {text}", bad=bad)

    async def end(self) -> Exit:
        """Tell how all of them ended; the exit status that says the same.

        Raises:
            OutputError: The server does not know them any more.
            TransportError: It does not answer.
        """
        async with Server(self._question.address) as server:
            nodes = [await _settled(server, node) for node in self._known.values()]
            failed = await failures(server, nodes)
            exits = [self._end_of(node, failed) for node in nodes]
            if self._question.node is None:
                exits.append(await self._end_of_dispatch(server))
        return next((status for status in _WORST if status in exits), Exit.DONE)

    def _end_of(self, node: NodeInfo, failed: dict[tuple[str, int], str]) -> Exit:
        name = name_of(node)
        if node.status == "FAILED":
            self._screen.event(failed[node.dispatch_id, node.node_id], bad=True)
            return Exit.FAILED
        if node.status == "CANCELLED":
            self._screen.event(f"{name} CANCELLED", bad=True)
            return Exit.CANCELLED
        if node.state in _LEFT and node.status not in ENDED:
            self._screen.event(
                _ORPHANED.format(name=name, status=node.status, dispatch=node.dispatch_id), bad=True
            )
            return Exit.ORPHANED
        if node.status in NOT_STARTED:
            self._screen.event(f"{name} was never started", bad=True)
            return Exit.FAILED
        # A whole dispatch says so itself, once.
        if self._question.node is not None or not _is_settled(node):
            self._screen.event(f"{name} {node.status}")
        return Exit.DONE

    async def _end_of_dispatch(self, server: Server) -> Exit:
        dispatch = await server.dispatch(await find_dispatch(server, self._question.dispatch))
        status = _OF_DISPATCH.get(dispatch.status, Exit.DONE)
        self._screen.event(f"{dispatch.dispatch_id} ({dispatch.name}) {dispatch.status}", bad=bool(status))
        return status


_WORST = (Exit.FAILED, Exit.ORPHANED, Exit.CANCELLED)
_OF_DISPATCH = {
    "FAILED": Exit.FAILED,
    "POSTPROCESSING_FAILED": Exit.FAILED,
    "CANCELLED": Exit.CANCELLED,
}
_ORPHANED = (
    "{name} is {status} for ever: the server that ran it was stopped. Its job may have gone on: "
    "`joblog reconnect {dispatch}` reads on, `joblog where {dispatch}` says how to look"
)


def _is_settled(node: NodeInfo) -> bool:
    return node.status in ENDED or node.state in _LEFT or (node.status in NOT_STARTED and not node.growing)


async def _settled(server: Server, node: NodeInfo) -> NodeInfo:
    """A node whose output has ended, when Covalent has recorded its end; raises as ``Followed.end`` does."""
    deadline = time.monotonic() + _SETTLING
    while not _is_settled(node) and time.monotonic() < deadline:
        await asyncio.sleep(_ASK)
        node = await server.node(node.dispatch_id, node.node_id)
    return node


async def failures(server: Server, nodes: Iterable[NodeInfo]) -> dict[tuple[str, int], str]:
    """Why nodes FAILED, by dispatch and node; raises as ``error_of`` does."""
    failed = [node for node in nodes if node.status == "FAILED"]
    dispatches = {node.dispatch_id for node in failed}
    known = {dispatch_id: await records(server, dispatch_id) for dispatch_id in dispatches}
    said = {}
    for node in failed:
        record = known[node.dispatch_id].get(node.node_id)
        error = await error_of(server, record) if record else ""
        text = f"{name_of(node)} FAILED{f': {error}' if error else ''}"
        said[node.dispatch_id, node.node_id] = text
    return said


def name_of(node: NodeInfo) -> str:
    """What a node is called in an event."""
    return f"node {node.node_id} ({node.name.removeprefix(SUBLATTICE)})"
