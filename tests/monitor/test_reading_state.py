# SPDX-License-Identifier: Apache-2.0
"""How a node's sources are being read: what its readers are told of it."""

import time
from pathlib import Path

from covalent_joblog_plugin.cluster.local_files import LocalFiles
from covalent_joblog_plugin.model.errors import TransportError
from covalent_joblog_plugin.model.records import FileRef
from covalent_joblog_plugin.monitor.monitor import Monitor
from covalent_joblog_plugin.monitor.watch import Watch
from tests.monitor.nodes import make_node, text
from tests.monitor.test_monitor import GIB, until


class Failing(LocalFiles):
    """Files on a cluster that answers as long as ``away`` is false."""

    away = False

    async def read_deltas(self, requests, wait, max_bytes):  # type: ignore[no-untyped-def]
        if self.away:
            raise TransportError("connection lost")
        return await super().read_deltas(requests, min(wait, 0.1), max_bytes)


async def test_a_node_tells_which_files_feed_it_and_whether_they_answer(tmp_path: Path) -> None:
    source = Failing()
    monitor, node, log = Monitor(source), make_node(tmp_path / "n"), tmp_path / "log"
    log.write_bytes(b"text\n")
    watch = Watch(node, lambda: [str(log), FileRef("/none", stream="stdout", rank=3)], GIB)
    assert node.reading is None
    began = time.time()
    monitor.add(watch)
    assert node.reading is not None
    first = node.reading()
    assert (first.at, first.trouble, first.sources) == (None, "", {})
    await until(lambda: text(node) == b"text\n", "the text")
    known = node.reading()
    assert known.at is not None
    assert began <= known.at <= time.time()
    assert (known.trouble, known.sources) == ("", {"stdout": str(log), "rank3.stdout": "/none"})
    source.away = True
    await until(lambda: node.reading is not None and node.reading().trouble, "the trouble")
    assert "connection lost" in node.reading().trouble
    assert "not answering since" in node.reading().trouble
    source.away = False
    await until(lambda: node.reading is not None and not node.reading().trouble, "its end")
    monitor.remove(watch)
    assert node.reading is None
    await monitor.stop()
