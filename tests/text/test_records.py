# SPDX-License-Identifier: Apache-2.0
"""What belongs together stays together, and has one severity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.log_line import LogLine, Severity
from covalent_joblog_plugin.text.records import RECORD_CHARACTERS, RECORD_LINES, Records
from covalent_joblog_plugin.text.severity import severity

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


def judged(*texts):
    records = Records()
    lines = [LogLine(text, 0) for text in texts]
    return [(records.judge(line), line.severity) for line in lines]


def records_of(*texts):
    found = []
    for text, (begins, _) in zip(texts, judged(*texts), strict=True):
        if begins:
            found.append([])
        found[-1].append(text)
    return found


TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "x", line 1, in f',
    "    g()",
    "    ~^^",
    "ValueError: bad",
]
CHAIN = [
    *TRACEBACK,
    "",
    "During handling of the above exception, another exception occurred:",
    "",
    "Traceback (most recent call last):",
    '  File "x", line 3, in h',
    "torch.cuda.OutOfMemoryError: CUDA out of memory",
    "\tTried to allocate 2 GiB",
]
GROUP = [
    "  + Exception Group Traceback (most recent call last):",
    '  |   File "x", line 1, in f',
    "  | ExceptionGroup: two (2 sub-exceptions)",
    "  +-+---------------- 1 ----------------",
    "    | ValueError: bad",
    "    +------------------------------------",
]
JAVA = [
    'Exception in thread "main" java.lang.X: y',
    "\tat a.B.c(B.java:1)",
    "Caused by: java.lang.Z",
    "\t... 5 more",
]
RANK = [f"[rank1]: {line}" for line in CHAIN]
JULIA = ["┌ Error: bad", "│   x = 1", "└ @ Main a.jl:3"]
SOURCE = ["/x/y.py:3: UserWarning: odd", "  warnings.warn('odd')"]


@pytest.mark.parametrize("record", [TRACEBACK, CHAIN, GROUP, JAVA, RANK, JULIA], ids=lambda record: record[0])
def test_a_traceback_is_one_record_and_an_error(record):
    assert records_of("step 1", *record, "step 2", " step 3") == [["step 1"], record, ["step 2"], [" step 3"]]
    assert {level for _, level in judged(*record)} == {ERROR}


def test_a_traceback_belongs_to_the_message_that_was_logged_with_it():
    head = "2024-05-01 12:00:00,1 - t - ERROR - failed"
    tail = "2024-05-01 12:00:01,1 - t - INFO - next"
    assert records_of(head, *TRACEBACK, tail) == [[head, *TRACEBACK], [tail]]
    assert [level for _, level in judged(head, *TRACEBACK, tail)] == [ERROR] * 6 + [INFO]


def test_a_traceback_under_a_warning_is_an_error():
    assert records_of("WARNING odd", *TRACEBACK) == [["WARNING odd", *TRACEBACK]]
    assert judged("WARNING odd", *TRACEBACK) == [(True, WARNING)] + [(False, ERROR)] * 5


@pytest.mark.parametrize("before", ["INFO all is well", "step 1", "", " 37%|###7"])
def test_a_traceback_of_its_own_does_not_belong_to_what_was_said_before(before):
    assert records_of(before, *TRACEBACK) == [[before], TRACEBACK]


def test_two_tracebacks_are_two_records():
    assert records_of(*TRACEBACK, *TRACEBACK)[0] == TRACEBACK + TRACEBACK
    assert records_of(*TRACEBACK, "step", *TRACEBACK) == [TRACEBACK, ["step"], TRACEBACK]


def test_a_traceback_behind_a_progress_bar_is_one():
    bar = " 37%|###7      | 37/100" + TRACEBACK[0]
    assert records_of(bar, *TRACEBACK[1:]) == [[bar, *TRACEBACK[1:]]]


@pytest.mark.parametrize(
    "exception", ["KeyboardInterrupt", "a.b.Odd: x", "SystemExit: 1", "f.<locals>.E: x", "E(1)"]
)
def test_whatever_ends_a_traceback_belongs_to_it(exception):
    assert records_of(*TRACEBACK[:-1], exception, "next") == [[*TRACEBACK[:-1], exception], ["next"]]


def test_a_line_of_somebody_else_ends_a_traceback_and_is_judged_by_itself():
    assert judged(*TRACEBACK[:-1], "2 steps done")[-1] == (True, None)
    assert judged(*TRACEBACK[:-1], " 37%|###7", "100%|####")[-1] == (True, None)


def test_what_is_indented_under_a_message_belongs_to_it():
    assert records_of("INFO config:", "  a: 1", "  b: 2", "c") == [
        ["INFO config:", "  a: 1", "  b: 2"],
        ["c"],
    ]
    assert judged("INFO config:", "  a: 1")[1] == (False, INFO)
    assert records_of(*SOURCE) == [SOURCE]
    assert judged(*SOURCE)[1] == (False, WARNING)


@pytest.mark.parametrize("apart", ["  ERROR x", " 37%|###7", "", "   ", "x"])
def test_what_speaks_for_itself_is_apart(apart):
    assert records_of("INFO x", apart) == [["INFO x"], [apart]]


def test_plain_lines_are_records_of_one_line():
    assert records_of("a", "  b", "\tc", "") == [["a"], ["  b"], ["\tc"], [""]]


def test_colours_do_not_hide_a_traceback():
    coloured = [f"\x1b[31m{line}\x1b[0m" for line in TRACEBACK]
    assert records_of("x", *coloured) == [["x"], coloured]


def test_a_break_ends_a_record():
    records = Records()
    lines = [LogLine(text, 0, execution=0) for text in TRACEBACK[:2]]
    lines[1].ended = False
    later = [
        LogLine("    g()", 0, execution=0),
        LogLine("ERROR x", 0, execution=0),
        LogLine("  y", 0, execution=1),
    ]
    assert [records.judge(line) for line in lines + later] == [True, False, True, True, True]


def test_a_record_is_bounded():
    assert sum(begins for begins, _ in judged("INFO x", *["  y"] * RECORD_LINES)) == 2
    assert judged("INFO x", "  y" * RECORD_CHARACTERS)[1][0]
    assert len(records_of(*TRACEBACK[:1], *["  f"] * 3 * RECORD_LINES)[0]) == RECORD_LINES


@given(
    st.lists(st.sampled_from([*CHAIN, *JAVA, *GROUP, "INFO x", "WARNING y", "step", " 5%|#"]), max_size=20)
)
def test_the_lines_of_a_record_never_get_less_severe(texts):
    last = None
    for text, (begins, level) in zip(texts, judged(*texts), strict=True):
        assert level == severity(text) if begins else level >= last
        last = level
