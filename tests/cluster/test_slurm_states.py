# SPDX-License-Identifier: Apache-2.0
"""What squeue says and what it means."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster.slurm_states import (
    FIELDS,
    FINAL,
    FINAL_LATER,
    LIVE,
    ExitStatus,
    JobRow,
    Meaning,
    decode_shell_status,
    decode_wait_status,
    meaning,
    parse_accounting,
    parse_record,
    parse_rows,
)
from covalent_joblog_plugin.model.errors import TransportError
from tests.cluster.slurm_jobs import submitted
from tests.rigs.daemons import until

STATES = sorted(LIVE | FINAL | FINAL_LATER)
WORDS = st.text(st.characters(codec="ascii", exclude_characters="|\n\r\x0b\x0c\x1c\x1d\x1e"), max_size=20)
ROWS = st.builds(
    JobRow,
    st.integers(1, 2**31),
    st.sampled_from(STATES),
    st.integers(0, 99),
    st.integers(0, 65535),
    WORDS.map(str.strip).filter(lambda text: text != "None"),
    WORDS.map(str.strip).filter(lambda text: text != "(null)"),
)


def line(row):
    return "|".join(str(getattr(row, name)) for name in JobRow.__slots__) + "|\n"


@given(st.lists(ROWS, unique_by=lambda row: row.job_id), st.lists(WORDS))
def test_every_row_comes_back_whatever_stands_between(rows, noise):
    text = "".join(line(row) for row in rows) + "".join(f"{word}\n" for word in noise)
    assert parse_rows(text) == {row.job_id: row for row in rows}


def test_a_row_as_squeue_prints_it(slurm_rig):
    job = int(
        slurm_rig.slurm("sbatch", "--parsable", "-o", "/dev/null", "--begin=now+1hour", "--wrap", "true")
    )

    def row():
        return parse_rows(slurm_rig.slurm("squeue", "-h", "--me", "-t", "all", "-O", FIELDS))[job]

    until(lambda: row().reason == "BeginTime", "the controller has looked at it")
    seen = row()
    assert (seen.state, seen.restarts, seen.wait_status, seen.reason, seen.nodes) == (
        "PENDING",
        0,
        0,
        "BeginTime",
        "",
    )
    slurm_rig.slurm("scancel", str(job))


@pytest.mark.parametrize(
    "text",
    [
        "CLUSTER: one\nJobID|State\n",
        "2043_1|RUNNING|0|0|None|n1|\n",
        "2046+0|RUNNING|0|0|None|n1|\n",
        "7|RUNNING|0|0|None\n",
        "slurm_load_jobs error: Unable to contact slurm controller\n",
        "",
    ],
)
def test_lines_of_other_shape_say_nothing(text):
    assert parse_rows(text) == {}


def test_only_the_state_field_counts():
    rows = parse_rows("7|COMPLETED|0|0|RUNNING|PENDING|\n8|FAILED|0|256|COMPLETED|COMPLETED-x|\n")
    assert (rows[7].state, rows[8].state) == ("COMPLETED", "FAILED")


def test_cancelled_by_somebody_is_cancelled():
    assert parse_rows("7|CANCELLED by 0|0|15|None|n1|\n")[7].state == "CANCELLED"


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_one_meaning(state):
    assert [state in LIVE, state in FINAL, state in FINAL_LATER].count(True) == 1
    assert meaning(state) is not Meaning.UNKNOWN


def test_a_word_not_known_is_not_taken_for_an_end():
    assert meaning("HIBERNATING") is Meaning.UNKNOWN


@pytest.mark.parametrize(
    ("raw", "status"),
    [(0, ExitStatus()), (11008, ExitStatus(code=43)), (15, ExitStatus(signal=15)), (9, ExitStatus(signal=9))],
)
def test_a_raw_wait_status_is_decoded(raw, status):
    assert decode_wait_status(raw) == status


@pytest.mark.parametrize(
    ("raw", "status", "words"),
    [
        (0, ExitStatus(), "exit code 0"),
        (3, ExitStatus(code=3), "exit code 3"),
        (137, ExitStatus(signal=9), "ended by signal 9 (SIGKILL)"),
        (128, ExitStatus(code=128), "exit code 128"),
        (255, ExitStatus(code=255), "exit code 255"),
        (200, ExitStatus(code=200), "exit code 200"),
    ],
)
def test_a_shells_status_is_decoded_and_told_in_words(raw, status, words):
    assert decode_shell_status(raw) == status
    assert str(status) == words


@given(st.dictionaries(st.from_regex(r"[a-z]+", fullmatch=True), WORDS), st.data())
def test_a_marker_counts_only_when_it_is_whole(pairs, data):
    text = "".join(f"{name}={value}\n" for name, value in pairs.items()) + "end\n"
    assert parse_record(text.encode()) == pairs
    cut = data.draw(st.integers(0, len(text) - 1))
    assert parse_record(text[:cut].encode()) is None


def test_a_whole_marker_that_is_none_is_called_garbled():
    with pytest.raises(TransportError, match="garbled"):
        parse_record(b"something else\nend\n")


def test_what_accounting_says_counts_only_where_the_job_is_over():
    text = "7|COMPLETED|0:0|n1\n8|CANCELLED by 0|0:15|n2\n9|RUNNING|0:0|n3\n7.batch|FAILED|1:0|n1\n\n"
    rows = parse_accounting(text)
    assert {number: (row.state, row.wait_status) for number, row in rows.items()} == {
        7: ("COMPLETED", 0),
        8: ("CANCELLED", 15),
    }


async def test_a_squeue_that_lists_nothing_ends_no_job_that_the_controller_has(
    make_cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr("covalent_joblog_plugin.cluster.slurm_job.VANISHED_GRACE", 4.0)
    (tmp_path / "squeue").write_text("#!/bin/bash\nexit 0\n")
    (tmp_path / "squeue").chmod(0o755)
    cluster = make_cluster(slurm_path=str(tmp_path), state_interval=1.0)
    job = await submitted(cluster, "import time; time.sleep(10); raise SystemExit(3)", tmp_path / "w")
    end = await asyncio.wait_for(cluster.ended(job), 40)
    assert (end.state, end.status, end.recorded) == ("FAILED", ExitStatus(code=3), True)
