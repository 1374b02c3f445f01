# SPDX-License-Identifier: Apache-2.0
"""The source of executors that only implement ``poll_file``: the batched long poll made of single polls."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol

from covalent_joblog_plugin.model.errors import TransportError
from covalent_joblog_plugin.model.records import Delta
from covalent_joblog_plugin.model.source import FAIR_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalent_joblog_plugin.model.records import FileStat, ReadRequest

AT_ONCE = 8
"""Polls under way at the same time."""


class Pollable(Protocol):
    """The hooks of an executor that this source is made of."""

    async def poll_file(self, path: str, pos: int, size: int = -1) -> bytes:
        """Return bytes of ``path`` from ``pos``, at most ``size``; ``b""`` when nothing is new yet."""

    async def stat_file(self, path: str) -> FileStat | None:
        """Return size and identity; None where the file is missing or the author cannot tell."""


class PollSource:
    """Polls every file once a round; a round every ``interval`` seconds, at once while text is waiting."""

    def __init__(self, hooks: Pollable, interval: float) -> None:
        self._hooks = hooks
        self._interval = interval
        self._next_round = 0.0
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def read_deltas(
        self, requests: Sequence[ReadRequest], wait: float, max_bytes: int
    ) -> Sequence[Delta]:
        """See ``DeltaSource``."""
        share = min(max_bytes, max(FAIR_BYTES, max_bytes // max(1, len(requests))))
        deadline = time.monotonic() + wait
        while True:
            if wait:
                await asyncio.sleep(max(0.0, min(self._next_round, deadline) - time.monotonic()))
            deltas = await asyncio.gather(*(self._poll(request, share) for request in requests))
            hurry = any(len(delta.data) >= share for delta in deltas)
            self._next_round = time.monotonic() + (0.0 if hurry else self._interval)
            if any(delta.data or delta.problem for delta in deltas) or time.monotonic() >= deadline:
                return deltas

    async def close(self) -> None:
        """Nothing is held open."""

    async def _poll(self, request: ReadRequest, share: int) -> Delta:
        size = share if request.size < 0 else min(share, request.size)
        hook = "poll_file"
        async with self._slots:
            try:
                data = await self._hooks.poll_file(request.path, request.pos, size)
                hook = "stat_file"
                stat = await self._hooks.stat_file(request.path)
            except FileNotFoundError:
                data, stat = b"", None
            except (TransportError, asyncio.CancelledError):
                raise
            except Exception as error:  # noqa: BLE001 - the author's code; one file's fault is not another's
                return _problem(request, f"{hook} raised {error!r}")
        if isinstance(data, (bytearray, memoryview)):
            data = bytes(data)
        if not isinstance(data, bytes):
            kind = type(data).__name__
            return _problem(
                request, f"TypeError: poll_file must return bytes, not {kind}: text cannot be exact"
            )
        if size >= 0 and len(data) > size:
            data = data[:size]
        known = (stat.size, stat.identity) if stat else (None, None)
        return Delta(request.path, request.pos, data, time.time(), *known)


def _problem(request: ReadRequest, text: str) -> Delta:
    return Delta(request.path, request.pos, b"", time.time(), problem=text)
