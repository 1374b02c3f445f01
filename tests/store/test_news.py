# SPDX-License-Identifier: Apache-2.0
"""Bells: whoever follows a node hears of everything new, and nobody waits for a follower."""

import asyncio
import threading
import time

from covalent_joblog_plugin.store import news
from covalent_joblog_plugin.store.items import Append
from covalent_joblog_plugin.store.node_output import NodeOutput, write
from tests.monitor.nodes import end, make_node

NODE = ("d", 0)


async def heard(bell, timeout=5.0):
    """Whether it rang, and did so before the time was over."""
    began = time.monotonic()
    await bell.wait(timeout)
    return time.monotonic() - began < timeout


async def test_it_rings_for_its_node_alone_and_once_for_many_news():
    with news.bell(NODE) as mine, news.bell(("d", 1)) as other:
        for _ in range(1000):
            news.tell(NODE)
        assert await heard(mine)
        assert not await heard(mine, 0.05)
        assert not await heard(other, 0.05)


async def test_every_follower_of_a_node_hears_it_and_is_forgotten_afterwards():
    with news.bell(NODE) as one, news.bell(NODE) as two:
        threading.Thread(target=news.tell, args=[NODE]).start()
        assert await heard(one)
        assert await heard(two)
    news.tell(NODE)
    assert news._bells == {}


async def test_nothing_new_is_missed_however_the_threads_meet():
    """The last of many news, each told by another thread at any time, is always seen."""
    value = 0

    def count():
        nonlocal value
        for _ in range(20_000):
            value += 1
            news.tell(NODE)

    with news.bell(NODE) as bell:
        thread = threading.Thread(target=count)
        thread.start()
        seen = 0
        while seen < 20_000:
            assert await heard(bell), f"stuck at {seen}, {value} told"
            seen = value
        thread.join()


def test_a_bell_of_an_event_loop_that_has_ended_does_no_harm():
    async def leave_it():
        return news.Bell()

    bell = asyncio.run(leave_it())
    bell.ring()
    assert bell._rung


async def test_the_store_tells_of_what_it_stores_remembers_and_ends(tmp_path):
    node: NodeOutput = make_node(tmp_path / "d")
    with news.bell((node.dispatch_id, node.node_id)) as bell:
        await write([(node, Append("stdout", b"x", 0, 1.0))])
        assert await heard(bell)
        assert node.snapshot("stdout").view.total == 1
        await node.remember({"note": "waits"})
        assert await heard(bell)
        await end(node)
        assert await heard(bell)
        node.interrupt()
        assert await heard(bell)
