# SPDX-License-Identifier: Apache-2.0
"""What is read of a verdict, and the words for what went wrong."""

from __future__ import annotations

import json
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.errors import PayloadError
from covalent_joblog_plugin.payload import verdict as verdicts
from covalent_joblog_plugin.payload.verdict import Verdict, parse
from covalent_joblog_plugin.payload.wording import TAIL_LINES, error_text

KINDS = ["exception", "exit", "unpicklable", "unloadable", "covalent", "python", "unwritable", "bundle"]


def test_what_a_newer_runner_adds_is_left_out():
    told = {"kind": "ok", "size": 3, "sha256": "ab", "mood": "good"}

    assert parse(json.dumps(told).encode()) == Verdict("ok", size=3, sha256="ab")


@given(st.binary() | st.from_type(dict).map(repr).map(str.encode))
def test_bytes_that_are_no_verdict_are_refused(data):
    with pytest.raises(PayloadError, match="the verdict of the job cannot be read"):
        parse(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(sorted(Verdict.__slots__)), JSON))
def test_any_json_is_a_well_typed_verdict_or_refused(facts):
    try:
        verdict = parse(json.dumps(facts).encode())
    except PayloadError:
        return
    assert isinstance(verdict.kind, str)
    assert type(verdict.size) is type(verdict.code) is int
    assert error_text(verdict, 1)


@pytest.mark.parametrize("kind", [*KINDS, "unheard of"])
def test_every_kind_has_words_even_with_nothing_else_known(kind):
    assert error_text(Verdict(kind), 1).strip()


def test_kinds_before_the_function_are_told_apart():
    assert {kind for kind in KINDS if Verdict(kind).before_user_code} == set(verdicts.BEFORE_USER_CODE)


def test_an_exception_begins_with_its_own_words_and_keeps_the_last_lines():
    trace = "".join(f"line {n}\n" for n in range(100)) + "ValueError: bad\n"

    lines = error_text(Verdict("exception", type="ValueError", message="bad", traceback=trace), 1).split("\n")

    assert lines[0] == "ValueError: bad"
    assert lines[1] == f"line {101 - TAIL_LINES}"
    assert lines[-2:] == ["ValueError: bad", "the whole traceback stands in the node's stderr"]


def test_endless_lines_are_cut_and_say_so():
    long = "x" * 50_000

    for verdict in (
        Verdict("exception", type="E", message=long, traceback=long),
        Verdict("exit", message=long),
        Verdict("unpicklable", message=long, traceback=long),
    ):
        text = error_text(verdict, 1)
        assert len(text) < 3000
        assert "… (49000 more characters)" in text
    assert len(error_text(None, 1, long.encode())) < 3000


@pytest.mark.parametrize("number", sorted(signal.Signals))
def test_a_signal_is_named_alone_and_through_a_shell(number):
    alone, through_a_shell = error_text(None, -number), error_text(None, 128 + number)

    assert f"ended by signal {number.value} ({number.name}) before the function returned" in alone
    assert f"exit status {128 + number} (a shell's word for signal {number.value} ({number.name}))" in (
        through_a_shell
    )


def test_a_killed_process_points_to_memory():
    assert "out-of-memory killer" in error_text(None, -9)


@pytest.mark.parametrize("status", [1, 3, 127, 128, 255])
def test_an_end_without_a_word_points_to_os_exit(status):
    text = error_text(None, status)

    assert f"exit status {status} before the function returned" in text
    assert "os._exit" in text


def test_the_last_lines_of_stderr_are_shown_whatever_their_bytes():
    stderr = b"".join(b"%d\n" % n for n in range(50)) + "é\x0cx\u2028y".encode() + b"\xff\n\n"

    text = error_text(None, -11, stderr)

    assert text.split("stderr ended with:\n")[1].split("\n") == [
        *map(str, range(31, 50)),
        "é\x0cx\u2028y\ufffd",
    ]


DUMP = (
    """\
before
Fatal Python error: Segmentation fault

Current thread 0x1 (most recent call first):
  File "crash.py", line 3 in crash
"""
    + "".join(f'  File "deep.py", line {n} in call\n' for n in range(50))
    + "\nExtension modules: a, b (total: 2)\n"
)


def test_of_a_dump_of_the_interpreter_the_innermost_calls_are_shown():
    lines = error_text(Verdict("died"), -11, DUMP.encode()).split("\n")

    assert lines[0].startswith("the process was ended by signal 11 (SIGSEGV) before the function returned; ")
    assert "PYTHONFAULTHANDLER" not in lines[0]
    assert lines[2] == "Fatal Python error: Segmentation fault"
    assert lines[5] == '  File "crash.py", line 3 in crash'
    assert len(lines) == 2 + TAIL_LINES


def test_a_known_cause_leads_and_nothing_is_guessed():
    lines = error_text(Verdict("died"), -9, b"last words", cause="no memory: ask for more").split("\n")

    assert lines[:2] == [
        "no memory: ask for more",
        "the process was ended by signal 9 (SIGKILL) before the function returned",
    ]
    assert lines[-1] == "last words"


def test_where_the_whole_traceback_stands_is_the_callers_to_say():
    text = error_text(Verdict("exception", type="ValueError"), 1, whole="rank1.stderr of the node")

    assert text.endswith("the whole traceback stands in rank1.stderr of the node")


def test_silence_on_stderr_is_not_mentioned():
    assert "stderr ended" not in error_text(None, -11, b"\n\n")


def test_an_end_after_the_result_says_so():
    text = error_text(Verdict("ok"), -6, b"double free\n")

    assert text.startswith("the function returned, but then the process was ended by signal 6 (SIGABRT)")
    assert text.endswith("double free")


def test_libraries_of_another_major_version_are_named_with_both_versions():
    import numpy as np

    same = Verdict("unloadable", versions={"numpy": f"{np.__version__.split('.')[0]}.999"})
    other = Verdict("unloadable", versions={"numpy": "99.1", "torch": "1.13.1"})

    assert "numpy" not in error_text(same, 71)
    assert f"numpy there is 99.1, where Covalent's server runs it is {np.__version__}" in error_text(
        other, 71
    )
    assert "torch there is 1.13.1" in error_text(other, 71)
