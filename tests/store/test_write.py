# SPDX-License-Identifier: Apache-2.0
"""Batches: what is taken of each item when something fails in the middle."""

import asyncio
import errno
import json
import shutil
import time

import pytest

from covalent_joblog_plugin.model.errors import OutputGone
from covalent_joblog_plugin.model.records import Seam, SeamKind
from covalent_joblog_plugin.store import growing_file
from covalent_joblog_plugin.store.node_output import Append, NodeOutput, SeamAt, write

_DISPATCH = """
import covalent as ct
@ct.electron(executor="local")
def task(): return 1
@ct.lattice
def flow(): return task(), task()
answer = ct.dispatch(flow)()
"""


@pytest.fixture
async def nodes(covalent_server):
    """Two nodes of a real dispatch, opened in this process."""
    dispatch_id = covalent_server.client(_DISPATCH)
    covalent_server.completed(dispatch_id)
    opened = [await NodeOutput.open(dispatch_id, node, min_free=0) for node in (0, 1)]
    yield opened
    for node in opened:
        await node.close()


class Refusing:
    """Lets ``os.pwrite`` refuse while ``refuse`` (a file name's part) is in the path written."""

    def __init__(self, monkeypatch):
        self.refuse = None
        self._path = {}
        self._open, self._pwrite = growing_file.os.open, growing_file.os.pwrite
        monkeypatch.setattr(growing_file.os, "open", self.open)
        monkeypatch.setattr(growing_file.os, "pwrite", self.pwrite)

    def open(self, path, *args, **kwargs):
        descriptor = self._open(path, *args, **kwargs)
        self._path[descriptor] = str(path)
        return descriptor

    def pwrite(self, descriptor, data, at):
        if self.refuse and self.refuse in self._path[descriptor]:
            raise OSError(errno.EIO, "Input/output error")
        return self._pwrite(descriptor, data, at)


@pytest.fixture
def refusing(monkeypatch):
    return Refusing(monkeypatch)


def says(text, file="stdout"):
    return Append(file, text, 0, time.time())


def restart(file="stdout"):
    return SeamAt(file, Seam(SeamKind.RESTART, "restart 1", 1))


def index_of(node):
    return [json.loads(line) for line in (node.folder / "index.jsonl").read_bytes().splitlines()]


async def test_a_refused_append_stops_its_file_and_no_other(nodes, refusing, caplog):
    one, two = nodes
    refusing.refuse = "node_0/stdout.log"
    batch = [
        (one, says(b"a\n")),
        (one, restart()),
        (one, says(b"b\n")),
        (one, says(b"err\n", "stderr")),
        (one, restart("stderr")),
        (two, says(b"c\n")),
    ]
    assert await write(batch) == [0, 0, 0, 4, 0, 2]
    assert "Input/output error" in str(one.trouble)
    assert two.trouble is None
    assert await write(batch[:1]) == [0]
    assert caplog.text.count("is not stored") == 1
    refusing.refuse = None
    assert await write(batch[:3]) == [2, 0, 2]
    assert one.trouble is None
    assert one.snapshot("stdout").view.read(0, 100) == b"a\nb\n"
    seams = [(line["file"], line["seam"], line["cursor"]) for line in index_of(one) if "seam" in line]
    assert seams == [
        ("stdout", "paused", 0),
        ("stderr", "restart", 4),
        ("stdout", "resumed", 0),
        ("stdout", "restart", 2),
    ]


async def test_an_index_that_cannot_be_written_stops_no_text_and_catches_up(nodes, refusing):
    one, _ = nodes
    refusing.refuse = "index.jsonl"
    assert await write([(one, says(b"a\n")), (one, restart()), (one, says(b"b\n"))]) == [2, 0, 2]
    assert index_of(one) == []
    refusing.refuse = None
    assert await write([(one, says(b"c\n"))]) == [2]
    assert [line["cursor"] for line in index_of(one)][:2] == [0, 2]


async def test_a_character_held_back_across_a_refusal_is_not_lost(nodes, refusing):
    one, _ = nodes
    euro = "€".encode()
    assert await write([(one, says(euro[:2]))]) == [2]
    assert one.snapshot("stdout").view.total == 0
    refusing.refuse = "node_0/stdout.log"
    assert await write([(one, says(euro[2:] + b"x"))]) == [0]
    refusing.refuse = None
    assert await write([(one, says(euro[2:] + b"x"))]) == [2]
    assert one.snapshot("stdout").view.read(0, 10) == euro + b"x"


async def test_a_break_that_cannot_write_what_was_held_back_does_so_before_the_next_bytes(nodes, refusing):
    one, _ = nodes
    euro = "€".encode()
    assert await write([(one, says(euro[:2]))]) == [2]
    refusing.refuse = "node_0/"
    assert await write([(one, restart())]) == [0]
    refusing.refuse = None
    assert await write([(one, says(euro))]) == [3]
    assert one.snapshot("stdout").view.read(0, 10) == euro[:2] + euro
    assert (one.folder.parent / "stdout.log").read_bytes() == b"??" + euro
    cursors = [line["cursor"] for line in index_of(one) if line.get("seam") == "restart"]
    assert cursors == [2]


