# SPDX-License-Identifier: Apache-2.0
"""One monitor for each endpoint."""

import asyncio

from covalent_joblog_plugin.monitor.hub import Hub


class Source:
    """Never has news."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def read_deltas(self, *_: object) -> list[object]:
        await asyncio.Event().wait()
        return []

    async def close(self) -> None:
        self.closed.set()


async def test_an_endpoint_is_shared_and_closed_after_its_last_node() -> None:
    hub, made = Hub(linger=0.05), []

    def make() -> Source:
        made.append(Source())
        return made[-1]

    first, second = hub.acquire("a", make), hub.acquire("a", make)
    other = hub.acquire("b", make)
    assert first is second
    assert first is not other
    assert len(made) == 2
    hub.release("a")
    hub.release("a")
    await asyncio.wait_for(made[0].closed.wait(), 5)
    assert not made[1].closed.is_set()
    await hub.stop()
    assert made[1].closed.is_set()


async def test_an_endpoint_taken_again_while_it_lingers_is_the_same() -> None:
    hub = Hub(linger=60)
    first = hub.acquire("a", Source)
    hub.release("a")
    assert hub.acquire("a", Source) is first
    hub.release("a")
    await hub.stop()


async def test_a_node_with_an_endpoint_of_its_own_leaves_nothing_behind() -> None:
    hub = Hub(linger=60)
    source = Source()
    hub.acquire("a", lambda: source)
    hub.release("a", linger=False)
    await asyncio.wait_for(source.closed.wait(), 5)
