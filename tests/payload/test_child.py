# SPDX-License-Identifier: Apache-2.0
"""Packed calls in child processes of this one, under both event loops a server may run."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from covalent_joblog_plugin.model.errors import JobFailed, PayloadError
from covalent_joblog_plugin.payload import child
from covalent_joblog_plugin.payload.verdict import CannotBegin
from tests.payload.calls import call_of, packed
from tests.payload.children import DEADLINE, begin, text_in, wait_for_word


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
