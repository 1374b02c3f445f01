# SPDX-License-Identifier: Apache-2.0
"""``joblog result``: values that Covalent has, and values that only the cluster has."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
from typing import TYPE_CHECKING

from tests.cli.left_jobs import begun, joblog, left_behind, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer


def test_a_value_that_covalent_has_is_shown_saved_and_unpickled_only_on_request(
    covalent_server: CovalentServer, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    dispatch_id = begun(covalent_server, tmp_path)
    covalent_server.completed(dispatch_id)
    saved = tmp_path / "value.pkl"
    out, err = run(covalent_server, "result", dispatch_id[:12], "0", "--save", str(saved))
    assert "Covalent has it" in out.decode()
    assert f"sha256 {hashlib.sha256(saved.read_bytes()).hexdigest()}" in out.decode()
    assert "unpickling" not in err
    assert pickle.loads(saved.read_bytes()) == {"lines": 0}
    assert saved.stat().st_mode & 0o777 == 0o600
    _, err = run(covalent_server, "result", dispatch_id, "0", "--save", str(saved), status=2)
    assert f"{saved} exists" in err
    out, err = run(covalent_server, "result", dispatch_id, "0", "--unpickle")
    assert out.decode().splitlines()[-1] == "{'lines': 0}"
    assert "this runs what the job put into it" in err


def test_a_job_that_outlived_its_server_gives_its_value_when_it_ends(
    fresh_covalent_server: CovalentServer, tmp_path: Path
) -> None:
    dispatch_id = left_behind(fresh_covalent_server, tmp_path)
    waits = joblog(fresh_covalent_server, "result", "latest", "count", "--unpickle")
    assert waits.stderr is not None
    assert b"until the job has ended" in waits.stderr.readline()
    (tmp_path / "go").touch()
    out, _ = waits.communicate(timeout=60)
    assert waits.returncode == 0
    assert f"node 0 (count) of {dispatch_id}: from the cluster" in out.decode()
    assert out.decode().splitlines()[-1].startswith("{'lines': ")


def test_a_job_that_failed_says_why(fresh_covalent_server: CovalentServer, tmp_path: Path) -> None:
    left_behind(fresh_covalent_server, tmp_path)
    (tmp_path / "fail").touch()
    (tmp_path / "go").touch()
    out, err = run(fresh_covalent_server, "result", status=1)
    assert out == b""
    assert "ValueError: no luck" in err


def test_a_task_that_was_killed_left_no_result(fresh_covalent_server: CovalentServer, tmp_path: Path) -> None:
    dispatch_id = left_behind(fresh_covalent_server, tmp_path)
    state = fresh_covalent_server.results_dir / dispatch_id / "node_0" / "joblog" / "state.json"
    os.kill(json.loads(state.read_text())["remembered"]["job"]["pid"], signal.SIGKILL)
    _, err = run(fresh_covalent_server, "result", status=1)
    assert "is gone and left no result" in err


def test_what_is_not_there_is_said_with_what_there_is(
    covalent_server: CovalentServer, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    dispatch_id = begun(covalent_server, tmp_path)
    covalent_server.completed(dispatch_id)
    _, err = run(covalent_server, "result", dispatch_id, "7", status=3)
    assert f"{dispatch_id} has no node 7" in err
    assert "0 (count)" in err
    _, err = run(covalent_server, "result", "zzz", status=3)
    assert "no dispatch that begins with 'zzz'" in err
    for end in "01":
        (covalent_server.results_dir / f"ffffffff-ffff-4fff-8fff-fffffffffff{end}").mkdir()
    _, err = run(covalent_server, "result", "ffff", status=2)
    assert "'ffff' begins 2 ids" in err
    for end in "01":
        (covalent_server.results_dir / f"ffffffff-ffff-4fff-8fff-fffffffffff{end}").rmdir()
    # A value cut off by a server that was killed is not taken for whole.
    stored = covalent_server.results_dir / dispatch_id / "node_0" / "results.tobj"
    stored.write_bytes(stored.read_bytes()[:-4])
    _, err = run(covalent_server, "result", dispatch_id, "0", status=1)
    assert "cut off" in err
