# SPDX-License-Identifier: Apache-2.0
"""``joblog where``."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from covalent_joblog_plugin.text.terminal import safe

from . import choosing, console, tables
from .places import joined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .overview import NodeView


@click.command()
@choosing.dispatch_argument
@choosing.node_argument
@tables.form_option
@choosing.server_option
def where(dispatch: str | None, node: int | str | None, form: str, server: str | None) -> None:
    """Say where the jobs of nodes and their files are, and how to look by hand.

    The commands are to be copied into a shell on this machine; none of them is run here.
    """
    from covalent_joblog_plugin.reading.address import server_address

    from .overview import look

    views = asyncio.run(look(dispatch, node, server))
    address = server_address(server)
    if form == "json":
        console.say_json(
            {
                "dispatch_id": view.info.dispatch_id,
                "node_id": view.info.node_id,
                "node": view.label,
                **asdict(view.place),
                "stored": _stored(view, address),
            }
            for view in views
        )
        return
    for number, view in enumerate(views):
        console.write(("\n" if number else "") + "".join(f"{safe(line)}\n" for line in _lines(view, address)))


def _lines(view: NodeView, address: str) -> Iterator[str]:
    from .status import state_of, why

    info, place = view.info, view.place
    said = ", ".join(part for part in (state_of(info), why(info)) if part)
    yield f"node {info.node_id} ({view.label}) of {info.dispatch_id}: {said}"
    about = {"host": place.host, "job": place.job, "folder": place.folder, **place.files}
    for name, value in about.items():
        if value:
            yield f"  {name:<8} {value}"
    for what, command in {**place.commands, **_fetching(view, address)}.items():
        yield f"  # {what}"
        yield f"  {command}"


def _fetching(view: NodeView, address: str) -> dict[str, str]:
    return {
        f"what is stored of {name}": joined(["curl", "-OJ", url])
        for name, url in _stored(view, address).items()
    }


def _stored(view: NodeView, address: str) -> dict[str, str]:
    """Output → where the server gives what it has stored of it."""
    info = view.info
    path = f"{address}/api/v1/joblog/{info.dispatch_id}/{info.node_id}/download?file="
    return {
        file.name: path + quote(file.name, safe="", errors="surrogateescape")
        for file in info.files
        if file.size
    }
