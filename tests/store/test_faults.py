# SPDX-License-Identifier: Apache-2.0
"""Any order of appends, seams and refusals: every byte once, every seam at its place."""

import json
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from covalent_joblog_plugin.model.records import Seam, SeamKind
from covalent_joblog_plugin.store import batch, growing_file
from covalent_joblog_plugin.store.items import Append, SeamAt
from covalent_joblog_plugin.store.node_output import NodeOutput
from covalent_joblog_plugin.store.outputs import TextOutput
from covalent_joblog_plugin.store.state import NodeState
from tests.store.bytes_strategies import job_bytes, shown
from tests.store.test_outputs import FailingDisk, no_space

NAMES = ("stdout", "stderr", "rank1.stdout")


def unopened_node(folder, limit=1 << 20):
    """A node without a row in any database: everything but the sizes works."""
    node = NodeOutput("dispatch", 0, "task", folder, 0)
    for name in ("stdout", "stderr"):
        node.add(name, TextOutput(name, folder / f"{name}.log", folder, limit))
    return node


def index_of(folder):
    return [json.loads(line) for line in (folder / "index.jsonl").read_bytes().splitlines()]


_items = st.lists(
    st.tuples(st.sampled_from(NAMES), st.one_of(job_bytes, st.just(None))), min_size=1, max_size=10
)
_refusals = st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=4)


def store_all(node, disk, items, refusals):
    """Hand in ``items`` as the monitor does: what was not taken comes again, in order, until all is in."""
    waiting = list(items)
    for room in [*refusals, None]:
        disk.room, disk.error = room, no_space()
        given_ = [(node, item) for item in waiting]
        again, behind = [], set()
        for (_, item), taken in zip(given_, batch._write(given_), strict=True):
            if isinstance(item, SeamAt):
                if item.file in behind:
                    again.append(item)
            elif taken < len(item.data) or item.file in behind:
                behind.add(item.file)
                again.append(Append(item.file, item.data[taken:], item.execution, item.arrival))
        waiting = again
    disk.room = None
    assert waiting == []


@settings(max_examples=200, deadline=None)
@given(_items, _refusals)
def test_every_byte_once_and_every_seam_at_its_place(steps, refusals):
    disk = FailingDisk()
    items, whole, parts, seams = [], {}, {}, []
    for at, (name, data) in enumerate(steps):
        if data is None:
            items.append(SeamAt(name, Seam(SeamKind.LOST, f"seam {at}")))
            seams.append((name, f"seam {at}", len(whole.setdefault(name, b""))))
            parts.setdefault(name, [b""]).append(b"")
        else:
            items.append(Append(name, data, 0, 100.0 + at))
            whole[name] = whole.get(name, b"") + data
            parts.setdefault(name, [b""])[-1] += data
    with tempfile.TemporaryDirectory() as made, mock.patch.object(growing_file.os, "pwrite", disk.pwrite):
        folder = Path(made)
        node = unopened_node(folder)
        store_all(node, disk, items, refusals)
        node._finish()
        for name, source in whole.items():
            assert node.snapshot(name).view.read(0, 1 << 20) == source
            if name in ("stdout", "stderr"):
                assert (folder / f"{name}.log").read_bytes() == b"".join(map(shown, parts[name]))
        lines = index_of(folder)
        kept = [
            (line["file"], line["message"], line["cursor"]) for line in lines if line.get("seam") == "lost"
        ]
        assert sorted(kept) == sorted(seams)
        for name in NAMES:
            own = [line for line in lines if line["file"] == name]
            assert [line["cursor"] for line in own] == sorted(line["cursor"] for line in own)
            pauses = [line["seam"] for line in own if line.get("seam") in ("paused", "resumed")]
            assert pauses == ["paused", "resumed"] * (len(pauses) // 2)


def test_an_interrupt_during_a_slow_write_does_not_wait_for_it(tmp_path):
    """The write ends as a whole and marks the output itself."""
    node = unopened_node(tmp_path)
    writing, go_on = threading.Event(), threading.Event()
    pwrite = growing_file.os.pwrite

    def slow(*args):
        writing.set()
        assert go_on.wait(10)
        return pwrite(*args)

    item = Append("stdout", b"x" * (3 << 20), 0, 1.0)
    taken = []
    with mock.patch.object(growing_file.os, "pwrite", slow):
        writer = threading.Thread(target=lambda: taken.extend(batch._write([(node, item)])))
        writer.start()
        assert writing.wait(10)
        began = time.perf_counter()
        node.interrupt()
        assert time.perf_counter() - began < 0.5  # waiting for the write would be seconds
        go_on.set()
        writer.join(10)
    assert taken == [1 << 20]
    assert node.state is NodeState.INTERRUPTED
    ends = {line["file"]: line["cursor"] for line in index_of(tmp_path) if line.get("seam") == "interrupted"}
    assert ends == {"stdout": 1 << 20, "stderr": 0}
    assert json.loads((tmp_path / "state.json").read_bytes())["state"] == "interrupted"