async def test_a_restart_within_a_character_ends_it(nodes):
    """The new execution's first byte would finish it by chance."""
    one, _ = nodes
    euro = "€".encode()
    assert await write([(one, says(euro[:2])), (one, restart()), (one, says(euro[2:]))]) == [2, 0, 1]
    assert (one.folder.parent / "stdout.log").read_bytes() == b"???"
    assert one.snapshot("stdout").view.read(0, 10) == euro
    assert [line["cursor"] for line in index_of(one) if line.get("seam") == "restart"] == [2]


async def test_a_pause_within_a_character_lets_it_be_finished(nodes):
    one, _ = nodes
    euro = "€".encode()
    pause = SeamAt("stdout", Seam(SeamKind.PAUSED, "elsewhere"))
    assert await write([(one, says(euro[:1])), (one, pause), (one, says(euro[1:]))]) == [1, 0, 2]
    assert (one.folder.parent / "stdout.log").read_bytes() == euro


async def test_many_writers_at_once_keep_each_nodes_order(nodes):
    async def one_writer(node, file):
        for n in range(100):
            assert await write([(node, says(b"%s %d\n" % (file.encode(), n), file))]) > [0]

    names = ["stdout", "stderr", "rank1.stdout"]
    await asyncio.gather(*(one_writer(node, name) for node in nodes for name in names))
    for node in nodes:
        for name in names:
            assert node.snapshot(name).view.read(0, 1 << 20) == b"".join(
                b"%s %d\n" % (name.encode(), n) for n in range(100)
            )


async def test_a_large_append_is_one_item(nodes):
    one, _ = nodes
    data = "0123456789 é\n".encode() * 400_000
    assert await write([(one, says(data))]) == [len(data)]
    assert one.snapshot("stdout").view.read(len(data) - 20, 100) == data[-20:]
    assert one.snapshot("stdout").view.total == len(data)


async def test_an_empty_append_makes_the_output_known(nodes):
    one, _ = nodes
    assert await write([(one, says(b"", "train.csv"))]) == [0]
    assert one.snapshot("train.csv").view.read(0, 10) == b""
    assert await write([]) == []


async def test_results_deleted_by_the_user_stop_that_node_only(nodes, caplog):
    one, two = nodes
    assert await write([(one, says(b"a\n")), (two, says(b"a\n"))]) == [2, 2]
    shutil.rmtree(one.folder.parent)
    assert await write([(one, says(b"b\n")), (one, says(b"x", "new")), (two, says(b"b\n"))]) == [0, 0, 2]
    assert one.trouble is not None
    with pytest.raises(OutputGone, match=r"stdout\.log was removed by somebody else"):
        one.snapshot("stdout").view.read(0, 10)
    await one.close()
    assert not one.folder.parent.exists()
    assert two.snapshot("stdout").view.read(0, 10) == b"a\nb\n"
    assert "is not stored" in caplog.text


async def test_cursors_beyond_four_gigabytes_count_on(nodes):
    """A sparse file stands for the text of days."""
    one, _ = nodes
    assert await write([(one, says(b"begin\n", "train.csv"))]) == [6]
    await one.close()
    (path,) = (one.folder / "files").iterdir()
    size = 5 << 30
    with path.open("r+b") as file:
        file.truncate(size)
    again = await NodeOutput.open(one.dispatch_id, one.node_id, min_free=0)
    assert again.snapshot("train.csv").view.total == size
    assert await write([(again, says(b"end\n", "train.csv"))]) == [4]
    assert again.snapshot("train.csv").view.total == size + 4
    assert again.snapshot("train.csv").view.read(size - 1, 10) == b"\0end\n"
    await again.close()


async def test_an_output_that_cannot_be_made_hinders_no_other(nodes, caplog):
    one, _ = nodes
    (one.folder / "files").write_bytes(b"in the way")
    assert await write([(one, says(b"x", "train.csv")), (one, says(b"y"))]) == [0, 1]
    assert "'train.csv' of node 0" in str(one.trouble)
    assert "is not stored" in caplog.text
    (one.folder / "files").unlink()
    assert await write([(one, says(b"x", "train.csv"))]) == [1]
    assert one.trouble is None


async def test_a_closed_node_takes_nothing_and_makes_nothing(nodes):
    one, _ = nodes
    await one.close()
    assert await write([(one, says(b"x", "late.csv")), (one, restart()), (one, says(b"y"))]) == [0, 0, 0]
    assert "is closed" in str(one.trouble)
    assert not (one.folder / "files").exists()
    await one.close()
