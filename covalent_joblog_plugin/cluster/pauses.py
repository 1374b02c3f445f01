# SPDX-License-Identifier: Apache-2.0
"""Waiting: after failures, and for events."""

from __future__ import annotations

import asyncio
import random

LAST_BACKOFF = 60.0
"""Longest time in seconds between two attempts."""


def back_off(failures: int) -> float:
    """Seconds until the next attempt after so many failed ones before this: 1, 2, 4, … with jitter."""
    return min(LAST_BACKOFF, 2.0 ** min(failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter


async def wait_for(event: asyncio.Event, timeout: float | None) -> None:
    """Wait for an event, at most ``timeout`` seconds."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([waiting], timeout=timeout)
    finally:
        waiting.cancel()
