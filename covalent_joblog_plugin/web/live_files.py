# SPDX-License-Identifier: Apache-2.0
"""``/api/v0/files`` for files that grow: served at their committed length.

Covalent's own file server takes the size from ``stat``, which sees a write while it is under way, and then
sends what the file has become meanwhile. Here the length is that of the whole pieces stored when the request
came, and the body is exactly that long. Files that do not grow, and everything else, are Covalent's; only
names that lead out of the results folder do not reach it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from covalent_joblog_plugin.store import live

from .ranges import asked_range, content_range

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

_PREFIX = "/api/v0/files/"
_CHUNK_BYTES = 256 * 1024


class LiveFiles:
    """ASGI middleware that answers GET and HEAD for growing files, and refuses names that lead outside.

    Only files the store has opened are served, found by their real path: no name in a request can lead
    anywhere else.

    Args:
        app: The application behind.
        root: Covalent's results folder, below which the names in requests are.
    """

    def __init__(self, app: App, root: str) -> None:
        self._app = app
        self._root = os.path.realpath(root)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or leave it to the application."""
        if scope["type"] == "http" and scope["path"].startswith(_PREFIX):
            name = scope["path"][len(_PREFIX) :]
            if not await anyio.to_thread.run_sync(_is_below, self._root, name):
                await _send_not_found(send)
                return
            if scope["method"] in ("GET", "HEAD"):
                path = _below(self._root, name)
                if await self._serve(path, scope, send):
                    return
                # A node's output is asked for before it exists, again and again; Covalent answers 500, with a
                # traceback in its log each time.
                if path.endswith(live.ASSETS) and not await anyio.to_thread.run_sync(os.path.exists, path):
                    await _send_not_found(send)
                    return
        await self._app(scope, receive, send)

    async def _serve(self, path: str, scope: Scope, send: Send) -> bool:
        """Send what is committed of the file, or the range asked for; False if it does not grow."""
        length = live.length(path)
        if length is None and path.endswith(live.ASSETS):
            length = await anyio.to_thread.run_sync(_torn_length, path)
        if length is None:
            return False
        try:
            descriptor = await anyio.to_thread.run_sync(_open, path)
        except OSError:
            return False
        try:
            start, end = 0, length
            status, headers = 200, []
            asked = _asked_range(scope, length)
            if asked is not None:
                start, end = asked
                status = 206 if start < end else 416
                headers.append((b"content-range", content_range(start, end, length).encode()))
            headers += [
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", str(end - start).encode()),
                (b"accept-ranges", b"bytes"),
                (b"cache-control", b"no-store"),
            ]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await _send_body(descriptor, start, end if scope["method"] == "GET" else start, send)
        finally:
            os.close(descriptor)
        return True


async def _send_body(descriptor: int, start: int, end: int, send: Send) -> None:
    while start < end:
        data = await anyio.to_thread.run_sync(os.pread, descriptor, min(_CHUNK_BYTES, end - start), start)
        if not data:
            # Shortened by somebody else; the server closes the connection of a body that is too short.
            break
        start += len(data)
        await send({"type": "http.response.body", "body": data, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_not_found(send: Send) -> None:
    body = b"no such file"
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _is_below(root: str, name: str) -> bool:
    """Whether ``name`` is that of something in the folder ``root``, links followed.

    Covalent compares the beginnings of the two paths as text, and so also serves, and overwrites, what lies
    in a neighbour whose name begins like the results folder's.
    """
    try:
        return os.path.realpath(_below(root, name)).startswith(root + os.sep)
    except ValueError:  # a NUL
        return False


def _below(root: str, name: str) -> str:
    """The path of ``name``, by text alone: one with a link in it is left to Covalent's own checks."""
    return os.path.normpath(os.path.join(root, name))  # noqa: PTH118 - Path keeps ".."


def _asked_range(scope: Scope, length: int) -> tuple[int, int] | None:
    headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    return asked_range(headers.get(b"range"), headers.get(b"if-range"), length)


def _open(path: str) -> int:
    """Open a file that is where its name says, not behind a link."""
    if os.path.realpath(path) != path:
        raise FileNotFoundError(path)
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _torn_length(path: str) -> int | None:
    try:
        return live.torn_length(path)
    except (OSError, ValueError):
        return None
