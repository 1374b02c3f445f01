# SPDX-License-Identifier: Apache-2.0
"""Ends the connection of a client that does not read, for a server that wants to stop.

The web server closes a connection when what it has buffered is sent, and waits for that before it stops: for
ever, if the client is a pager somebody left open. Nothing in the interface between server and application
ends one earlier, so the socket is found by its peer.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from sse_starlette.sse import AppStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DOWNLOAD_PATIENCE = 5.0
"""Seconds that a download has, when the server stops, to be finished; it can be gone on with by a range."""
_LOOK_EVERY = 0.5


def hang_up(client: tuple[str, int]) -> None:
    """End the connection with ``client`` (address and port) at once; what is not sent is dropped."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers, not paths
        with suppress(OSError):  # closed meanwhile, or not connected
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as connection:
                    if connection.family in (socket.AF_INET, socket.AF_INET6):
                        peer = connection.getpeername()
                        if peer[:2] == tuple(client):
                            connection.shutdown(socket.SHUT_RDWR)


@asynccontextmanager
async def ended_with_the_server(client: tuple[str, int] | None) -> AsyncIterator[None]:
    """Hang up on ``client`` if the server stops and the body takes ``DOWNLOAD_PATIENCE`` seconds more."""
    watching = asyncio.ensure_future(_watch(client)) if client else None
    try:
        yield
    finally:
        if watching:
            watching.cancel()


async def _watch(client: tuple[str, int]) -> None:
    while not AppStatus.should_exit:  # noqa: ASYNC110 - a flag, and nothing rings when it is set
        await asyncio.sleep(_LOOK_EVERY)
    await asyncio.sleep(DOWNLOAD_PATIENCE)
    hang_up(client)
