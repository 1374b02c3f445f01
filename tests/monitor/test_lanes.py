# SPDX-License-Identifier: Apache-2.0
"""Which file feeds which output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.records import FileRef
from covalent_joblog_plugin.monitor.lanes import Lanes


def outputs(*files: FileRef | str) -> dict[str, list[str]]:
    lanes = Lanes()
    lanes.update(files)
    return {name: [p.ref.path for p in lane.positions] for name, lane in lanes.by_output.items()}


@pytest.mark.parametrize("err", ["/x/stderr", "/x/stderr.log", "job.err", "/a/b/slurm-1.err"])
def test_a_plain_string_that_looks_like_stderr_is_stderr(err: str) -> None:
    assert outputs(err, "/x/out.txt") == {"stderr": [err], "stdout": ["/x/out.txt"]}


def test_the_first_other_string_is_stdout_and_the_rest_are_extra_files() -> None:
    assert outputs("/x/a.log", "/x/b.csv", "/y/b.csv") == {
        "stdout": ["/x/a.log"],
        "b.csv": ["/x/b.csv"],
        "b.csv~2": ["/y/b.csv"],
    }


def test_what_is_stdout_stays_stdout_whatever_comes_first_later() -> None:
    lanes = Lanes()
    lanes.update(["/x/late.log"])
    lanes.update(["/x/early.log", "/x/late.log"])
    assert [p.ref.path for p in lanes.by_output["stdout"].positions] == ["/x/late.log"]
    assert [p.ref.path for p in lanes.by_output["early.log"].positions] == ["/x/early.log"]


def test_other_ranks_are_files_of_their_own() -> None:
    refs = [FileRef("o0", stream="stdout"), FileRef("o1", stream="stdout", rank=1)]
    assert outputs(*refs) == {"stdout": ["o0"], "rank1.stdout": ["o1"]}


def test_a_joint_log_is_the_stdout_of_the_node() -> None:
    assert outputs(FileRef("pod", stream="log")) == {"stdout": ["pod"]}


@given(st.permutations(range(5)), st.booleans())
def test_executions_are_read_in_their_order_however_they_appear(order: list[int], begun: bool) -> None:
    lanes = Lanes()
    for n in order:
        lanes.update([FileRef(f"x{n}", stream="stdout", execution=n)])
        if begun:
            lanes.by_output["stdout"].positions[0].pos = 1
    found = [p.ref.execution for p in lanes.by_output["stdout"].positions]
    assert found == ([order[0], *sorted(order[1:])] if begun else sorted(order))
