# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a dispatch, and which of their outputs, somebody wants to read."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, get_args

from covalent_joblog_plugin.model.errors import BadSelection, OutputNotFound, OutputNotYet
from covalent_joblog_plugin.model.records import Stream

from .answers import NOT_STARTED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from .answers import DispatchInfo, NodeInfo, NodeName, OutputFile
    from .client import Server

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_BEGUN = re.compile(r"[0-9a-f-]{1,36}", re.ASCII)
SUBLATTICE = ":sublattice:"
"""How the name of a node begins that stands for a dispatch of its own."""
_PARAMETER = ":parameter:"
"""How the names of nodes begin that only hold a value: they run nothing."""
_AT_ONCE = 16
"""Questions to the server at the same time."""
_NAMED = 12


@dataclass(frozen=True, slots=True)
class Found:
    """A node that is to be read.

    Attributes:
        dispatch_id: Its dispatch, perhaps a sublattice's.
        node: What the dispatch says of it.
        label: What it is called among those that are read together.
    """

    dispatch_id: str
    node: NodeName
    label: str

    @property
    def key(self) -> tuple[str, int]:
        """Dispatch and node."""
        return self.dispatch_id, self.node.node_id

    @property
    def pending(self) -> bool:
        """Whether nobody has begun to run it."""
        return self.node.status in NOT_STARTED


@dataclass(frozen=True, slots=True)
class Source:
    """One output of a node.

    Attributes:
        dispatch_id: Its dispatch, perhaps a sublattice's.
        node_id: Its node.
        file: The output's name.
        stream: ``stdout``, ``stderr`` or ``log`` (both in one); None for an extra file.
        rank: Whose it is; None for an extra file.
        label: What it is called among those that are read together.
    """

    dispatch_id: str
    node_id: int
    file: str
    stream: Stream | None
    rank: int | None
    label: str


@dataclass(frozen=True, slots=True)
class Outputs:
    """Which outputs of each node.

    Attributes:
        stream: ``stdout``, ``stderr``, ``log`` (both in one, where they are not apart), or all of them.
        rank: Global rank on Slurm, node rank on Kubeflow, or all of them.
        file: An output by its name, in place of stream and rank.
    """

    stream: Stream | Literal["all"] = "stdout"
    rank: int | Literal["all"] = 0
    file: str | None = None

    def __post_init__(self) -> None:
        streams = (*get_args(Stream), "all")
        if self.stream not in streams:
            raise BadSelection("stream", f"{self.stream!r} is none; it is one of {', '.join(streams)}")
        if self.rank != "all" and (type(self.rank) is not int or self.rank < 0):
            raise BadSelection("rank", f"{self.rank!r} is none; give a number from 0 on, or 'all'")

    @property
    def several(self) -> bool:
        """Whether a node may have more than one of them."""
        return self.file is None and "all" in (self.stream, self.rank)

    def choose(self, files: Iterable[OutputFile]) -> list[OutputFile]:
        """Those of a node's outputs that are meant."""
        if self.file is not None:
            return [file for file in files if file.name == self.file]
        return [file for file in files if file.stream is not None and self._is_meant(file)]

    def _is_meant(self, file: OutputFile) -> bool:
        # Where the cluster keeps both in one file, that is where stdout is.
        streams = {self.stream, "log"} if self.stream == "stdout" else {self.stream}
        return (self.stream == "all" or file.stream in streams) and self.rank in ("all", file.rank)

    def missing(self, node: NodeInfo) -> OutputNotFound | OutputNotYet:
        """What to say where a node has none that is meant."""
        exists = [file.name for file in node.files]
        stream = "output" if self.stream == "all" else self.stream
        what = f"output {self.file!r}" if self.file is not None else f"{stream} of rank {self.rank}"
        text = f"node {node.node_id} ({node.name}) of {node.dispatch_id} has no {what}"
        if node.growing:
            return OutputNotYet(f"{text} yet; it has {', '.join(exists)}; follow it, or ask again later")
        return OutputNotFound(f"{text}; it has {', '.join(exists)}", exists)

    def guess(self) -> tuple[Stream | None, int | None, str | None]:
        """Stream, rank and name of an output that may come, where the node has none that is meant."""
        if self.file is not None:
            return None, None, self.file
        if self.stream == "all" or self.rank == "all":
            return None, None, None
        return self.stream, self.rank, f"rank{self.rank}.{self.stream}"

    def sources(self, node: NodeInfo, label: str) -> list[Source]:
        """The outputs of a node that are meant, each with its label."""
        files = self.choose(node.files)
        return [
            Source(
                node.dispatch_id,
                node.node_id,
                file.name,
                file.stream,
                file.rank,
                f"{label} {file.name}" if self.several else label,
            )
            for file in files
        ]


