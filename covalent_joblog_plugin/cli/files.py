# SPDX-License-Identifier: Apache-2.0
"""``joblog files``."""

from __future__ import annotations

import asyncio

import click

from . import choosing, tables

_HEADS = ("NODE", "NAME", "STREAM", "RANK", "SIZE", "FILE")


@click.command()
@choosing.dispatch_argument
@choosing.node_argument
@tables.form_option
@choosing.server_option
def files(dispatch: str | None, node: int | str | None, form: str, server: str | None) -> None:
    """List the outputs of nodes, by the names that --file takes."""
    from .overview import look
    from .wording import size

    views = asyncio.run(look(dispatch, node, server))
    found = [(view, file) for view in views for file in view.info.files]
    values = [
        {
            "dispatch_id": view.info.dispatch_id,
            "node_id": view.info.node_id,
            "node": view.label,
            "file": file.name,
            "stream": file.stream,
            "rank": file.rank,
            "size": file.size,
        }
        for view, file in found
    ]
    rows = [
        [
            str(view.info.node_id),
            view.label,
            file.stream or "-",
            "-" if file.rank is None else str(file.rank),
            size(file.size),
            file.name,
        ]
        for view, file in found
    ]
    tables.show(form, values, _HEADS, rows)
