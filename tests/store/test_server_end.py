# SPDX-License-Identifier: Apache-2.0
"""The server stops, ends or dies while a job writes: what is stored is a readable prefix, known as such."""

import os

import pytest

from tests.rigs.covalent_server import eventually
from tests.store.scripts import answer_of, dispatch, index_of, results

UNIT = "é€😀 line\n".encode()

STREAMING = f"""
async def run(output, say):
    await output.remember({{"job": "12"}})
    n = 0
    while True:
        at = n * 7919 % 200_000
        block = {UNIT!r} * (20_000 if n < 10 else 500)
        await say(block[:at])
        await say(block[at:])
        n += 1
        await asyncio.sleep(0.002)
"""

STATE = """
async def run(output, say):
    return [await node_state({dispatch_id!r}, 0), await node_status({dispatch_id!r}, 0)]
"""


def streaming(server):
    """A dispatch in the middle of writing; at least 2 MB are stored."""
    dispatch_id = dispatch(server, STREAMING, max_node_bytes=1 << 31, min_free=0)
    asset = server.results_dir / dispatch_id / "node_0" / "stdout.log"
    eventually(lambda: asset.exists() and asset.stat().st_size > 2_000_000, 30, "text")
    return dispatch_id, asset


def starts_the_text(body):
    return (UNIT * (len(body) // len(UNIT) + 1)).startswith(body)


def state_of(server, dispatch_id):
    asking = dispatch(server, STATE.format(dispatch_id=dispatch_id))
    server.completed(asking)
    return answer_of(server, asking)


@pytest.mark.parametrize("end", ["stop", "term", "kill"])
def test_after_any_end_the_text_is_a_readable_prefix_and_the_node_known_as_left(fresh_covalent_server, end):
    server = fresh_covalent_server
    dispatch_id, asset = streaming(server)
    getattr(server, end)()
    server.start()
    body = server.stdout(dispatch_id, 0)
    assert len(body) > 2_000_000
    assert starts_the_text(body)
    body.decode()
    assert 0 <= asset.stat().st_size - len(body) <= 3
    (node,) = results(server, dispatch_id, wait=False)
    assert node["stdout"].encode() == body
    assert state_of(server, dispatch_id) == ["orphaned", "RUNNING"]
    assert server.stdout(dispatch_id, 0) == body
    if end == "stop":
        ends = {
            line["file"]: line["cursor"]
            for line in index_of(asset.parent)
            if line.get("seam") == "interrupted"
        }
        assert ends == {"stdout": len(body), "stderr": 0}


def test_a_killed_servers_half_character_is_not_served(fresh_covalent_server):
    """A kill inside a write can leave one; it is put there by hand, because no kill can be aimed so well."""
    server = fresh_covalent_server
    dispatch_id, asset = streaming(server)
    server.kill()
    whole = UNIT * 1000
    for extra in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9):
        os.truncate(asset, 0)
        asset.write_bytes(whole + UNIT[:extra])
        if extra == 0:
            server.start()
        body = server.stdout(dispatch_id, 0)
        assert body == whole + UNIT[: {0: 0, 1: 0, 2: 2, 3: 2, 4: 2, 5: 5, 6: 5, 7: 5, 8: 5, 9: 9}[extra]]
    (node,) = results(server, dispatch_id, wait=False)
    assert node["stdout"].encode() == whole + UNIT[:9]


CONTINUING = f"""
async def run(output, say):
    other = await NodeOutput.open({{dispatch_id!r}}, 0, max_node_bytes=1 << 31, min_free=0)
    at = other.snapshot("stdout").view.total
    item = Append("stdout", ({UNIT!r} * 100_000)[at:], 0, time.time())
    taken = await write([(other, item)])
    await other.close()
    return [at, taken == [len(item.data)], await node_state({{dispatch_id!r}}, 0)]
"""


def test_a_later_server_can_go_on_where_the_killed_one_was(fresh_covalent_server):
    server = fresh_covalent_server
    dispatch_id, asset = streaming(server)
    server.kill()
    os.truncate(asset, 100_001)
    server.start()
    whole = UNIT * 100_000
    going_on = dispatch(server, CONTINUING.format(dispatch_id=dispatch_id))
    server.completed(going_on)
    at, complete, state = answer_of(server, going_on)
    assert 0 <= 100_001 - at <= 3
    assert complete
    assert state == "closed"
    assert server.stdout(dispatch_id, 0) == whole


def test_interrupting_is_quick_and_final(covalent_server):
    script = """
async def run(output, say):
    await say("half \\u20ac".encode()[:-1])
    await say(b"x", "rank1.stdout")
    began = time.perf_counter()
    output.interrupt()
    took = time.perf_counter() - began
    refused = await write([(output, Append("stdout", b"late", 0, time.time()))])
    length = output.snapshot("stdout").view.total
    return [took, refused, str(output.trouble), length, str(output.folder.parent)]
"""
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    took, refused, trouble, length, folder = answer_of(covalent_server, dispatch_id)
    assert took < 0.5  # waiting for disk or database would be seconds
    assert refused == [0]
    assert "is interrupted" in trouble
    assert length == 5
    assert covalent_server.stdout(dispatch_id, 0) == b"half "
    node = covalent_server.results_dir / dispatch_id / "node_0"
    assert str(node) == folder
    ends = {line["file"]: line["cursor"] for line in index_of(node) if line.get("seam") == "interrupted"}
    assert ends == {"stdout": 5, "stderr": 0, "rank1.stdout": 1}