async def find_dispatch(server: Server, dispatch: str | None) -> str:
    """The whole id of a dispatch.

    Args:
        server: Whom to ask.
        dispatch: An id or the beginning of one; None or ``latest`` for the newest.

    Raises:
        BadSelection: Several begin so, or no id can.
        OutputNotFound: There is none.
    """
    if dispatch is None or dispatch == "latest":
        newest = await server.newest_dispatches(1)
        if not newest:
            raise OutputNotFound(f"the server at {server.address} has no dispatches yet")
        return newest[0]
    if _ID.fullmatch(dispatch):
        return dispatch
    if not _BEGUN.fullmatch(dispatch):
        raise BadSelection("dispatch", f"{dispatch!r} is no dispatch id, nor the beginning of one")
    found = await server.newest_dispatches(_NAMED, dispatch)
    if len(found) > 1:
        raise BadSelection("dispatch", f"{dispatch!r} begins several: {', '.join(found)}; write more of it")
    if not found:
        exists = await server.newest_dispatches(_NAMED)
        raise OutputNotFound(f"no dispatch begins with {dispatch!r}; there is {', '.join(exists)}", exists)
    return found[0]


async def find_nodes(server: Server, dispatch_id: str, node: int | str | None) -> list[Found]:
    """The nodes that are meant, each once; those inside sublattices too.

    Args:
        server: Whom to ask.
        dispatch_id: The dispatch.
        node: A number in this dispatch, or an electron's name or label, or a pattern of them (``train*``),
            in sublattices too; None for all. Who means a sublattice means what is in it.

    Raises:
        OutputNotFound: There is no such dispatch or node.
    """
    nodes = _labelled(await server.dispatch(dispatch_id), "")
    chosen = [found async for found in _chosen(server, nodes, node, {dispatch_id})]
    if not chosen:
        names = [found for found in nodes if not found.node.name.startswith(_PARAMETER)]
        exists = [f"{found.node.node_id} ({found.node.name})" for found in names]
        raise OutputNotFound(
            f"dispatch {dispatch_id} has no node {node!r}; there is {', '.join(exists[:_NAMED])}", exists
        )
    return chosen


async def _chosen(
    server: Server, nodes: list[Found], wanted: int | str | None, seen: set[str]
) -> AsyncIterator[Found]:
    for found in nodes:
        is_meant = _is_meant(found, wanted)
        if is_meant:
            yield found
        child = found.node.sub_dispatch_id
        # A number counts in its own dispatch. A redispatch may lead two nodes to one dispatch.
        if child is not None and child not in seen and (is_meant or isinstance(wanted, str)):
            seen.add(child)
            below = _labelled(await server.dispatch(child), f"{found.label}/")
            async for inner in _chosen(server, below, None if is_meant else wanted, seen):
                yield inner


async def describe(server: Server, nodes: Iterable[Found]) -> list[NodeInfo]:
    """What the server knows of each node."""
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def ask(found: Found) -> NodeInfo:
        async with at_once:
            return await server.node(*found.key)

    return list(await asyncio.gather(*(ask(found) for found in nodes)))


def _labelled(dispatch: DispatchInfo, before: str) -> list[Found]:
    """The nodes of a dispatch by names that tell them apart."""
    names = Counter(node.name for node in dispatch.nodes)
    return [
        Found(
            dispatch.dispatch_id,
            node,
            before
            + node.name.removeprefix(SUBLATTICE)
            + (f"#{node.node_id}" if names[node.name] > 1 else ""),
        )
        for node in dispatch.nodes
    ]


def _is_meant(found: Found, wanted: int | str | None) -> bool:
    if wanted is None:
        return not found.node.name.startswith(_PARAMETER)
    if isinstance(wanted, int):
        return found.node.node_id == wanted
    names = (found.node.name.removeprefix(SUBLATTICE), found.node.name, found.label)
    return any(name == wanted or fnmatchcase(name, wanted) for name in names)
