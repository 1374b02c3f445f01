# SPDX-License-Identifier: Apache-2.0
"""How the runner tells success, exceptions and exits apart."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.payload.calls import call_of, run


def test_a_returned_value_comes_back_and_the_text_is_untouched(tmp_path):
    def greet(name, mark="!"):
        print(f"hello {name}{mark}")
        return {"said": name}

    outcome = run(tmp_path, call_of(greet, "world", mark="?"))

    assert outcome.value == {"said": "world"}
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "hello world?\n", "")
    assert outcome.verdict.size == (tmp_path / "result").stat().st_size
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("result", "verdict")} == {0o600}
    assert not list(tmp_path.glob("*.tmp"))


def test_none_is_a_result(tmp_path):
    assert run(tmp_path, lambda: None).value is None


def test_an_exception_leaves_pythons_own_traceback_on_stderr(tmp_path):
    def outer():
        def inner():
            raise ValueError("bad")

        inner()

    outcome = run(tmp_path, outer)

    lines = outcome.stderr.splitlines()
    assert (outcome.status, outcome.verdict.kind) == (1, "exception")
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: bad"
    assert [line.split()[-1] for line in lines if line.startswith("  File")] == ["outer", "inner"]
    assert outcome.verdict.traceback == outcome.stderr
    assert not (tmp_path / "result").exists()


def test_the_text_of_an_exception_is_what_plain_python_prints(tmp_path):
    source = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('x') from error\n"
    script = tmp_path / "plain.py"
    script.write_text(source)
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)

    def same():
        exec(compile(source, str(script), "exec"), {"__name__": "__main__"})

    outcome = run(tmp_path / "node", same)

    ours = [line for line in outcome.stderr.splitlines() if "dynamic-code" not in line and "same" not in line]
    assert [line for line in ours if "exec(" not in line] == plain.stderr.splitlines()


def test_an_exception_whose_class_exists_only_in_the_job_is_told_by_name(tmp_path):
    def function():
        class OnlyHereError(Exception):
            pass

        raise OnlyHereError("from the job")

    outcome = run(tmp_path, function)

    assert outcome.verdict.type.endswith("OnlyHereError")
    assert outcome.verdict.message == "from the job"


def test_an_exception_that_cannot_be_shown_is_still_told(tmp_path):
    def function():
        class MuteError(Exception):
            def __str__(self):
                raise RuntimeError("no words")

        raise MuteError

    outcome = run(tmp_path, function)

    assert outcome.verdict.kind == "exception"
    assert outcome.verdict.message == "<exception str() failed>"
    assert "MuteError" in outcome.error


@pytest.mark.parametrize("name", ["KeyboardInterrupt", "GeneratorExit", "BaseException", "StopIteration"])
def test_whatever_ends_the_function_is_an_exception(tmp_path, name):
    def function():
        import builtins

        raise getattr(builtins, name)("stop")

    outcome = run(tmp_path, function)

    assert (outcome.status, outcome.verdict.kind, outcome.verdict.type) == (1, "exception", name)
    assert outcome.stderr.splitlines()[-1] == f"{name}: stop"


def test_endless_recursion_is_told(tmp_path):
    def function():
        return function()

    outcome = run(tmp_path, function)

    assert outcome.verdict.type == "RecursionError"
    assert "maximum recursion depth" in outcome.error


def test_running_out_of_memory_is_told(tmp_path):
    outcome = run(tmp_path, lambda: bytearray(1 << 60))

    assert (outcome.status, outcome.verdict.type) == (1, "MemoryError")


def test_wrong_arguments_are_the_functions_exception(tmp_path):
    outcome = run(tmp_path, call_of(lambda: 1, 2))

    assert outcome.verdict.type == "TypeError"
    assert outcome.stderr.startswith("TypeError: ")


def test_a_long_message_is_whole_on_stderr_and_short_in_the_verdict(tmp_path):
    def function():
        raise ValueError("x" * 1_000_000)

    outcome = run(tmp_path, function)

    assert "x" * 1_000_000 in outcome.stderr
    assert (tmp_path / "verdict").stat().st_size < 200_000


def test_a_hook_of_the_users_for_exceptions_is_honoured(tmp_path):
    def function():
        import sys

        sys.excepthook = lambda *told: print("hook:", told[1], file=sys.stderr)
        raise ValueError("bad")

    assert run(tmp_path, function).stderr == "hook: bad\n"


def test_a_broken_hook_of_the_users_hides_nothing(tmp_path):
    def function():
        import sys

        sys.excepthook = None
        raise ValueError("bad")

    outcome = run(tmp_path, function)

    assert outcome.stderr.endswith("ValueError: bad\n")
    assert outcome.verdict.message == "bad"


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [
        (0, 74, 0),
        (None, 74, 0),
        (3, 3, 3),
        (256, 74, 256),
        (-1, 255, -1),
        (True, 1, 1),
        ("no data", 1, 1),
    ],
)
def test_sys_exit_is_never_success(tmp_path, code, status, told):
    def function():
        import sys

        sys.exit(code)

    outcome = run(tmp_path, function)

    assert (outcome.status, outcome.verdict.kind, outcome.verdict.code) == (status, "exit", told)
    assert outcome.stderr == ("no data\n" if isinstance(code, str) else "")
    assert f"sys.exit({told})" in outcome.error
    assert not (tmp_path / "result").exists()


def test_os_exit_leaves_no_verdict(tmp_path):
    def function():
        import os

        print("before")
        os._exit(3)

    outcome = run(tmp_path, function)

    assert (outcome.status, outcome.verdict, outcome.stdout) == (3, None, "before\n")
    assert "os._exit" in outcome.error


@pytest.mark.parametrize("number", [9, 15])
def test_a_signal_ends_the_process_as_it_ends_any_python(tmp_path, number):
    def function():
        import os

        os.kill(os.getpid(), number)

    outcome = run(tmp_path, function)

    assert (outcome.status, outcome.verdict) == (-number, None)
    assert f"signal {number} " in outcome.error


def test_a_crash_in_c_leaves_no_verdict(tmp_path):
    def function():
        import ctypes

        ctypes.string_at(0)

    outcome = run(tmp_path, function)

    assert (outcome.status, outcome.verdict) == (-11, None)
    assert "SIGSEGV" in outcome.error


def test_a_function_that_traps_sigterm_goes_on(tmp_path):
    def function():
        import os
        import signal

        caught = []
        signal.signal(signal.SIGTERM, lambda *_: caught.append("term"))
        os.kill(os.getpid(), signal.SIGTERM)
        return caught

    assert run(tmp_path, function).value == ["term"]


def test_what_an_earlier_run_left_does_not_count(tmp_path):
    assert run(tmp_path, lambda: "old").value == "old"

    def killed():
        import os

        os._exit(0)

    outcome = run(tmp_path, killed)

    assert (outcome.status, outcome.verdict) == (0, None)
    assert not (tmp_path / "result").exists()


@pytest.mark.parametrize("damage", [b"", b"PK\3\4 not a zip", None])
def test_a_damaged_bundle_is_named(tmp_path, damage):
    if damage is None:
        whole = run(tmp_path / "whole", lambda: 1)
        damage = (whole.folder / "bundle").read_bytes()[:-100]

    outcome = run(tmp_path, damage)

    assert (outcome.status, outcome.verdict.kind) == (76, "bundle")
    assert str(tmp_path / "bundle") in outcome.error


def test_a_damaged_pickle_inside_the_bundle_is_named(tmp_path):
    data = bytearray((run(tmp_path / "whole", lambda: "marker").folder / "bundle").read_bytes())
    data[data.index(b"marker")] ^= 1

    outcome = run(tmp_path, bytes(data))

    assert (outcome.status, outcome.verdict.kind) == (76, "bundle")


def test_a_folder_that_vanished_is_named_on_stderr(tmp_path):
    def function():
        import shutil

        shutil.rmtree(folder)
        return 1

    folder = str(tmp_path / "node")
    outcome = run(tmp_path / "node", function)

    assert (outcome.status, outcome.verdict) == (75, None)
    assert folder in outcome.stderr
