# SPDX-License-Identifier: Apache-2.0
"""What the runner leaves to the function: streams, folders, modules, forks, threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.payload.calls import call_of, environment_for, packed, prepare, run


def test_text_of_children_and_of_c_stands_in_the_same_streams(tmp_path):
    def function():
        import ctypes
        import os
        import subprocess

        print("from print")
        os.write(1, b"from os.write\n")
        subprocess.run(["sh", "-c", "echo from a child; echo err >&2"], check=True)
        ctypes.CDLL(None).puts(b"from C")

    outcome = run(tmp_path, function)

    assert outcome.stdout == "from print\nfrom os.write\nfrom a child\nfrom C\n"
    assert outcome.stderr == "err\n"


def test_bytes_that_are_no_text_pass_as_they_are(tmp_path):
    data = bytes(range(256)) * 3
    argv, work = prepare(tmp_path, packed(lambda: __import__("os").write(1, data)))

    done = subprocess.run([sys.executable, *argv], cwd=work, capture_output=True, check=True)

    assert done.stdout == data


SPY = """
import os, runpy, sys
out, seen, *sys.argv = sys.argv[1:]
rename = os.rename
def look(source, target):
    if target.endswith("verdict"):
        open(seen, "w").write(open(out).read())
    rename(source, target)
os.rename = look
sys.path.insert(0, "")
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_printed_text_is_out_before_the_verdict_is(tmp_path):
    """Also where the interpreter buffers: who has the verdict has all text."""
    (_, *argv), work = prepare(tmp_path, packed(lambda: print("x" * 100)))
    out, seen = tmp_path / "out", tmp_path / "seen"

    with out.open("wb") as file:
        subprocess.run(
            [sys.executable, "-c", SPY, out, seen, *argv],
            cwd=work,
            env=environment_for(tmp_path),
            stdout=file,
            check=True,
        )

    assert seen.read_text() == "x" * 100 + "\n"


def test_the_function_runs_where_it_was_started_with_neither_our_files_nor_our_arguments(tmp_path):
    def function():
        import importlib.util
        import pathlib
        import sys

        return str(pathlib.Path.cwd()), sys.argv[1:], importlib.util.find_spec("runner"), list(sys.path)

    cwd, arguments, runner, path = run(tmp_path, function).value

    assert cwd == str(tmp_path / "work")
    assert (arguments, runner) == ([], None)
    assert str(tmp_path) not in path


def test_an_interpreter_that_keeps_to_safe_paths_loses_none_of_them(tmp_path):
    def function():
        import sys

        return sys.path

    plain = subprocess.run(
        [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path))"],
        env=environment_for(tmp_path, PYTHONSAFEPATH="1"),
        capture_output=True,
        check=True,
    )

    path = run(tmp_path, function, PYTHONSAFEPATH="1").value
    without_cwd = [entry for entry in json.loads(plain.stdout) if entry]

    assert path == without_cwd


def test_a_function_that_changes_folder_and_umask_changes_nothing_of_ours(tmp_path):
    def function():
        import os

        os.chdir("/")
        os.umask(0o777)
        return 5

    prepare(tmp_path, packed(function))
    done = subprocess.run([sys.executable, "runner.py", "bundle", "."], cwd=tmp_path, check=False)

    assert done.returncode == 0
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("result", "verdict")} == {0o600}


def test_streams_the_function_closed_or_replaced_do_not_matter(tmp_path):
    def function():
        import sys

        sys.stdout.close()
        sys.stderr = None
        return 5

    assert run(tmp_path, function).value == 5


def test_a_forked_process_that_returns_leaves_the_result_to_its_parent(tmp_path):
    def function():
        import os

        pid = os.fork()
        if pid == 0:
            return "child"
        os.waitpid(pid, 0)
        return "parent"

    assert run(tmp_path, function).value == "parent"


def test_a_forked_process_that_raises_leaves_the_verdict_to_its_parent(tmp_path):
    def function():
        import os
        import time

        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.01)
            raise ValueError("in the child")
        return "parent"

    argv, work = prepare(tmp_path, packed(function))
    # The end of stderr is the end of the forked process, which holds it open.
    done = subprocess.run([sys.executable, *argv], cwd=work, stderr=subprocess.PIPE, check=False)

    assert done.returncode == 0
    assert b"ValueError: in the child" in done.stderr
    assert b'"ok"' in (tmp_path / "verdict").read_bytes()


def test_worker_processes_of_the_function_can_be_spawned_and_forked(tmp_path):
    def function():
        import math
        import multiprocessing

        values = []
        for way in ("fork", "spawn"):
            with multiprocessing.get_context(way).Pool(1) as pool:
                values += pool.map(math.sqrt, [4, 9])
        return values

    assert run(tmp_path, function).value == [2, 3, 2, 3]


def test_a_spawned_worker_finds_the_bundles_cloudpickle(tmp_path, bare_python):
    def function():
        import multiprocessing

        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(eval, ["__import__('cloudpickle').__version__"])

    import cloudpickle

    assert run(tmp_path, function, python=bare_python).value == cloudpickle.__version__


def test_threads_that_outlive_the_function_are_waited_for(tmp_path):
    def function():
        import threading
        import time

        threading.Thread(target=lambda: (time.sleep(0.3), print("late", flush=True))).start()
        return 1

    outcome = run(tmp_path, function)

    assert (outcome.value, outcome.stdout) == (1, "late\n")


def test_a_large_array_travels_without_copies_of_it(tmp_path):
    def function():
        import numpy as np

        return np.arange(50 * 2**20 // 8)

    argv, work = prepare(tmp_path, packed(function))
    process = subprocess.Popen([sys.executable, *argv], cwd=work, env=environment_for(tmp_path))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    baseline = run(
        tmp_path / "empty", call_of(lambda: __import__("numpy") and __import__("resource").getrusage(0))
    )

    assert process.returncode == 0
    assert usage.ru_maxrss - baseline.value.ru_maxrss < 80 * 1024  # KiB: the array, and little beside
    assert (tmp_path / "result").stat().st_size > 50 * 2**20 * 4 / 3
