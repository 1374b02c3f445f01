# SPDX-License-Identifier: Apache-2.0
"""Our side of ``remote_reader`` where nothing may stay on the login node: one command a tick."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import TransportError

from .far_side import COMMAND, READER, FarSide
from .reader_channel import Conversation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalent_joblog_plugin.model.records import Delta, ReadRequest

    from .shell import Shell

GATHER = 0.02
"""Seconds to wait for others who want to ask in the same tick."""
TIMEOUT = 60.0


@dataclass(slots=True)
class _Ask:
    requests: Sequence[ReadRequest]
    max_bytes: int
    answer: asyncio.Future[list[Delta]]


class ReaderExec:
    """Polls with a reader that lives for one answer; those who ask in the same moment share it."""

    def __init__(self, shell: Shell, interval: float) -> None:
        self._shell = shell
        self._interval = interval
        self._waiting: list[_Ask] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, requests: Sequence[ReadRequest], wait: float, max_bytes: int) -> list[Delta]:
        """Poll at the common ticks until there is news or ``wait`` seconds are over; at once for ``wait`` 0.

        Raises:
            TransportError: The connection failed or there is no Python.
        """
        deadline = time.monotonic() + wait
        while True:
            deltas = await self._poll(requests, max_bytes)
            now = time.monotonic()
            news = [delta for delta in deltas if _is_news(delta)]
            if not wait:
                return deltas
            if news or now >= deadline:
                return news
            # Ticks are multiples of the interval, so that all who wait meet in one command.
            await asyncio.sleep(min(self._interval - now % self._interval, deadline - now))

    async def close(self) -> None:
        """End the command that runs."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _poll(self, requests: Sequence[ReadRequest], max_bytes: int) -> list[Delta]:
        ask = _Ask(requests, max_bytes, asyncio.get_running_loop().create_future())
        self._waiting.append(ask)
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run(), name="joblog one-shot reader")
        try:
            return await ask.answer
        finally:
            if ask in self._waiting:
                self._waiting.remove(ask)

    async def _run(self) -> None:
        await asyncio.sleep(GATHER)
        while self._waiting:
            asks, self._waiting = self._waiting, []
            try:
                answers = await self._exec(asks)
            except TransportError as error:
                _settle(asks, error)
                continue
            except BaseException:
                _settle(asks, TransportError("reading was stopped"))
                raise
            for ask, deltas in zip(asks, answers, strict=True):
                if not ask.answer.done():
                    ask.answer.set_result(deltas)

    async def _exec(self, asks: list[_Ask]) -> list[list[Delta]]:
        far_side = FarSide(READER)
        slots = [Conversation() for _ in asks]
        messages = [
            slot.message(number, ask.requests, 0, ask.max_bytes, {})
            for number, (slot, ask) in enumerate(zip(slots, asks, strict=True))
        ]
        stdin = far_side.opening + b"".join(json.dumps(m).encode("ascii") + b"\n" for m in messages)
        done = await self._shell.run(COMMAND, stdin, TIMEOUT)
        frames = far_side.feed(done.stdout)
        answers = {
            header["slot"]: slots[header["slot"]].deltas(header, raw, far_side.word) for header, raw in frames
        }
        if len(answers) != len(asks):
            raise TransportError(far_side.silence(done.exit_status, done.stderr))
        return [answers[number] for number in range(len(asks))]


def _settle(asks: list[_Ask], error: TransportError) -> None:
    for ask in asks:
        if not ask.answer.done():
            ask.answer.set_exception(error)


def _is_news(delta: Delta) -> bool:
    if delta.data or delta.problem:
        return True
    return delta.size is not None and delta.size < delta.pos
