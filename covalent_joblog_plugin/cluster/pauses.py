# SPDX-License-Identifier: Apache-2.0
"""Waiting: after failures, and for events."""

from __future__ import annotations

import asyncio
import random
import time

LAST_BACKOFF = 60.0
"""Longest time in seconds between two attempts."""


SUBMIT_PATIENCE = 600.0
"""Seconds a submission is tried again while the cluster does not answer."""
FIRST_ATTEMPTS = 2
"""Attempts before a cluster was ever reached: an option is then more likely wrong than the network."""


def worth_another(deadline: float, failures: int, *, reached: bool) -> bool:
    """Whether a submission that could not be made is tried again.

    Args:
        deadline: When ``SUBMIT_PATIENCE`` is over, on the monotonic clock.
        failures: Failed attempts before this one.
        reached: Whether the cluster has ever answered.
    """
    return time.monotonic() <= deadline and (reached or failures + 1 < FIRST_ATTEMPTS)


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
