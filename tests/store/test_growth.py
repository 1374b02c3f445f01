# SPDX-License-Identifier: Apache-2.0
"""Readers while text grows fast: every read is an exact prefix that decodes."""

import hashlib
import threading

from tests.rigs.covalent_server import eventually
from tests.store.scripts import dispatch

LINE = "多字节文本 naïve 😀 ✓ überall\n".encode()
BLOCK = LINE * 2000
BLOCKS = 900

GROWING = f"""
async def run(output, say):
    block = {LINE!r} * 2000
    began = time.monotonic()
    for n in range({BLOCKS}):
        # Cut inside characters on purpose: the store must hold the halves back.
        at = 7 + n * 13 % 5000
        await say(block[:at])
        await say(block[at:])
        await asyncio.sleep(max(0, began + (n + 1) * len(block) / 30e6 - time.monotonic()))
    return time.monotonic() - began
"""


class Expected:
    """The whole text, as an endless repetition of one block."""

    def __init__(self, block):
        self._twice = block * 2
        self._size = len(block)

    def starts_with(self, data):
        whole, rest = divmod(len(data), self._size)
        view = memoryview(data)
        block = self._twice[: self._size]
        same = all(view[n * self._size : (n + 1) * self._size] == block for n in range(whole))
        return same and view[whole * self._size :] == block[:rest]


def read_while_growing(server, dispatch_id, stop, seen):
    """Downloads until ``stop``; what was wrong with each, and how long it was."""
    expected = Expected(BLOCK)
    path = f"/api/v0/files/{dispatch_id}/node_0/stdout.log"
    while not stop.is_set():
        response = server.get(path)
        promised = int(response.headers["content-length"])
        exact = promised == len(response.body) and expected.starts_with(response.body)
        response.body.decode()
        seen.append((len(response.body), exact))


def test_every_read_at_30_megabytes_a_second_is_an_exact_prefix(covalent_server):
    dispatch_id = dispatch(covalent_server, GROWING, max_node_bytes=1 << 30)
    asset = covalent_server.results_dir / dispatch_id / "node_0" / "stdout.log"
    eventually(lambda: asset.exists() and asset.stat().st_size, 20, "the first bytes")
    stop, seen = threading.Event(), []
    readers = [
        threading.Thread(target=read_while_growing, args=(covalent_server, dispatch_id, stop, seen))
        for _ in range(2)
    ]
    for reader in readers:
        reader.start()
    sizes = covalent_server.client(GET_RESULTS, dispatch_id=dispatch_id, times=3, line=LINE.decode())
    stop.set()
    for reader in readers:
        reader.join()
    covalent_server.completed(dispatch_id)
    assert len(seen) >= 4
    assert all(exact for _, exact in seen), seen
    assert len({size for size, _ in seen}) > 2
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 1
    body = covalent_server.stdout(dispatch_id, 0)
    assert hashlib.sha256(body).hexdigest() == hashlib.sha256(BLOCK * BLOCKS).hexdigest()


GET_RESULTS = """
import covalent as ct
answer = []
for _ in range(times):
    text = ct.get_result(dispatch_id, wait=False).get_node_result(0)["stdout"]
    assert (line * (len(text) // len(line) + 1)).startswith(text)
    answer.append(len(text))
"""
