# SPDX-License-Identifier: Apache-2.0
"""Many items of many nodes as one job of the writer's thread."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import StoreError

from .items import Append, SeamAt
from .threads import in_writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .node_output import NodeOutput

log = logging.getLogger("covalent_joblog_plugin")


async def write(batch: Sequence[tuple[NodeOutput, Append | SeamAt]]) -> list[int]:
    """Store a batch, in order.

    An append of which not everything could be taken stops its file: the later items of that file in the
    batch are not stored and count 0. Why is in ``NodeOutput.trouble``; nothing is raised for an item.
    Bytes held back until their character is finished count as taken. Cancelled, it has stored the whole
    batch or nothing of it, and which is not known: cancel it only where nothing more will be written.

    Returns:
        For each item the source bytes taken; 0 for a seam.
    """
    return await in_writer(_write, list(batch))


def _write(batch: list[tuple[NodeOutput, Append | SeamAt]]) -> list[int]:
    taken: list[int] = []
    stopped: set[tuple[NodeOutput, str]] = set()
    for node, item in batch:
        if (node, item.file) in stopped:
            taken.append(0)
            continue
        try:
            taken.append(node.take(item))
        except Exception as error:
            # A fault of ours in one output must not stop all others'; how much was stored is not known, so
            # that going on could double it.
            log.exception("%r of %s is not stored any more", item.file, node)
            node.given_up[item.file] = StoreError(f"{item.file!r} of {node} cannot be stored: {error!r}")
            taken.append(0)
        if isinstance(item, Append) and taken[-1] < len(item.data):
            stopped.add((node, item.file))
    for node in {node for node, _ in batch}:
        node.flush()
    return taken
