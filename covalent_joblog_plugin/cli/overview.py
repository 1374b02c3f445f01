# SPDX-License-Identifier: Apache-2.0
"""The nodes that a command is about, with all that is known of each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalent_joblog_plugin.reading.address import server_address
from covalent_joblog_plugin.reading.client import Server
from covalent_joblog_plugin.reading.record import NodeRecord, records
from covalent_joblog_plugin.reading.sources import SUBLATTICE, describe, find_dispatch, find_nodes

from .places import Place, place_of

if TYPE_CHECKING:
    from covalent_joblog_plugin.reading.answers import NodeInfo

_NOTHING = NodeRecord(None, None, {}, "")
_HELPER = ":"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node.

    Attributes:
        label: What it is called among the others.
        info: What the server knows of it and its output.
        record: What Covalent keeps of it.
        place: Where its job is.
    """

    label: str
    info: NodeInfo
    record: NodeRecord
    place: Place

    @property
    def is_helper(self) -> bool:
        """Whether Covalent made it and nothing is to be said of it."""
        info = self.info
        return is_helper(info.name) and info.status != "FAILED" and not any(file.size for file in info.files)


def is_helper(name: str) -> bool:
    """Whether it is the name of a node that Covalent makes of lists, dicts and the like."""
    return name.startswith(_HELPER) and not name.startswith(SUBLATTICE)


async def look(dispatch: str | None, node: int | str | None, server: str | None) -> list[NodeView]:
    """The nodes that are meant; all of them but silent helper nodes where no node is given.

    Raises:
        BadSelection: What is asked for has no meaning.
        OutputNotFound: There is no such dispatch or node.
        TransportError: The server does not answer.
    """
    async with Server(server_address(server)) as asked:
        found = await find_nodes(asked, await find_dispatch(asked, dispatch), node)
        infos = await describe(asked, found)
        dispatches = list(dict.fromkeys(info.dispatch_id for info in infos))
        known = await asyncio.gather(*(records(asked, dispatch_id) for dispatch_id in dispatches))
    of_dispatch = dict(zip(dispatches, known, strict=True))
    views = []
    for one, info in zip(found, infos, strict=True):
        record = of_dispatch[info.dispatch_id].get(info.node_id, _NOTHING)
        views.append(NodeView(one.label, info, record, place_of(info, record.options)))
    return [view for view in views if node is not None or not view.is_helper]
