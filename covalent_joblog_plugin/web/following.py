# SPDX-License-Identifier: Apache-2.0
"""A node's output as a stream of events, from a place in it to its end.

The store rings a bell; here one look is taken at what there is then, in a thread, and sent at the pace of who
reads. Nothing is kept for a reader but its cursors.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import OutputNotFound
from covalent_joblog_plugin.store.news import bell
from covalent_joblog_plugin.store.node_output import NodeOutput
from covalent_joblog_plugin.store.pieces import Place, cursor_from_end, cursor_since
from covalent_joblog_plugin.store.reading import known_dispatch, outputs_of, watched_dispatch
from covalent_joblog_plugin.store.threads import in_reader

from .answers import PieceAnswer, encoded
from .description import describe, essence, is_growing, reading_of
from .hanging_up import hang_up
from .refusals import REFUSED, problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import anyio

    from covalent_joblog_plugin.store.items import Reading
    from covalent_joblog_plugin.store.reading import StoredNode
    from covalent_joblog_plugin.store.rows import Dispatch, Node
    from covalent_joblog_plugin.store.views import Snapshot

    from .answers import NodeAnswer

PIECE_BYTES = 256 * 1024
GATHER = 0.02
"""Seconds in which small news are gathered into one event."""
DESCRIBE_EVERY = 1.0
_LOOK_AGAIN = 5.0
"""Seconds after which a node is looked at although no bell rang: how its source fares is not rung for."""
_ASK_AGAIN = 1.0
"""The same for a node that this server does not write yet, or never: only the database tells of its end."""


@dataclass(frozen=True, slots=True)
class Start:
    """From where a reader wants an output.

    Attributes:
        cursor: From this one on; a negative one counts back from the end.
        since: From what arrived then on, Unix seconds; None if not asked for.
    """

    cursor: int = 0
    since: float | None = None

    def place(self, file: str, snapshot: Snapshot) -> Place:
        """Where that is; raises as ``cursor_since`` does."""
        if self.since is not None:
            return Place(file, cursor_since(snapshot, file, self.since))
        return Place(file, cursor_from_end(snapshot, self.cursor))


@dataclass(frozen=True, slots=True)
class Look:
    """What was found.

    Attributes:
        events: To be sent, encoded.
        more: There is more already.
        ended: There is no more, and nothing will come.
        patience: Seconds to wait for a bell.
    """

    events: list[bytes]
    more: bool
    ended: bool
    patience: float


class Follower:
    """One reader of some outputs of a node.

    Args:
        dispatch_id: The dispatch.
        node_id: The node.
        starts: The outputs to read, and from where.
    """

    def __init__(self, dispatch_id: str, node_id: int, starts: dict[str, Start]) -> None:
        self.node = (dispatch_id, node_id)
        self._starts = starts
        self._places: dict[str, Place] = {}
        self._found: tuple[Dispatch, Node, NodeOutput | StoredNode] | None = None
        self._said: NodeAnswer | None = None
        self._describe_at = 0.0

    def reading(self) -> Reading | None:
        """How the node's sources are being read; for the event loop."""
        return reading_of(self._found[2]) if self._found else None

    def look(self, reading: Reading | None) -> Look:
        """What is new; blocks on disk and database.

        Raises:
            OutputNotFound: There is no such node, or it has ended without such an output.
            OutputError: The output cannot be read from there.
            StoreError: The database does not answer.
            OSError: A file cannot be read.
        """
        dispatch, node, output = self._find()
        growing = is_growing(dispatch, node, output)
        events = self._news_of_the_node(dispatch, node, output, reading)
        more = False
        for file in self._starts:
            more |= self._take(file, output, growing, events)
        ended = not growing and not more
        if ended:
            answer = describe(self.node[0], dispatch, node, output, reading)
            events.append(self._event("end", encoded(answer)))
        self._found = (dispatch, node, output) if isinstance(output, NodeOutput) or not growing else None
        return Look(events, more, ended, _LOOK_AGAIN if isinstance(output, NodeOutput) else _ASK_AGAIN)

    def _find(self) -> tuple[Dispatch, Node, NodeOutput | StoredNode]:
        if self._found:
            return self._found
        dispatch = watched_dispatch(self.node[0]) if self._said else known_dispatch(*self.node)
        node = dispatch.nodes[self.node[1]]
        return dispatch, node, outputs_of(self.node[0], dispatch, node)

    def _take(self, file: str, output: NodeOutput | StoredNode, growing: bool, events: list[bytes]) -> bool:
        """The next piece of one output; whether there is more of it already."""
        snapshot = output.snapshot(file)
        if snapshot is None:
            if not growing and file not in self._places:
                raise OutputNotFound(
                    f"node {self.node[1]} of {self.node[0]} has no output {file!r}", list(output.sizes())
                )
            return False
        place = self._places.get(file)
        if place is None:
            place = self._places[file] = self._starts[file].place(file, snapshot)
        piece = place.take(snapshot, PIECE_BYTES)
        if piece.data or piece.entries:
            events.append(self._event("output", encoded(PieceAnswer.of(file, piece))))
        return place.cursor < piece.total

    def _news_of_the_node(
        self, dispatch: Dispatch, node: Node, output: NodeOutput | StoredNode, reading: Reading | None
    ) -> list[bytes]:
        now = time.monotonic()
        if now < self._describe_at:
            return []
        self._describe_at = now + DESCRIBE_EVERY
        answer = describe(self.node[0], dispatch, node, output, reading)
        before, self._said = self._said, essence(answer)
        return [] if before == self._said else [self._event("node", encoded(answer))]

    def _event(self, kind: str, data: bytes) -> bytes:
        """An event whose id is where the reader is after it: the cursor, or one for each output."""
        # All of an output that does not exist yet is still to come.
        cursors = [
            self._places[file].cursor if file in self._places else max(0, start.cursor)
            for file, start in self._starts.items()
        ]
        place = ",".join(str(cursor) for cursor in cursors)
        return encoded_event(kind, data, place)


def encoded_event(kind: str, data: bytes, place: str | None = None) -> bytes:
    """An event as it is sent; ``data`` has no end of line. The library's own way costs ten times as much."""
    head = f"event: {kind}\n" if place is None else f"id: {place}\nevent: {kind}\n"
    return b"%bdata: %b\n\n" % (head.encode("ascii"), data)


async def follow(
    follower: Follower, first: Look, closing: anyio.Event, client: tuple[str, int] | None
) -> AsyncIterator[bytes]:
    """The events of ``follower`` from its ``first`` look on, until the output's end or the server's.

    Args:
        follower: Who reads.
        first: What it found first.
        closing: Set when the server stops; the stream ends then by itself, unless its client does not read.
        client: Its address and port, to hang up on it in that case.
    """
    look = first
    with bell(follower.node) as rung:
        closed = asyncio.ensure_future(closing.wait())
        closed.add_done_callback(lambda _: rung.ring())
        try:
            while True:
                for event in look.events:
                    yield event
                if look.ended or closing.is_set():
                    return
                if look.events and not look.more:
                    await asyncio.sleep(GATHER)
                look = await in_reader(follower.look, follower.reading())
                if not look.events and not look.more and not look.ended:
                    await rung.wait(look.patience)
        except REFUSED as error:
            yield encoded_event("problem", encoded(problem(error)[1]))
        except (asyncio.CancelledError, GeneratorExit):
            if closing.is_set() and client is not None:
                hang_up(client)
            raise
        finally:
            closed.cancel()
