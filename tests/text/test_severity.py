# SPDX-License-Identifier: Apache-2.0
"""A line's severity is what it says of itself, not what words are in it."""

import json
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.log_line import Severity
from covalent_joblog_plugin.text.severity import is_progress, severity, source

DEBUG = [
    "DEBUG:app:x",
    "TRACE x",
]
INFO = [
    "2024-05-01 12:00:00,1 - t - INFO - 0 errors, error=timeout",
    "I0501 12:00:00.000000       7 a.cc:1] ok",
    "2024-05-01 12:00:00.123 | INFO     | mod:fn:1 - error msg",
    "INFO:     Started server",
    "[01/May/2024 12:00:00] INFO [name:12] msg",
    "[2024-05-01T12:00:00.000+0000] {taskinstance.py:12} INFO - error",
    "[INFO|trainer.py:123] 2024-05-01 12:00:00,123 >> Error msg",
    "05/01 12:00:00 - mmengine - INFO - x",
    "[2024-05-01 12:00:00,123] [INFO] [runner.py:1:main] error",
    "2024-05-01 12:00:00,123\tINFO worker.py:1234 -- Started",
    "[2024-05-01T12:00:00Z INFO  crate] x",
    "2024-05-01T12:00:00.000Z  INFO crate: msg",
    "2024-05-01T12:00:00.000Z\tinfo\tcaller\tmsg",
    "INFO[0000] msg",
    "12:00PM INF msg",
    "2024-05-01 12:00:00 [info     ] msg",
    "level=info msg=error",
    "2024-05-01 12:00:00.123456: I tensorflow/core/x.cc:12] msg",
    "n1:12:13 [0] NCCL INFO error",
    "INFORMATION about x",
    "[ Info: x",
    "2024-05-01 12:00:00 root INFO starting",
]
WARNING = [
    '{"level":"WARNING","msg":"An error occurred"}',
    "WARN disk 91%",
    "sbatch: warning: x",
    "WARNING:root:msg",
    "24/05/01 12:00:00 WARN Class: msg",
    "/path/x.py:3: UserWarning: text",
    "file.c:3:5: warning: bad",
    "2024-05-01 12:00:00,123 - distributed.worker - WARNING - x",
    "[12:00:00] WARNING: /path/x: x",
    "wandb: WARNING x",
    "2024-05-01 12:00:00 [warning  ] msg",
    "n1:12:13 [0] NCCL WARN error",
    "[W501 12:00:00.123456789 ProcessGroupNCCL.cpp:1250] Warning: x",
    "Warning: x",
    "┌ Warning: x",
    "2024-05-01 12:00:00 mylogger WARNING msg",
    "Warning message:",
]
ERROR = [
    "TypeError: x",
    "E0501 12:00:00.000000 7 torch/run.py:12] failed",
    "slurmstepd: error: *** JOB 42 ON n1 CANCELLED AT 2024-05-01T12:00:00 DUE TO TIME LIMIT ***",
    "srun: error: n1: task 0: Exited with exit code 1",
    "[ERROR] msg",
    "[error] msg",
    "ERROR Class - msg",
    "file.c:3:5: error: bad",
    "Error: x",
    "error: x",
    "ERROR: 5 files failed",
    "KeyError: 0",
    "KeyError: 'a'",
    "ValueError",
    "KeyboardInterrupt",
    "torch.cuda.OutOfMemoryError: CUDA out of memory.",
    "May  1 12:00:00 host app[12]: ERROR x",
    "wandb: ERROR x",
    'time="2024" level=error msg="x"',
    "ERROR",
    'Exception in thread "main" java.lang.NullPointerException',
    "java.lang.NullPointerException: x",
    "Traceback (most recent call last):",
    " 37%|##Traceback (most recent call last):",
    '{"level":50}',
    '{"levelno":40}',
    '{"severity":"error"}',
    "Error in f(x) : bad",
]
CRITICAL = [
    "file.c:3:5: fatal error: bad",
    "panic: runtime error",
    "thread 'main' panicked at src/main.rs:2:5:",
    "Fatal Python error: Segmentation fault",
    "Segmentation fault (core dumped)",
    "/x/y: line 3:  1234 Segmentation fault      (core dumped) ./a",
    "Killed",
    "fatal: not a git repository",
    "Panic: x",
]
NONE = [
    "information: x",
    "Alert: x",
    "GET /q?levels=error HTTP/1.1 200",
    "0 failed, 12 passed",
    "terror.py loaded",
    " 37%|###7",
    "Error: 0.123",
    "error: 0.1, loss: 3",
    "Errors: 0",
    "error rate 0.3",
    "MeanSquaredError: 0.5",
    "May  1 12:00:00 host app[12]: all fine",
    "see level=error in the docs",
    "Killed 3 workers",
    "npm ERR! x",
    "",
    "   ",
    "INFORMER x",
    "Info about the run",
    "(train pid=12) x",
    "step 5 ERROR in text",
    "the ERROR: was",
    "loss: 0.5",
    "Epoch 1 - ERROR rate: 0.3",
    '{"a": 1',
    '{"level":{"a":1}}',
    "{x} ERROR y",
    "ERROR rate:  37%|###7  | 37/100",
    "D: drive",
    "I am",
    "W",
    "F",
    "mpirun noticed that process rank 0 exited",
    "Fine: x",
    "Success: all done",
    "fine: ok",
    "12:00:00 step 3 loss 0.2",
    "<3>x",
    "a" * 5000,
]


