# SPDX-License-Identifier: Apache-2.0
"""Reads files of a login node: through a reader that stays, or by one command a tick.

A site that kills what stays on its login node gets the second way: after two readers were killed within ten
minutes, for the next ten.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from .reader_channel import ReaderChannel, ReaderEndedError
from .reader_exec import ReaderExec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalent_joblog_plugin.model.records import Delta, ReadRequest

    from .shell import Shell

log = logging.getLogger(__name__)

ReaderMode = Literal["auto", "channel", "exec"]

KILLS = 2
REMEMBER = 600.0
"""Seconds for which a killed reader is remembered, and for which nothing stays after two of them."""
OUTPUT, MARKERS = 0, 1
"""Slots: what the monitor reads, and the jobs' marker files."""
FIRST_FREE_SLOT = 2


class ReaderSource:
    """A ``DeltaSource`` over a Shell, with further conversations beside the monitor's.

    Args:
        shell: The way to the login node.
        mode: ``"channel"`` and ``"exec"`` choose a way for good; ``"auto"`` as the module says.
        interval: Seconds between two ticks of the second way.
    """

    def __init__(self, shell: Shell, mode: ReaderMode = "auto", interval: float = 5.0) -> None:
        self._shell = shell
        self._mode = mode
        self._exec = ReaderExec(shell, interval)
        self._channel: ReaderChannel | None = None
        self._opening: asyncio.Task[None] | None = None
        self._kills: list[float] = []
        self._last_death: ReaderEndedError | None = None
        self._slots = FIRST_FREE_SLOT
        self._free_slots: list[int] = []

    async def read_deltas(
        self, requests: Sequence[ReadRequest], wait: float, max_bytes: int
    ) -> Sequence[Delta]:
        """See ``DeltaSource``."""
        return await self.ask(OUTPUT, requests, wait, max_bytes)

    async def ask(
        self,
        slot: int,
        requests: Sequence[ReadRequest],
        wait: float,
        max_bytes: int,
        pace: dict[str, float] | None = None,
    ) -> list[Delta]:
        """``read_deltas`` in a conversation of its own.

        Args:
            slot: Which conversation; one request at a time in each.
            requests: As in ``read_deltas``.
            wait: As in ``read_deltas``.
            max_bytes: As in ``read_deltas``.
            pace: Longest time in seconds between two looks at a path; others are looked at seldom when they
                rest.

        Raises:
            TransportError: As in ``read_deltas``.
        """
        while not self._stays_out():
            try:
                channel = await self._open()
                return await channel.ask(slot, requests, wait, max_bytes, pace)
            except ReaderEndedError as error:
                if not error.renewed:
                    self._killed(error)
        return await self._exec.ask(requests, wait, max_bytes)

    @contextmanager
    def slot(self) -> Iterator[int]:
        """A conversation of one's own for a while."""
        if not self._free_slots:
            self._free_slots.append(self._slots)
            self._slots += 1
        slot = self._free_slots.pop()
        try:
            yield slot
        finally:
            self._free_slots.append(slot)

    def expect_news(self, paths: set[str]) -> None:
        """Somebody will soon write to these files, which the monitor reads."""
        if self._channel is not None:
            self._channel.expect_news(OUTPUT, paths)

    @property
    def by_channel(self) -> bool:
        """Whether a reader stays on the login node."""
        return not self._stays_out()

    async def close(self) -> None:
        """See ``DeltaSource``; the shell is its maker's to close."""
        await self._exec.close()
        if self._opening is not None:
            await asyncio.wait([self._opening])
            self._opening.exception()
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def _open(self) -> ReaderChannel:
        # Questions are given up all the time: the channel is opened by a task of its own, for whoever asks
        # next. A channel given up half open would keep its place on the connection.
        while self._channel is None or self._channel.ended:
            if self._opening is None:
                self._opening = asyncio.create_task(self._reopen(), name="joblog open reader")
            opening = self._opening
            await asyncio.wait([opening])
            if self._opening is opening:
                self._opening = None
            opening.result()
        return self._channel

    async def _reopen(self) -> None:
        if self._channel is not None:
            await self._channel.close()
        self._channel = await ReaderChannel.open(self._shell)

    def _killed(self, error: ReaderEndedError) -> None:
        if error is self._last_death:
            return  # one death ends all conversations
        self._last_death = error
        self._kills.append(time.monotonic())
        log.info("the reader on the login node was ended: %s", error)
        if self._mode == "channel" and len(self._kills) >= KILLS:
            self._kills.clear()
            raise error
        if self._stays_out():
            log.warning(
                "what stays on the login node is ended there; reading by one command a tick for %g minutes",
                REMEMBER / 60,
            )

    def _stays_out(self) -> bool:
        if self._mode != "auto":
            return self._mode == "exec"
        now = time.monotonic()
        self._kills = [at for at in self._kills if now - at < REMEMBER]
        return len(self._kills) >= KILLS
