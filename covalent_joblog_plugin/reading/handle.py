# SPDX-License-Identifier: Apache-2.0
"""``logs()``: the output of nodes as text, while they run and ever after."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, SupportsIndex, overload

from covalent_joblog_plugin.model.errors import BadSelection
from covalent_joblog_plugin.model.log_line import LogLine

from . import snapshot
from .blocking import blocking, wait_for
from .client import PIECE_BYTES, Server
from .follow import Follow
from .picking import Picker, begin
from .question import Options, Question
from .rendering import Rendering, Shown
from .snapshot import Extent
from .sources import describe, find_dispatch, find_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from typing_extensions import Unpack

    from covalent_joblog_plugin.model.capabilities import Capabilities

    from .answers import NodeInfo, OutputFile

_MEMORY = 64 * PIECE_BYTES
"""Bytes for the pieces of outputs that are read together."""


@overload
def logs(
    dispatch_id: str | None = None,
    node: int | str | None = None,
    *,
    follow: Literal[True],
    **selection: Unpack[Options],
) -> Follow: ...


@overload
def logs(
    dispatch_id: str | None = None,
    node: int | str | None = None,
    *,
    follow: Literal[False] = False,
    **selection: Unpack[Options],
) -> Logs: ...


@overload
def logs(
    dispatch_id: str | None = None,
    node: int | str | None = None,
    *,
    follow: bool,
    **selection: Unpack[Options],
) -> Logs | Follow: ...


def logs(
    dispatch_id: str | None = None,
    node: int | str | None = None,
    *,
    follow: bool = False,
    **selection: Unpack[Options],
) -> Logs | Follow:
    """The output of a node, or of all nodes of a dispatch.

    Args:
        dispatch_id: The dispatch, or the beginning of its id; None for the newest one.
        node: The node's number, its electron's name, or a pattern of names (``train*``); None for all nodes,
            those of sublattices too, with ``[name] `` before each line.
        follow: Whether to go on until the end; then what is returned is an iterator of lines, for ``for`` and
            ``async for``.
        **selection: ``stream`` (``stdout`` unless said otherwise; ``stderr``, ``log``, ``all``), ``rank`` (0;
            ``all``), or ``file`` (an output by its name); ``since`` and ``until`` (``90s``, ``2h`` ago, or an
            RFC 3339 time); ``severity`` (that or worse); ``query`` (a text, or one of several), ``exclude``,
            ``regex`` (whether these are regular expressions); ``execution`` (which start of the job);
            ``tail`` (the last lines of each output, of those the others leave); ``timestamps`` (when each
            line arrived); ``server`` (``http://host:port`` in place of Covalent's configuration).

    Raises:
        BadSelection: What is asked for has no meaning.
        OutputNotFound: There is no such dispatch, node or output.
        OutputNotYet: There is no such output yet.
        TransportError: No server answers, or it has not got this plugin.
    """
    question = Question.of(dispatch_id, node, selection)
    return Follow(question) if follow else Logs(question)


class Logs:
    """The text of outputs as it was when this was made; what comes later is not in it.

    ``str()``, ``len()`` (characters), ``in``, slices, ``==`` and ``hash()`` are those of the text;
    iteration gives its lines. The text is what a terminal would show of it, with ``[joblog: …]`` where it
    breaks; ``raw()`` has the bytes. Calling it asks again, for the same or with other options.

    Args:
        question: What is asked for.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._text: str | None = None
        self._nodes: list[NodeInfo] = []
        self._extents: list[Extent] = []
        self._labels = False
        self._rejected: Counter[str] = Counter()
        self._now = time.time()
        wait_for(self._look())

    async def _look(self) -> None:
        question = self._question
        async with Server(question.address) as server:
            dispatch_id = await find_dispatch(server, question.dispatch)
            found = await find_nodes(server, dispatch_id, question.node)
            self._nodes = await describe(server, found)
            for node, info in zip(found, self._nodes, strict=True):
                sizes = {file.name: file.size for file in info.files}
                for source in question.outputs.sources(info, node.label):
                    extent = Extent(source, 0, sizes[source.file])
                    extent = await begin(server, extent, question.selection, self._now)
                    self._extents.append(extent)
        self._labels = question.node is None or len(found) > 1 or question.outputs.several
        if not self._extents:
            raise question.outputs.missing(self._nodes[0])

    def __str__(self) -> str:
        if self._text is None:
            self._text = "".join(self._rendering.text(self.shown()))
        return self._text

    def __len__(self) -> int:
        return len(str(self))

    def __bool__(self) -> bool:
        return bool(str(self))

    def __contains__(self, text: str) -> bool:
        return text in str(self)

    def __getitem__(self, index: SupportsIndex | slice) -> str:
        return str(self)[index]

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, str | Logs) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __iter__(self) -> Iterator[str]:
        """The lines without their ends, in bounded memory."""
        for shown in self.shown():
            yield self._rendering.line(shown)

    def splitlines(self, keepends: bool = False) -> list[str]:
        r"""The lines; only ``\n`` ends one."""
        lines = str(self).split("\n")
        last = lines.pop()
        lines = [line + "\n" for line in lines] if keepends else lines
        return [*lines, last] if last else lines

    @overload
    def __call__(self, *, follow: Literal[True], **selection: Unpack[Options]) -> Follow: ...

    @overload
    def __call__(self, *, follow: Literal[False] = False, **selection: Unpack[Options]) -> Logs: ...

    def __call__(self, *, follow: bool = False, **selection: Unpack[Options]) -> Logs | Follow:
        """The same as it is now, or with other options; raises as ``logs`` does."""
        question = self._question.changed(selection)
        return Follow(question) if follow else Logs(question)

    def __repr__(self) -> str:
        size = sum(extent.end - extent.start for extent in self._extents)
        if len(self._nodes) > 1:
            return f"<Logs of {len(self._nodes)} nodes of {self._nodes[0].dispatch_id}: {size} bytes>"
        node = self._nodes[0]
        files = ", ".join(extent.source.file for extent in self._extents)
        return (
            f"<Logs of node {node.node_id} ({node.name}) of {node.dispatch_id}, {node.status}: "
            f"{size} bytes of {files}>"
        )

    @property
    def _rendering(self) -> Rendering:
        return Rendering(self._labels, self._question.timestamps)

    def lines(self) -> Iterator[LogLine]:
        """The lines with what is known of each, in bounded memory."""
        return (shown.item for shown in self.shown() if isinstance(shown.item, LogLine))

    def shown(self) -> Iterator[Shown]:
        """The lines and the breaks, each with the output it is in, in bounded memory."""
        for batch in blocking(self._read()):
            yield from batch

    async def _read(self) -> AsyncGenerator[list[Shown], None]:
        selection = self._question.selection
        size = max(4096, min(PIECE_BYTES, _MEMORY // len(self._extents)))
        pickers = [Picker(selection, self._now) for _ in self._extents]
        async with Server(self._question.address) as server:
            outputs = [
                (extent.source, snapshot.items(server, extent, picker, size))
                for extent, picker in zip(self._extents, pickers, strict=True)
            ]
            async with aclosing(snapshot.merged(outputs)) as merged:
                async for batch in merged:
                    yield [Shown(source, item) for source, item in batch]
        self._rejected = sum((Counter(picker.rejected) for picker in pickers), Counter())

    def raw(self) -> bytes:
        """The bytes of the one output, exactly as the job wrote them.

        Raises:
            BadSelection: There are several outputs.
        """
        return b"".join(blocking(self._bytes()))

    async def _bytes(self) -> AsyncGenerator[bytes, None]:
        extent = self._only_extent("raw")
        server = Server(self._question.address)
        async with server, aclosing(snapshot.pieces(server, extent)) as pieces:
            async for piece in pieces:
                yield piece.data

    def _only_extent(self, what: str) -> Extent:
        if len(self._extents) > 1:
            names = ", ".join(extent.source.label for extent in self._extents)
            raise BadSelection(what, f"there are several outputs ({names}); ask for one")
        return self._extents[0]

    @property
    def nodes(self) -> list[NodeInfo]:
        """What the server knew of the nodes when this was made."""
        return list(self._nodes)

    @property
    def files(self) -> list[OutputFile]:
        """All outputs of the nodes, whatever was asked for."""
        return [file for node in self._nodes for file in node.files]

    @property
    def capabilities(self) -> Capabilities:
        """What can be done with the output of the one node.

        Raises:
            BadSelection: There are several nodes.
        """
        if len(self._nodes) > 1:
            raise BadSelection("capabilities", "each node has its own; ask for one node")
        return self._nodes[0].capabilities
