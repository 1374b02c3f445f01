# SPDX-License-Identifier: Apache-2.0
"""What ranks other than 0 return is nobody's, and what steers Python steers the function alone."""

import pytest

from tests.payload.pods import run

OTHER = {"JOB_COMPLETION_INDEX": "1"}


def unpicklable():
    import threading

    print("here")
    return threading.Lock()


def leaves():
    import sys

    print("here")
    sys.exit(0)


@pytest.mark.parametrize("function", [unpicklable, leaves])
def test_no_value_is_wanted_of_another_rank(tmp_path, function):
    done = run(tmp_path / "other", function, **OTHER)
    assert (done.status, done.found.where, done.text(1)) == (0, "", b"here\n")
    assert done.complete
    assert run(tmp_path / "leader", function).status != 0


def test_a_failure_of_another_rank_is_one(tmp_path):
    def function():
        raise ValueError("no")

    done = run(tmp_path, function, **OTHER)
    assert (done.status, done.verdict.kind) == (1, "exception")


@pytest.mark.parametrize(
    "given",
    [
        {"PYTHONPROFILEIMPORTTIME": "1"},
        {"PYTHONVERBOSE": "1"},
        {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "error"},
    ],
)
def test_what_steers_python_writes_nothing_of_ours_into_the_log(tmp_path, given):
    def function():
        import os
        import sys

        print(sorted(name for name in os.environ if name.startswith("PYTHON")))
        return bool(sys.flags.dev_mode), bool(sys.flags.verbose)

    done = run(tmp_path, function, given=given)
    assert done.status == 0, done.text(2)
    assert done.value == ("PYTHONDEVMODE" in given, "PYTHONVERBOSE" in given)
    assert all(name.encode() in done.text(1) for name in given)
    assert done.complete
    assert done.stderr == b""


def test_nothing_of_the_task_is_left_where_temporary_files_stay(tmp_path):
    place = tmp_path / "kept"
    place.mkdir()
    assert run(tmp_path / "pod", lambda: 4, TMPDIR=str(place)).value == 4
    assert list(place.iterdir()) == []


def test_a_function_may_close_every_descriptor(tmp_path):
    def function():
        import os

        os.closerange(3, 1000)
        return 4

    assert run(tmp_path, function).value == 4


@pytest.mark.parametrize("how", ["closed", "none", "odd", "huge"])
def test_any_way_to_exit_is_told(tmp_path, how):
    def function():
        import sys

        class Odd:
            def __str__(self):
                raise ValueError

        if how == "closed":
            sys.stderr.close()
        if how == "none":
            sys.stderr = None
        sys.exit({"closed": "msg", "none": "msg", "odd": Odd(), "huge": 10**5000}[how])

    done = run(tmp_path, function)
    assert done.verdict.kind == "exit", done.text(2)
    assert "Traceback" not in done.text(2).decode()
