# SPDX-License-Identifier: Apache-2.0
"""How often files are looked at, and what that may cost a login node."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from covalent_joblog_plugin.cluster.reader_source import OUTPUT, ReaderSource
from covalent_joblog_plugin.cluster.remote_watch import Budget, File, Slot
from covalent_joblog_plugin.model.records import ReadRequest

START = 1000.0


@pytest.mark.parametrize(
    ("idle", "interval"), [(0, 0.2), (4.9, 0.2), (6, 1), (59, 1), (61, 2.0333), (300, 10), (9000, 30)]
)
def test_a_file_is_looked_at_the_less_the_longer_it_rests(idle, interval):
    file = File("x", START, hot=True)
    assert file.interval(START + idle) == pytest.approx(interval, abs=0.01)


def test_a_file_nobody_expects_news_of_is_not_looked_at_every_moment():
    assert File("x", START, hot=False).interval(START) == 1
    assert File("x", START, hot=False).interval(START + 10) == pytest.approx(2.2, abs=0.2)


def test_a_pace_asked_for_is_kept_however_long_the_file_rests():
    file = File("x", START, hot=False)
    file.pace = 0.3
    assert file.interval(START + 9000) == 0.3


def test_where_looks_are_few_busy_files_are_late_by_as_many_intervals_as_resting_ones():
    busy, resting = File("busy", START, hot=True), File("resting", START, hot=True)
    busy.looked, resting.looked, resting.news = START, START - 9, START - 300
    assert busy.lateness(START + 1) > resting.lateness(START + 1)
    resting.looked = START - 100
    assert busy.lateness(START + 1) < resting.lateness(START + 1)


def test_looks_are_limited_and_come_back_with_time(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: START)
    budget = Budget()
    looks = 0
    while not budget.empty:
        budget.spend()
        looks += 1
    assert looks == 100
    assert budget.wait() == pytest.approx(0.1)
    budget.fill(START + 0.1)
    assert not budget.empty


def test_cpu_is_limited_to_one_per_cent_and_carrying_bytes_is_free(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: START)
    budget = Budget()
    budget.worked(0.3, 200_000_000)
    assert not budget.empty
    budget.worked(0.5 + 0.01, 0)
    assert budget.empty
    assert budget.wait() == pytest.approx(1.0)
    budget.fill(START + 1.1)
    assert not budget.empty


def test_a_new_request_takes_the_place_of_the_one_that_waits_and_tells_only_changes():
    slot = Slot()
    slot.ask({"seq": 1, "wait": 30, "max": 10, "set": [[1, 0, None, None, "a", 0]]}, START)
    slot.ask({"seq": 2, "wait": 5, "max": 20, "set": [[2, 7, 3, 0.5, "b", 1]]}, START)
    assert (slot.seq, slot.deadline, slot.max) == (2, START + 5, 20)
    assert {n: (f.path, f.pos, f.limit, f.pace) for n, f in slot.files.items()} == {
        1: (b"a", 0, None, None),
        2: (b"b", 7, 3, 0.5),
    }
    slot.ask({"seq": 3, "wait": 0, "max": 20, "drop": [1], "set": [[2, 9, None, None]]}, START)
    assert {n: f.pos for n, f in slot.files.items()} == {2: 9}
    assert slot.poll


@pytest.mark.slurm
async def test_a_resting_file_is_looked_at_often_as_soon_as_news_is_expected(shell, tmp_path):
    source = ReaderSource(shell, "channel")
    path = tmp_path / "file"
    path.touch()
    request = [ReadRequest(str(path), 0)]
    assert await source.ask(OUTPUT, request, 0, 1000)
    await asyncio.sleep(7)  # now it is looked at every two seconds
    source.expect_news({str(path)})
    asking = asyncio.create_task(source.read_deltas(request, 20, 1000))
    await asyncio.sleep(0.6)
    path.write_bytes(b"news")
    wrote = time.monotonic()
    assert (await asking)[0].data == b"news"
    assert time.monotonic() - wrote < 0.6
    await source.close()


@pytest.mark.slurm
async def test_four_hundred_resting_files_cost_the_login_node_next_to_nothing(slurm_rig, shell, tmp_path):
    paths = [tmp_path / str(n) for n in range(400)]
    for path in paths:
        path.write_bytes(b"x")
    source = ReaderSource(shell, "channel")
    requests = [ReadRequest(str(path), 1) for path in paths]
    await source.read_deltas(requests, 0, 1000)
    (pid,) = slurm_rig.find_command("take(n)")
    began, cpu = time.monotonic(), _cpu(pid)
    for _ in range(5):
        assert await source.read_deltas(requests, 1, 1000) == []
    spent, passed = _cpu(pid) - cpu, time.monotonic() - began
    # What is left of the first burst may be spent on top of one per cent.
    assert spent <= 0.5 + 0.02 * passed
    await source.close()


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
