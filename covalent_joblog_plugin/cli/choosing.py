# SPDX-License-Identifier: Apache-2.0
"""DISPATCH and NODE as every command takes them, and what a shell completes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from covalent_joblog_plugin.model.errors import JobLogError
from covalent_joblog_plugin.text.terminal import safe

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

_COMPLETED = 20
"""Dispatches that a shell is told of."""


def dispatch_argument(command: F) -> F:
    """DISPATCH: the beginning of an id, or ``latest``; left out, the newest."""
    return click.argument("dispatch", required=False, shell_complete=_dispatches)(command)


def node_argument(command: F) -> F:
    """NODE: a number, an electron's name, or a pattern of names; left out, all nodes."""
    return click.argument("node", required=False, callback=_node, shell_complete=_nodes)(command)


def server_option(command: F) -> F:
    """``--server``."""
    return click.option(
        "--server",
        metavar="URL",
        help="The Covalent server, http://host:port; else Covalent's configuration.",
    )(command)


def _node(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    """What the user wrote, as ``logs`` takes it."""
    del ctx, param
    return int(value) if value is not None and value.isascii() and value.isdigit() else value


def _dispatches(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    del param
    known = [("latest", "the newest"), *_asked(ctx, _known_dispatches, incomplete)]
    return _items(known, incomplete)


def _nodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    del param
    known = _asked(ctx, _known_nodes, ctx.params.get("dispatch"))
    return _items(known, incomplete)


def _items(known: list[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    # A shell writes them as they are, so a name that would act in a terminal has to be typed.
    return [
        CompletionItem(name, help=safe(text))
        for name, text in known
        if name.startswith(incomplete) and safe(name) == name and "\t" not in name
    ]


def _asked(ctx: click.Context, ask: Any, *about: Any) -> list[tuple[str, str]]:
    from covalent_joblog_plugin.reading.address import server_address
    from covalent_joblog_plugin.reading.blocking import wait_for

    try:
        found: list[tuple[str, str]] = wait_for(ask(server_address(ctx.params.get("server")), *about), 5)
    except (JobLogError, TimeoutError):
        # A shell that completes has no place for errors.
        return []
    return found


async def _known_dispatches(address: str, begun: str) -> list[tuple[str, str]]:
    from covalent_joblog_plugin.reading.client import Server

    async with Server(address) as server:
        ids = await server.newest_dispatches(_COMPLETED, begun)
        return [(dispatch_id, (await server.dispatch(dispatch_id)).name) for dispatch_id in ids]


async def _known_nodes(address: str, dispatch: str | None) -> list[tuple[str, str]]:
    from covalent_joblog_plugin.reading.client import Server
    from covalent_joblog_plugin.reading.sources import find_dispatch, find_nodes

    async with Server(address) as server:
        found = await find_nodes(server, await find_dispatch(server, dispatch), None)
    return [
        name
        for node in found
        for name in ((str(node.node.node_id), node.label), (node.label, node.node.status))
    ]
