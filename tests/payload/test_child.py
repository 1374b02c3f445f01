# SPDX-License-Identifier: Apache-2.0
"""Packed calls in child processes of this one, under both event loops a server may run."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import uvloop

from covalent_joblog_plugin.model.errors import JobFailed, PayloadError
from covalent_joblog_plugin.payload import child
from covalent_joblog_plugin.payload.processes import Session
from covalent_joblog_plugin.payload.verdict import CannotBegin
from tests.payload.calls import call_of, packed

DEADLINE = 30


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run_in_loop(request):
    """Run a coroutine in a loop of its own."""

    def run(coroutine):
        loop = request.param()
        try:
            return loop.run_until_complete(asyncio.wait_for(coroutine, DEADLINE))
        finally:
            loop.close()

    return run


async def begin(folder, function, *, python=None, bundle=None, **environment):
    """Start a call in ``folder/node``, its streams beside bundle and result."""
    node, work = folder / "node", folder / "work"
    node.mkdir(mode=0o700, exist_ok=True)
    work.mkdir(exist_ok=True)
    return await child.start(
        bundle or packed(function),
        node,
        stdout=node / "stdout",
        stderr=node / "stderr",
        python=python,
        cwd=work,
        environment=environment,
    )


async def text_in(path, wanted, count=1):
    """Wait until a file holds ``wanted`` so many times."""
    while (path.read_text() if path.exists() else "").count(wanted) < count:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    return path.read_text()


def is_there(pid):
    return Path(f"/proc/{pid}").exists()


def runs(pid):
    """Also orphans end as zombies, until whoever adopted them reaps them."""
    return is_there(pid) and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def wait_for_word(word="go"):
    """A function that prints its number and waits for a file of that name."""

    def function():
        import os
        import pathlib
        import time

        print(os.getpid())
        while not pathlib.Path(word).exists():
            time.sleep(0.01)
        return word

    return function


def test_a_call_runs_to_its_result(tmp_path, run_in_loop):
    async def scenario():
        def function():
            import os
            import sys

            print("out")
            print("err", file=sys.stderr)
            return os.getpid(), os.getsid(0), os.getpgid(0), sys.stdin.read()

        process = await begin(tmp_path, function)
        status = await process.wait()
        return process, (await child.result(tmp_path / "node", status)).get_deserialized()

    process, (pid, sid, group, stdin) = run_in_loop(scenario())

    node = tmp_path / "node"
    assert pid == sid == group == process.handle["pid"]
    assert stdin == ""
    assert ((node / "stdout").read_text(), (node / "stderr").read_text()) == ("out\n", "err\n")
    files = [path for path in node.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_folder_and_files_are_private_whatever_the_umask(tmp_path, run_in_loop):
    async def scenario():
        process = await child.start(
            packed(lambda: os.umask(0o22)),
            tmp_path / "new",
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
            cwd=tmp_path,
            environment={},
        )
        return await process.wait()

    before = os.umask(0)
    try:
        assert run_in_loop(scenario()) == 0
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("out", "err")} == {0o600}


def test_output_is_appended(tmp_path, run_in_loop):
    async def scenario():
        for word in ("first", "second"):
            assert await (await begin(tmp_path, lambda word=word: print(word))).wait() == 0

    run_in_loop(scenario())

    assert (tmp_path / "node" / "stdout").read_text() == "first\nsecond\n"


def test_a_line_is_there_as_soon_as_it_is_printed(tmp_path, run_in_loop):
    async def scenario():
        process = await begin(tmp_path, wait_for_word())
        text = await text_in(tmp_path / "node" / "stdout", "\n")
        (tmp_path / "work" / "go").touch()
        return text, process.handle["pid"], await process.wait()

    text, pid, status = run_in_loop(scenario())

    assert (text, status) == (f"{pid}\n", 0)


def test_a_user_who_wants_buffering_gets_it(tmp_path, run_in_loop):
    def function():
        import os
        import pathlib

        print("held back")
        return os.environ["PYTHONUNBUFFERED"], pathlib.Path("../node/stdout").read_text()

    async def scenario():
        process = await begin(tmp_path, function, PYTHONUNBUFFERED="")
        return await child.result(tmp_path / "node", await process.wait())

    assert run_in_loop(scenario()).get_deserialized() == ("", "")


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
        await asyncio.get_running_loop().run_in_executor(None, os.waitpid, process.handle["pid"], 0)
        return await process.wait()

    assert run_in_loop(scenario()) in (0, child.UNKNOWN_STATUS)


def test_many_children_at_once_keep_their_results_apart(tmp_path, run_in_loop):
    async def one(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = await begin(folder, lambda: print(number) or number)
        value = await child.result(folder / "node", await process.wait())
        return value.get_deserialized(), (folder / "node" / "stdout").read_text()

    async def scenario():
        return await asyncio.gather(*(one(number) for number in range(12)))

    assert run_in_loop(scenario()) == [(number, f"{number}\n") for number in range(12)]


def test_a_loop_outside_the_main_thread_works_as_well(tmp_path, run_in_loop):
    async def scenario():
        return await (await begin(tmp_path, lambda: 1)).wait()

    statuses = []
    thread = threading.Thread(target=lambda: statuses.append(run_in_loop(scenario())))
    thread.start()
    thread.join(DEADLINE)

    assert statuses == [0]


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


def test_a_python_that_is_not_there_is_named(tmp_path, run_in_loop):
    with pytest.raises(JobFailed, match=r"/no/python cannot be started in .*work"):
        run_in_loop(begin(tmp_path, lambda: 1, python=["/no/python"]))


def test_python_may_be_a_command_with_arguments(tmp_path, run_in_loop):
    async def scenario():
        process = await begin(tmp_path, lambda: os.environ["VIA"], python=["env", "VIA=env", sys.executable])
        return await child.result(tmp_path / "node", await process.wait())

    assert run_in_loop(scenario()).get_deserialized() == "env"


def test_a_call_that_cannot_begin_is_told_apart_from_one_that_failed(tmp_path, run_in_loop, bare_python):
    import hypothesis

    async def scenario(call):
        process = await begin(tmp_path, None, bundle=packed(call), python=[bare_python])
        return await child.result(tmp_path / "node", await process.wait())

    with pytest.raises(CannotBegin, match="hypothesis"):
        run_in_loop(scenario(call_of(type, hypothesis.settings)))
    with pytest.raises(JobFailed) as failed:
        run_in_loop(scenario(call_of(int, "x")))
    assert not isinstance(failed.value, CannotBegin)
    assert str(failed.value).startswith("ValueError: ")


def test_a_result_of_an_earlier_run_never_stands_in(tmp_path, run_in_loop):
    async def scenario(function, python=None):
        process = await begin(tmp_path, function, python=python)
        return await child.result(tmp_path / "node", await process.wait())

    assert run_in_loop(scenario(lambda: 1)).get_deserialized() == 1
    with pytest.raises(JobFailed, match="exit status 0 before the function returned"):
        run_in_loop(scenario(lambda: 2, python=["true"]))


def test_a_damaged_result_is_refused(tmp_path, run_in_loop):
    async def scenario():
        status = await (await begin(tmp_path, lambda: 1)).wait()
        with (tmp_path / "node" / "result").open("ab") as file:
            file.write(b"x")
        return await child.result(tmp_path / "node", status)

    with pytest.raises(PayloadError, match="the result is damaged"):
        run_in_loop(scenario())


def test_a_crash_after_the_result_is_a_failure_that_says_so(tmp_path, run_in_loop):
    def function():
        import atexit
        import os

        atexit.register(os.abort)
        return 1

    async def scenario():
        return await child.result(tmp_path / "node", await (await begin(tmp_path, function)).wait())

    with pytest.raises(JobFailed, match=r"the function returned, but then .*SIGABRT"):
        run_in_loop(scenario())


def test_covalent_in_a_child_has_this_servers_settings_in_a_copy(tmp_path, run_in_loop):
    import covalent as ct

    def function():
        import covalent
        from covalent._shared_files.config import _config_manager

        return _config_manager.config_file, covalent.get_config("dispatcher.port")

    async def scenario():
        return await child.result(tmp_path / "node", await (await begin(tmp_path, function)).wait())

    file, port = run_in_loop(scenario()).get_deserialized()

    assert file == str(tmp_path / "node" / "config" / "covalent.conf")
    assert port == ct.get_config("dispatcher.port")
