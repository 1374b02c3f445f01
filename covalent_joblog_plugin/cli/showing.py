# SPDX-License-Identifier: Apache-2.0
"""``joblog logs`` without ``-f``: what there is now."""

from __future__ import annotations

import sys
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from covalent_joblog_plugin.reading.client import Server
from covalent_joblog_plugin.reading.explaining import why_nothing
from covalent_joblog_plugin.reading.record import records

from . import console, status
from .followed import failures
from .places import place_of
from .screen import Screen

if TYPE_CHECKING:
    from covalent_joblog_plugin.reading.evaluation import Evaluation

    from .lines import StyleMaker


async def show(evaluation: Evaluation, style: StyleMaker) -> None:
    """Write the lines to stdout, and to stderr what is to be said about them.

    Args:
        evaluation: What there is.
        style: How its lines are written.

    Raises:
        JobLogError: The output cannot be read.
        BrokenPipeError: Nobody reads the text any more.
    """
    screen, total, lines = Screen(), 0, style(evaluation.of_one_node)
    last: float | None = None
    async with aclosing(evaluation.read(judge=lines.judges)) as batches:
        async for batch in batches:
            total += screen.show(batch, lines)
            last = max((shown.item.time or 0 for shown in batch), default=0) or last
    if not total:
        console.event(why_nothing(evaluation))
    await _say_how_it_stands(evaluation, last)


async def _say_how_it_stands(evaluation: Evaluation, last: float | None) -> None:
    """Why nodes failed; and on a terminal, of one that goes on, how fresh the text is and whence it comes."""
    nodes = evaluation.nodes
    async with Server(evaluation.question.address) as server:
        for said in (await failures(server, nodes)).values():
            console.event(said, bad=True)
        if len(nodes) == 1 and nodes[0].growing and console.is_terminal(sys.stderr):
            record = (await records(server, nodes[0].dispatch_id)).get(nodes[0].node_id)
            place = place_of(nodes[0], record.options if record else {})
            outputs = evaluation.question.outputs
            console.event(f"{status.of_node(nodes[0], place, outputs, last, time.time())} · -f goes on")


async def show_raw(evaluation: Evaluation) -> None:
    """Write the bytes of the one output; raises as ``show`` does."""
    async with aclosing(evaluation.raw()) as pieces:
        async for piece in pieces:
            console.write_bytes(piece)
