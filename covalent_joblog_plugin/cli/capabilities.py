# SPDX-License-Identifier: Apache-2.0
"""``joblog capabilities``."""

from __future__ import annotations

import asyncio

import click

from . import choosing, tables

_HEADS = ("NODE", "NAME", "CAN", "ANSWER", "WHY")


@click.command()
@choosing.dispatch_argument
@choosing.node_argument
@tables.form_option
@choosing.server_option
def capabilities(dispatch: str | None, node: int | str | None, form: str, server: str | None) -> None:
    """Say what can be done with the output of nodes, and why not.

    read: it can be read. follow: it grows while the job runs. retained: it stays when the cluster has
    forgotten the job. split_streams: stdout and stderr are apart. truncation: a truncated or replaced file
    is noticed. complete: count and hash prove at the end that nothing is missing.
    """
    from .overview import look

    views = asyncio.run(look(dispatch, node, server))
    values = [
        {
            "dispatch_id": view.info.dispatch_id,
            "node_id": view.info.node_id,
            "node": view.label,
            "capabilities": view.info.capabilities.to_json(),
        }
        for view in views
    ]
    rows = [
        [str(view.info.node_id), view.label, name, can.answer.value, can.reason]
        for view in views
        for name, can in view.info.capabilities.items()
    ]
    tables.show(form, values, _HEADS, rows)