def of(text):
    return severity(text[source(text) :])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(DEBUG, 10), (INFO, 20), (WARNING, 30), (ERROR, 40), (CRITICAL, 50), (NONE, None)],
    ids=["debug", "info", "warning", "error", "critical", "none"],
)
def test_what_lines_say_of_themselves(lines, expected):
    assert {line: of(line) for line in lines} == dict.fromkeys(lines, expected)


PREFIXES = [
    "",
    "2024-05-01 12:00:00,123 - name - ",
    "2024-05-01T12:00:00.123456Z ",
    "2024-05-01 12:00:00+02:00 [main] ",
    "[2024-05-01 12:00:00,123] [",
    "[12:00:00] ",
    "12:00:00.123 | ",
    "name:",
    "[rank3]: ",
    "(train pid=77, ip=10.0.0.1) ",
    "3: ",
    "May 31 23:59:59 n1 slurmstepd[7]: ",
    "[main] ",
    "<",
]
SPELLINGS = {
    "TRACE": 10,
    "DEBUG": 10,
    "INFO": 20,
    "NOTICE": 20,
    "WARN": 30,
    "WARNING": 30,
    "ERROR": 40,
    "ERR": 40,
}
SPELLINGS |= {"CRITICAL": 50, "FATAL": 50, "CRIT": 50, "PANIC": 50, "SEVERE": 40, "VERBOSE": 10}


@pytest.mark.parametrize("before", PREFIXES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_level_counts_after_times_names_and_separators(before, spelling):
    for after in (" x", ": x", " - 0 errors", "] x", "", " | INFO"):
        assert of(before + spelling + after) == SPELLINGS[spelling], before + spelling + after


@pytest.mark.parametrize(
    "before", ["the ", "GET /", "step 3 ", "x=", "loss: 0.5 ", "no such ", '"', "a b c - "]
)
@pytest.mark.parametrize("spelling", [*SPELLINGS, "error", "Warning"])
def test_a_word_in_the_text_is_no_level(before, spelling):
    for after in (" x", ": x", "s found", ""):
        assert of(before + spelling + after) is None, before + spelling + after


@pytest.mark.parametrize("key", ["level", "severity", "levelname", "lvl", "log.level"])
@pytest.mark.parametrize("spelling", ["warn", "WARNING", "Warning"])
def test_the_level_of_json_stands_under_its_key(key, spelling):
    assert severity(json.dumps({"msg": "error: x", key: spelling})) is Severity.WARNING


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"level": 30}, 20),
        ({"level": 60}, 50),
        ({"levelno": 25}, 20),
        ({"levelno": 1000}, 50),
        ({"level": "unheard of"}, None),
        ({"level": None, "msg": "ERROR"}, None),
        ({"level": True}, None),
        ({"msg": "level error"}, None),
    ],
)
def test_levels_in_numbers_are_those_of_pino_and_of_python(record, expected):
    assert severity(json.dumps(record)) == expected


def test_json_without_end_or_bottom_has_none():
    assert severity('{"level":"error"' + " " * 100_000 + "}") is None
    assert severity('{"a":' * 20_000) is None


@pytest.mark.parametrize("letter", "DIWEF")
def test_letters_of_klog(letter):
    expected = {"D": 10, "I": 20, "W": 30, "E": 40, "F": 50}[letter]
    for line in (
        f"{letter}0501 12:00:00.000001       7 a.cc:1] error",
        f"{letter}20240501 12:00:00.000001 7 a.cc:1] error",
        f"{letter}0000 00:00:1714564800.123456 7 a.cc:1] error",
        f"[rank0]: {letter}0501 12:00:00.1 77 torch/x.py:7] error",
    ):
        assert of(line) == expected
    assert of(f"{letter}0501 is no time") is None


@pytest.mark.parametrize(
    "bar",
    [
        " 37%|###7",
        "ERROR rate:  37%|###7      | 37/100 [00:01<00:02, 31.2it/s]",
        "100%|██████████| 10/10 [00:00<00:00, 99.1it/s, error=0.1]",
        "WARNING 5% |#    |",
    ],
)
def test_a_progress_bar_has_none(bar):
    assert is_progress(bar)
    assert severity(bar) is None


@given(st.text(max_size=600))
def test_any_text_has_a_severity_or_none(text):
    assert of(text) in {None, *Severity}


TIRING = [
    "- ",
    "[",
    "(a",
    "12:",
    "a:",
    "[a] ",
    "a - ",
    "a.b|",
    " ",
    "1",
    "a",
    "10:10 ",
    "<",
    "[a]:",
    "a:1:1:",
    "a.B",
]


@pytest.mark.parametrize(
    "piece", [*TIRING, "Aa.", "A", "Mon, ", "2024-", "{", "9%", "x=1 ", ",T ", string.punctuation]
)
def test_no_line_takes_long(piece):
    line = piece * (300_000 // len(piece))
    begun = time.thread_time()
    for _ in range(10):
        of(line)
    assert time.thread_time() - begun < 0.1
