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

from .answers import ENDED, NOT_STARTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .answers import DispatchInfo, NodeInfo, NodeName, OutputFile
    from .client import Server

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_BEGUN = re.compile(r"[0-9a-f-]{1,36}", re.ASCII)
SUBLATTICE = ":sublattice:"
"""How the name of a node begins that stands for a dispatch of its own."""
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
        what = f"output {self.file!r}" if self.file is not None else f"{self.stream} of rank {self.rank}"
        text = f"node {node.node_id} ({node.name}) of {node.dispatch_id} has no {what}"
        if node.growing:
            return OutputNotYet(f"{text} yet; it has {', '.join(exists)}; follow it, or ask again later")
        return OutputNotFound(f"{text}; it has {', '.join(exists)}", exists)

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
    """The nodes that are meant, those inside sublattices too, each once.

    Args:
        server: Whom to ask.
        dispatch_id: The dispatch.
        node: A number, an electron's name, or a pattern of names (``train*``); None for all.

    Raises:
        OutputNotFound: There is no such dispatch or node.
    """
    dispatch = await server.dispatch(dispatch_id)
    named = _labelled(dispatch, "")
    chosen = [found for found in named if _is_meant(found.node, node)]
    if not chosen:
        exists = [f"{found.node.node_id} ({found.node.name})" for found in named]
        raise OutputNotFound(
            f"dispatch {dispatch_id} has no node {node!r}; there is {', '.join(exists[:_NAMED])}", exists
        )
    return await _with_children(server, chosen, {dispatch_id})


async def _with_children(server: Server, nodes: list[Found], seen: set[str]) -> list[Found]:
    found = []
    for node in nodes:
        found.append(node)
        child = node.node.sub_dispatch_id
        # A redispatch may lead two nodes to one dispatch.
        if child is not None and child not in seen:
            seen.add(child)
            below = _labelled(await server.dispatch(child), f"{node.label}/")
            found += await _with_children(server, below, seen)
    return found


async def describe(server: Server, nodes: Iterable[Found]) -> list[NodeInfo]:
    """What the server knows of each node."""
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def ask(found: Found) -> NodeInfo:
        async with at_once:
            return await server.node(*found.key)

    return list(await asyncio.gather(*(ask(found) for found in nodes)))


def is_over(dispatch: DispatchInfo) -> bool:
    """Whether nothing will change in a dispatch any more."""
    return dispatch.status in ENDED


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


def _is_meant(node: NodeName, wanted: int | str | None) -> bool:
    if wanted is None:
        return True
    if isinstance(wanted, int):
        return node.node_id == wanted
    return fnmatchcase(node.name, wanted) or fnmatchcase(node.name.removeprefix(SUBLATTICE), wanted)
