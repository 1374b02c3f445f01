# SPDX-License-Identifier: Apache-2.0
"""Reading through faults: no byte lost, none twice. Real sshd, real cuts."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from covalent_joblog_plugin.cluster import asyncssh_shell
from covalent_joblog_plugin.cluster.reader_source import ReaderSource
from covalent_joblog_plugin.model.errors import TransportError
from covalent_joblog_plugin.model.records import ReadRequest
from tests.rigs.cutting_proxy import CuttingProxy
from tests.rigs.daemons import until

pytestmark = pytest.mark.slurm

MIB = 1 << 20
READER = "take(n)"


@pytest.fixture(autouse=True)
def short_back_off(monkeypatch):
    monkeypatch.setattr(asyncssh_shell, "FIRST_BACKOFF", 0.02)
    monkeypatch.setattr(asyncssh_shell, "LAST_BACKOFF", 0.2)


async def read_all(source, path, size, faults=None):
    """Read from 0 to ``size`` as a monitor does: the position moves by what arrived."""
    data = bytearray()
    while len(data) < size:
        try:
            request = [ReadRequest(str(path), len(data))]
            for delta in await source.read_deltas(request, 5, 256 * 1024):
                assert delta.pos == len(data)
                data += delta.data
        except TransportError as error:
            if faults is not None:
                faults.append(error)
            await asyncio.sleep(0.02)
    return bytes(data)


@pytest.mark.parametrize("mode", ["channel", "exec"])
async def test_a_connection_cut_in_the_middle_of_its_bytes_loses_and_doubles_none(
    slurm_rig, make_shell, tmp_path, mode
):
    data = random.Random(3).randbytes(6 * MIB)
    (tmp_path / "file").write_bytes(data)
    proxy = CuttingProxy(slurm_rig.ssh_port, lambda n: 1_300_007 if n < 5 else None)
    # The host key is known under sshd's own port.
    known = tmp_path / "known_hosts"
    known.write_text(slurm_rig.known_hosts.read_text().replace(str(slurm_rig.ssh_port), str(proxy.port)))
    source = ReaderSource(make_shell(port=proxy.port, known_hosts=(str(known),)), mode, interval=0.05)
    faults = []
    assert await read_all(source, tmp_path / "file", len(data), faults) == data
    # The last one is cut only when it carries so much.
    assert proxy.cuts >= 4
    assert len(faults) >= 4
    await source.close()
    proxy.close()


async def test_a_reader_killed_on_the_login_node_is_started_again_unseen(slurm_rig, shell, tmp_path):
    source = ReaderSource(shell, "auto", interval=0.2)
    path = tmp_path / "file"
    path.write_bytes(b"0")
    assert (await source.read_deltas([ReadRequest(str(path), 0)], 5, MIB))[0].data == b"0"
    waiting = asyncio.create_task(source.read_deltas([ReadRequest(str(path), 1)], 20, MIB))
    await asyncio.sleep(0.3)
    kill_readers(slurm_rig)
    await asyncio.sleep(0.3)
    # A new reader tells once of every file whose position is not 0: it may have been replaced meanwhile.
    (unchanged,) = await waiting
    assert (unchanged.data, unchanged.before) == (b"", b"0")
    with path.open("ab") as file:
        file.write(b"1")
    assert (await source.read_deltas([ReadRequest(str(path), 1)], 20, MIB))[0].data == b"1"
    assert source.by_channel
    await source.close()


async def test_a_site_that_kills_what_stays_is_read_by_one_command_a_tick(slurm_rig, shell, tmp_path, caplog):
    source = ReaderSource(shell, "auto", interval=0.2)
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    for pos in range(2):
        assert (await source.read_deltas([ReadRequest(str(path), pos)], 5, 1))[0].data == b"%d" % pos
        waiting = asyncio.create_task(source.read_deltas([ReadRequest(str(path), 10)], 1, MIB))
        await asyncio.sleep(0.5)
        kill_readers(slurm_rig)
        await waiting
        await asyncio.sleep(1)
    assert not source.by_channel
    assert "one command a tick" in caplog.text
    assert slurm_rig.find_command(READER) == []
    data = await read_all(source, path, 10)
    assert data == b"0123456789"
    await source.close()


async def test_the_reader_comes_back_when_the_kills_are_forgotten(slurm_rig, shell, tmp_path, monkeypatch):
    source = ReaderSource(shell, "auto", interval=0.2)
    source._kills = [0.0, 0.0]
    monkeypatch.setattr("covalent_joblog_plugin.cluster.reader_source.REMEMBER", 1e9)
    assert not source.by_channel
    monkeypatch.setattr("covalent_joblog_plugin.cluster.reader_source.REMEMBER", 1.0)
    (tmp_path / "file").write_bytes(b"x")
    assert (await source.read_deltas([ReadRequest(str(tmp_path / "file"), 0)], 5, MIB))[0].data == b"x"
    assert len(slurm_rig.find_command(READER)) == 1
    await source.close()


async def test_an_sshd_restarted_in_the_middle_loses_and_doubles_no_byte(slurm_rig, shell, tmp_path):
    source = ReaderSource(shell, "auto", interval=0.2)
    path = tmp_path / "growing"
    path.touch()
    text = b"".join(b"line %06d\n" % n for n in range(3000))
    reading = asyncio.create_task(read_all(source, path, len(text)))
    for n, start in enumerate(range(0, len(text), len(text) // 30)):
        with path.open("ab") as file:
            file.write(text[start : start + len(text) // 30])
        await asyncio.sleep(0.03)
        if n == 10:
            await asyncio.to_thread(slurm_rig.stop_sshd)
        if n == 20:
            await asyncio.to_thread(slurm_rig.start_sshd)
    assert await asyncio.wait_for(reading, 30) == text
    await source.close()


async def test_the_reader_ends_with_its_channel(slurm_rig, shell, tmp_path):
    source = ReaderSource(shell, "channel")
    await source.read_deltas([ReadRequest(str(tmp_path / "none"), 0)], 0, MIB)
    assert len(slurm_rig.find_command(READER)) == 1
    await source.close()
    await asyncio.to_thread(until, lambda: not slurm_rig.find_command(READER), "the reader ended")


async def test_who_insists_on_the_channel_is_told_when_it_is_killed(slurm_rig, shell, tmp_path):
    source = ReaderSource(shell, "channel")
    path = str(tmp_path / "none")

    async def killed_twice():
        for _ in range(2):
            waiting = asyncio.create_task(source.read_deltas([ReadRequest(path, 0)], 2, MIB))
            await asyncio.sleep(0.5)
            kill_readers(slurm_rig)
            await waiting
            await asyncio.sleep(1)

    with pytest.raises(TransportError, match="the helper on the login node ended"):
        await killed_twice()
    await source.close()


def kill_readers(rig) -> None:
    found = rig.find_command(READER)
    assert found
    for pid in found:
        os.kill(pid, 9)


async def test_questions_given_up_while_the_reader_starts_start_it_once(slurm_rig, shell, tmp_path):
    source = ReaderSource(shell, "channel")
    path = tmp_path / "file"
    path.write_bytes(b"x")
    for n in range(25):
        asking = asyncio.create_task(source.read_deltas([ReadRequest(str(path), 0)], 20, MIB))
        await asyncio.sleep(0.002 * n)
        asking.cancel()
        await asyncio.wait([asking])
    assert (await source.read_deltas([ReadRequest(str(path), 0)], 20, MIB))[0].data == b"x"
    assert len(slurm_rig.find_command(READER)) == 1
    await source.close()
