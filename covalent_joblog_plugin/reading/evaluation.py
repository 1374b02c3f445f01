# SPDX-License-Identifier: Apache-2.0
"""One evaluation of a question: what there was at one moment, to be read as often as one likes."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import BadSelection

from . import snapshot
from .client import PIECE_BYTES, Server
from .picking import Picker, begin
from .rendering import Rendering, Shown
from .snapshot import Extent
from .sources import describe, find_dispatch, find_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from .answers import NodeInfo
    from .question import Question

_MEMORY = 32 * PIECE_BYTES
"""Bytes for the pieces of outputs that are read together; as many again are on their way."""
_LEAST = 16 * 1024
RAW_IS_WHOLE = "bytes are not selected by what is in their lines; only tail goes with it"


def several(labels: Iterable[str]) -> str:
    """What to say where bytes of several outputs are asked for."""
    return f"there are several outputs ({', '.join(labels)}); ask for one"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a question meant at one moment.

    Attributes:
        question: What was asked for, with the dispatch's whole id.
        now: When, Unix seconds.
        nodes: What the server knew of the nodes then.
        extents: The outputs that are meant, up to the lengths they had then.
        labels: Whether lines have to say whose they are.
        rejected: How many lines did not pass the last time it was read, by what held them back.
    """

    question: Question
    now: float
    nodes: list[NodeInfo]
    extents: list[Extent]
    labels: bool
    rejected: Counter[str] = field(default_factory=Counter, compare=False)

    @classmethod
    async def of(cls, question: Question) -> Evaluation:
        """Ask what there is.

        Raises:
            OutputNotFound: There is no such dispatch, node or output.
            OutputNotYet: There is no such output yet.
            OutputError: It cannot be read.
            TransportError: The server does not answer.
        """
        now = time.time()
        async with Server(question.address) as server:
            dispatch_id = await find_dispatch(server, question.dispatch)
            found = await find_nodes(server, dispatch_id, question.node)
            nodes = await describe(server, found)
            extents = []
            for node, info in zip(found, nodes, strict=True):
                sizes = {file.name: file.size for file in info.files}
                for source in question.outputs.sources(info, node.label):
                    extent = Extent(source, 0, sizes[source.file], info.growing)
                    extents.append(await begin(server, extent, question.selection, now))
        if not extents:
            raise question.outputs.missing(nodes[0])
        labels = question.node is None or len(found) > 1 or question.outputs.several
        return cls(replace(question, dispatch=dispatch_id), now, nodes, extents, labels)

    @property
    def of_one_node(self) -> bool:
        """Whether one node was asked for, and all lines are its own."""
        return self.question.node is not None and len(self.nodes) == 1

    @property
    def rendering(self) -> Rendering:
        """How its lines are written."""
        return Rendering(self.labels, self.question.timestamps)

    @property
    def size(self) -> int:
        """Bytes that are read to find what is shown."""
        return sum(extent.end - extent.start for extent in self.extents)

    async def read(self, *, judge: bool = True) -> AsyncGenerator[list[Shown], None]:
        """The lines and breaks, in bounded memory; raises as ``snapshot.items`` does.

        Args:
            judge: Whether each line gets its severity, which takes most of the time.
        """
        size = max(_LEAST, min(PIECE_BYTES, _MEMORY // len(self.extents)))
        pickers = [Picker(self.question.selection, self.now, judge=judge) for _ in self.extents]
        async with Server(self.question.address) as server:
            outputs = [
                (extent.source, snapshot.items(server, extent, picker, size))
                for extent, picker in zip(self.extents, pickers, strict=True)
            ]
            async with aclosing(snapshot.merged(outputs)) as merged:
                async for batch in merged:
                    yield [Shown(source, item) for source, item in batch]
        self.rejected.clear()
        for picker in pickers:
            self.rejected.update(picker.rejected)

    async def raw(self) -> AsyncGenerator[bytes, None]:
        """The bytes of the one output, a piece at a time.

        Raises:
            BadSelection: There are several outputs, or lines are selected.
            OutputError: The output cannot be read.
            TransportError: The server does not answer.
        """
        selection = self.question.selection
        if selection.by_record or selection.execution is not None:
            raise BadSelection("raw", RAW_IS_WHOLE)
        if len(self.extents) > 1:
            raise BadSelection("raw", several(extent.source.label for extent in self.extents))
        server = Server(self.question.address)
        async with server, aclosing(snapshot.raw(server, self.extents[0])) as parts:
            async for data in parts:
                yield data
