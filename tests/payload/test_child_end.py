# SPDX-License-Identifier: Apache-2.0
"""How child processes end, and are ended, with all that belongs to them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess

import pytest

from covalent_joblog_plugin.model.errors import JobFailed
from covalent_joblog_plugin.payload import child
from covalent_joblog_plugin.payload.processes import Session
from covalent_joblog_plugin.payload.threads import in_thread
from tests.payload.calls import packed
from tests.payload.children import DEADLINE, begin, is_there, runs, text_in, wait_for_word


def test_a_background_process_does_not_hold_the_end_and_can_be_ended(tmp_path, run_in_loop):
    def function():
        import subprocess

        print(subprocess.Popen(["sleep", "1000"]).pid)

    async def scenario():
        process = await begin(tmp_path, function)
        status = await process.wait()
        alive = await process.group_alive()
        return status, alive, await process.terminate(5), await process.group_alive()

    assert run_in_loop(scenario()) == (0, True, True, False)
    assert not runs((tmp_path / "node" / "stdout").read_text().strip())


def test_terminate_gives_last_words_and_then_ends_everything(tmp_path, run_in_loop):
    """A function that ignores SIGTERM, a process it forked twice, and one under a shell with job control."""

    def function():
        import os
        import signal
        import subprocess
        import time

        subprocess.run(["sh", "-c", "(sleep 1000 & echo $! >&2) &"], check=True)
        subprocess.run(["bash", "-mc", "sleep 1000 & echo $! >&2"], check=True)
        signal.signal(signal.SIGTERM, lambda *_: print("last words"))
        print(os.getpid())
        while True:
            time.sleep(0.01)

    async def scenario():
        process = await begin(tmp_path, function)
        pids = [process.handle["pid"], *(await text_in(tmp_path / "node" / "stderr", "\n", 2)).split()]
        await text_in(tmp_path / "node" / "stdout", "\n")
        gone = await process.terminate(0.5)
        return pids, gone, await process.wait(), await process.group_alive()

    pids, gone, status, alive = run_in_loop(scenario())

    assert (gone, status, alive) == (True, -signal.SIGKILL, False)
    assert (tmp_path / "node" / "stdout").read_text() == f"{pids[0]}\nlast words\n"
    assert not any(runs(pid) for pid in pids[1:])


def test_terminate_does_not_wait_for_the_grace_when_all_are_gone(tmp_path, run_in_loop):
    async def scenario():
        process = await begin(tmp_path, wait_for_word("never"))
        await text_in(tmp_path / "node" / "stdout", "\n")
        gone = await process.terminate(DEADLINE * 2)
        return gone, await process.wait()

    assert run_in_loop(scenario()) == (True, -signal.SIGTERM)


def test_a_stopped_process_is_ended_too(tmp_path, run_in_loop):
    async def scenario():
        process = await begin(tmp_path, wait_for_word("never"))
        await text_in(tmp_path / "node" / "stdout", "\n")
        os.kill(process.handle["pid"], signal.SIGSTOP)
        return await process.terminate(DEADLINE * 2), await process.wait()

    assert run_in_loop(scenario()) == (True, -signal.SIGTERM)


def test_nothing_is_left_unreaped(tmp_path, run_in_loop):
    def leaves_a_process():
        import subprocess

        subprocess.Popen(["sleep", "1000"])

    async def scenario():
        quiet = await begin(tmp_path, lambda: 1)
        await quiet.wait()
        busy = await begin(tmp_path, leaves_a_process)
        await busy.wait()
        left_unreaped = is_there(busy.handle["pid"])
        await busy.terminate(5)
        return quiet.handle["pid"], busy.handle["pid"], left_unreaped

    quiet, busy, left_unreaped = run_in_loop(scenario())
    gc.collect()

    assert left_unreaped
    assert not is_there(quiet)
    assert not is_there(busy)


def test_the_handle_alone_ends_a_running_call_and_leaves_an_ended_one(tmp_path, run_in_loop):
    async def scenario():
        process = await begin(tmp_path, wait_for_word("never"))
        await text_in(tmp_path / "node" / "stdout", "\n")
        ended = await child.terminate(dict(process.handle), 5)
        status = await process.wait()
        return ended, status, await child.terminate(dict(process.handle), 5)

    assert run_in_loop(scenario()) == (True, -signal.SIGTERM, True)


@pytest.mark.parametrize("change", [{"started": -1}, {"boot": "another"}])
def test_a_number_that_was_given_to_another_process_is_left_alone(run_in_loop, change):
    stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        handle = {**Session.of(stranger.pid).handle, **change}
        assert run_in_loop(child.terminate(handle, 0))
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_child_killed_from_outside_is_noticed(tmp_path, run_in_loop):
    async def scenario():
        process = await begin(tmp_path, wait_for_word("never"))
        await text_in(tmp_path / "node" / "stdout", "\n")
        os.kill(process.handle["pid"], signal.SIGKILL)
        status = await process.wait()
        with pytest.raises(JobFailed, match=r"signal 9 \(SIGKILL\) before the function returned"):
            await child.result(tmp_path / "node", status)

    run_in_loop(scenario())


def test_a_child_somebody_else_reaped_ends_too(tmp_path, run_in_loop):
    async def scenario():
        process = await begin(tmp_path, wait_for_word())
        await text_in(tmp_path / "node" / "stdout", "\n")
        (tmp_path / "work" / "go").touch()
        with contextlib.suppress(ChildProcessError):  # whoever comes first reaps
            await asyncio.get_running_loop().run_in_executor(None, os.waitpid, process.handle["pid"], 0)
        return await process.wait()

    assert run_in_loop(scenario()) in (0, child.UNKNOWN_STATUS)


def test_starting_never_blocks_the_loop_and_can_be_given_up(tmp_path, run_in_loop):
    """Opening a FIFO that nobody reads blocks for ever, and so does a dead network mount."""
    os.mkfifo(tmp_path / "out")

    async def scenario():
        starting = asyncio.ensure_future(
            child.start(
                packed(wait_for_word("never")),
                tmp_path / "node",
                stdout=tmp_path / "out",
                stderr=tmp_path / "err",
                cwd=tmp_path,
                environment={},
            )
        )
        await asyncio.sleep(0.1)
        assert not starting.done()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        # Now the child starts after all; the FIFO ends when it has been ended.
        return await asyncio.get_running_loop().run_in_executor(None, (tmp_path / "out").read_bytes)

    run_in_loop(scenario())

    assert not (tmp_path / "node" / "verdict").exists()


def test_many_that_ignore_the_signal_are_ended_at_once_and_hold_nobody_up(tmp_path, run_in_loop):
    def function():
        import signal
        import time

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf")
        time.sleep(1000)

    grace, folders = 2.0, [tmp_path / str(n) for n in range(8)]

    async def scenario():
        for folder in folders:
            folder.mkdir()
        deaf = [await begin(folder, function) for folder in folders]
        for folder in folders:
            await text_in(folder / "node" / "stdout", "\n")
        loop = asyncio.get_running_loop()
        ending = asyncio.gather(*(process.terminate(grace) for process in deaf))
        await asyncio.sleep(0)
        begun = loop.time()
        await in_thread(os.getpid)
        other = loop.time() - begun
        return await ending, loop.time() - begun, other

    gone, took, other = run_in_loop(scenario())
    assert gone == [True] * len(folders)
    assert took < 2 * grace
    assert other < grace
