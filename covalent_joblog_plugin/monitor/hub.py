# SPDX-License-Identifier: Apache-2.0
"""One monitor for each endpoint: started by the first node, shared, kept for a while after the last one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalent_joblog_plugin.model.source import DeltaSource

LINGER = 30.0
"""Seconds an endpoint is kept without a node, so that a chain of electrons shares one connection."""


@dataclass(slots=True)
class _Endpoint:
    monitor: Monitor
    loop: asyncio.AbstractEventLoop
    users: int = 0
    closing: asyncio.TimerHandle | None = None


class Hub:
    """The endpoints in use in this process."""

    def __init__(self, linger: float = LINGER) -> None:
        self._linger = linger
        self._endpoints: dict[str, _Endpoint] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    def acquire(self, key: str, make_source: Callable[[], DeltaSource]) -> Monitor:
        """Return the monitor of an endpoint, made with a new source where there is none.

        Every ``acquire`` is followed by one ``release``. ``make_source`` does no I/O.
        """
        loop = asyncio.get_running_loop()
        endpoint = self._endpoints.get(key)
        if endpoint is None or endpoint.loop is not loop:
            endpoint = self._endpoints[key] = _Endpoint(Monitor(make_source()), loop)
        if endpoint.closing is not None:
            endpoint.closing.cancel()
            endpoint.closing = None
        endpoint.users += 1
        return endpoint.monitor

    def release(self, key: str, *, linger: bool = True) -> None:
        """Give an endpoint back; the last one starts the clock that closes it."""
        endpoint = self._endpoints[key]
        endpoint.users -= 1
        if not endpoint.users:
            delay = self._linger if linger else 0.0
            endpoint.closing = endpoint.loop.call_later(delay, self._close, key)

    def _close(self, key: str) -> None:
        endpoint = self._endpoints.pop(key)
        task = endpoint.loop.create_task(endpoint.monitor.stop(), name=f"joblog stop {key}")
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def stop(self) -> None:
        """Close every endpoint now."""
        for key, endpoint in list(self._endpoints.items()):
            if endpoint.closing is not None:
                endpoint.closing.cancel()
            self._close(key)
        if self._stopping:
            await asyncio.wait(self._stopping)


hub = Hub()
"""The one of this process: Covalent's server has one event loop for everything."""
