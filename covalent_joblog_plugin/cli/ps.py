# SPDX-License-Identifier: Apache-2.0
"""``joblog ps``."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any

import click

from . import choosing, tables

if TYPE_CHECKING:
    from covalent_joblog_plugin.model.log_line import LogLine
    from covalent_joblog_plugin.reading.answers import NodeInfo

    from .overview import NodeView

_HEADS = ("NODE", "NAME", "STATE", "ELAPSED", "LIMIT", "HOST", "SILENT", "LAST LINE, OR WHY THERE IS NONE")
_Lines = dict[tuple[str, int], "LogLine"]


@click.command()
@choosing.dispatch_argument
@choosing.node_argument
@tables.form_option
@choosing.server_option
def ps(dispatch: str | None, node: int | str | None, form: str, server: str | None) -> None:
    """List the nodes of a dispatch: their states, and why they wait.

    SILENT is how long ago the last line came.
    """
    from .overview import look

    now = time.time()
    views = asyncio.run(look(dispatch, node, server))
    last = asyncio.run(_last_lines(views, server))
    values = [_value(view, last, now) for view in views]
    tables.show(form, values, _HEADS, [_row(view, value) for view, value in zip(views, values, strict=True)])


async def _last_lines(views: list[NodeView], server: str | None) -> _Lines:
    """The newest line of each node, of its stdout and stderr."""
    from covalent_joblog_plugin.model.log_line import LogLine
    from covalent_joblog_plugin.reading.evaluation import Evaluation
    from covalent_joblog_plugin.reading.question import Question

    last: _Lines = {}
    at_once = asyncio.Semaphore(8)

    async def ask(view: NodeView) -> None:
        options: Any = {"stream": "all", "tail": 1, "server": server}
        question = Question.of(view.info.dispatch_id, view.info.node_id, options)
        async with at_once:
            async for batch in (await Evaluation.of(question)).read(judge=False):
                for shown in batch:
                    line, key = shown.item, (shown.source.dispatch_id, shown.source.node_id)
                    own = key == (view.info.dispatch_id, view.info.node_id)
                    if own and isinstance(line, LogLine) and (line.time or 0) >= _time(last.get(key)):
                        last[key] = line

    await asyncio.gather(*(ask(view) for view in views if any(file.size for file in view.info.files)))
    return last


def _time(line: LogLine | None) -> float:
    return line.time or 0.0 if line else -math.inf


def _value(view: NodeView, last: _Lines, now: float) -> dict[str, Any]:
    from covalent_joblog_plugin.text.terminal import plain

    from .status import state_of, why

    info, record = view.info, view.record
    line = last.get((info.dispatch_id, info.node_id))
    end = record.ended or (now if info.growing else None)
    return {
        "dispatch_id": info.dispatch_id,
        "node_id": info.node_id,
        "node": view.label,
        "state": state_of(info),
        "status": info.status,
        "why": why(info),
        "executor": info.executor,
        "started": record.started,
        "elapsed": end - record.started if record.started and end else None,
        "limit": limit_of(record.options),
        "host": view.place.host,
        "job": view.place.job,
        "output_age": now - line.time if line and line.time else None,
        "last_line": plain(line.text) if line else None,
    }


def _row(view: NodeView, value: dict[str, Any]) -> list[str]:
    from .wording import clock, span

    age = value["output_age"]
    return [
        str(value["node_id"]),
        value["node"],
        value["state"],
        clock(value["elapsed"]) if value["elapsed"] is not None else "-",
        value["limit"] or "-",
        value["host"] or "-",
        span(age) if age is not None else "-",
        value["why"] or value["last_line"] or _instead(view.info),
    ]


def _instead(node: NodeInfo) -> str:
    """What to say of a node that has written nothing."""
    from covalent_joblog_plugin.reading.explaining import why_no_output

    return f"it is dispatch {node.sub_dispatch_id}" if node.sub_dispatch_id else why_no_output(node)


def limit_of(options: dict[str, Any]) -> str:
    """The time limit that an executor's options set, in Slurm's or our spelling; empty for none."""
    from .wording import clock

    own = options.get("time_limit")
    if isinstance(own, int | float) and own > 0:
        return clock(own)
    asked = options.get("sbatch_options") or {}
    return str(asked.get("time") or asked.get("t") or "")
