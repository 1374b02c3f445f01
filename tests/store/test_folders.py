# SPDX-License-Identifier: Apache-2.0
"""Dispatches and nodes found in Covalent's results folder alone, and whether their writer lives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from covalent_joblog_plugin.model.errors import BadSelection, OutputNotFound
from covalent_joblog_plugin.store.folders import find_dispatch, find_jobs
from covalent_joblog_plugin.store.state import writer, writer_lives

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW, OTHER = (f"{first}-1111-4111-8111-111111111111" for first in ("aaaa0000", "aaaa1111", "bbbb0000"))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for at, dispatch_id in enumerate((OTHER, OLD, NEW)):
        (tmp_path / dispatch_id).mkdir()
        os.utime(tmp_path / dispatch_id, (at, at))
    (tmp_path / "notes").mkdir()
    return tmp_path


def node(results: Path, number: int, **known: Any) -> None:
    folder = results / NEW / f"node_{number}"
    folder.mkdir()
    if known:
        (folder / "joblog").mkdir()
        state = {"instance": "i", "state": "live", "remembered": known, "writer": {"pid": 1}}
        (folder / "joblog" / "state.json").write_text(json.dumps(state))


def test_a_dispatch_is_named_by_a_unique_beginning_or_is_the_newest(results: Path) -> None:
    assert find_dispatch(results, None) == find_dispatch(results, "latest") == NEW
    assert find_dispatch(results, "bb") == OTHER
    assert find_dispatch(results, OLD) == OLD
    with pytest.raises(BadSelection, match=f"'aaaa' begins 2 ids: {NEW}, {OLD}"):
        find_dispatch(results, "aaaa")
    for asked in ("cc", "", "notes"):
        with pytest.raises(OutputNotFound) as raised:
            find_dispatch(results, asked)
        assert raised.value.exists == [NEW, OLD, OTHER]
    with pytest.raises(OutputNotFound, match="run this where Covalent's server runs"):
        find_dispatch(results / "absent", None)


def test_nodes_are_named_by_number_name_or_pattern(results: Path) -> None:
    node(results, 10, job={"id": 7}, name="train", executor={"name": "e", "options": {}})
    node(results, 2, name="prepare")
    node(results, 3)

    def found(asked: int | str | None) -> list[int]:
        return [job.node_id for job in find_jobs(results, NEW, asked)]

    assert found(None) == [10]
    assert found(3) == [3]
    assert found("pre*") == [2]
    assert found("*") == [2, 3, 10]
    (job,) = find_jobs(results, NEW, "train")
    assert (job.handle, job.state, str(job)) == ({"id": 7}, "live", f"node 10 (train) of {NEW}")
    with pytest.raises(OutputNotFound, match=r"no node 4 in .*; with jobs: 10 \(train\)"):
        find_jobs(results, NEW, 4)


def test_a_process_is_told_from_every_other_one() -> None:
    script = (
        "import json; from covalent_joblog_plugin.store.state import writer;"
        "print(json.dumps(writer()), flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    known = json.loads(child.stdout.readline())
    assert writer_lives(known) is True
    assert writer_lives({**known, "started": known["started"] - 1}) is False
    assert writer_lives({**known, "boot": "another"}) is False
    assert writer_lives({**known, "host": "another"}) is None
    assert writer_lives(None) is None
    child.communicate("\n")
    assert writer_lives(known) is False
    assert writer_lives(writer()) is True
