# SPDX-License-Identifier: Apache-2.0
"""Odd jobs and wrong input, seen from a node's result."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from covalent_joblog_plugin.executors.joblog_slurm import SlurmJobLogExecutor
from covalent_joblog_plugin.model.errors import OptionError
from tests.executors.dispatches import cancel, dispatch, electron_ids, node, snapshot, wait_for_text
from tests.executors.slurm_tasks import Tasks, options
from tests.rigs.covalent_server import SUBLATTICES_RUN, eventually
from tests.rigs.slurm import make_key

if TYPE_CHECKING:
    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig

GIB = 1 << 30


def test_a_job_shorter_than_a_poll_is_read_whole_by_one_command_a_tick(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, "print('only')", reader="exec", log_interval=5)
    tasks.completed()
    assert tasks.text() == b"only\n"


def test_one_command_a_tick_is_as_exact_as_a_channel(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    body = """
import os, time
for n in range(300):
    os.write(1, b"%d " % n * (n % 50) + "€\\n".encode())
    time.sleep(0.01)
"""
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, body, count=3, reader="exec", log_interval=0.5)
    tasks.completed()
    assert all(tasks.same(n) for n in tasks.nodes)


def test_a_sparse_file_of_five_gib_is_capped_with_a_seam_and_harms_nothing(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    body = f"""
with open("big.bin", "wb") as file:
    file.seek({5 * GIB})
    file.write(b"end")
print("made")
"""
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, body, log_files=["big.bin"], max_log_bytes=20_000_000)
    tasks.completed()
    assert tasks.text() == b"made\n"
    assert tasks.stored("big.bin") == bytes(20_000_000)
    assert [s["seam"] for s in tasks.seams()] == ["capped"]
    shutil.rmtree(tasks.folder())


def test_a_line_of_ten_mib_and_what_follows_it_arrive(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, "print('x' * (10 << 20)); print('end')")
    tasks.completed()
    assert tasks.text() == b"x" * (10 << 20) + b"\nend\n"


def test_a_file_the_job_truncates_while_it_writes_has_a_seam_and_all_texts(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    body = """
import os, time
with open("t.log", "w") as file: file.write("before\\n" * 3)
while not os.path.exists(f"{gate}/cut"): time.sleep(0.05)
with open("t.log", "w") as file: file.write("after\\n")
print("cut", flush=True)
while not os.path.exists(f"{gate}/go"): time.sleep(0.05)
"""
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, body, log_files=["t.log"])
    path = covalent_server.results_dir / tasks.id / "node_0" / "joblog" / "files" / "t.log"
    eventually(lambda: path.exists() and path.read_bytes() == b"before\n" * 3, 60, "the text before")
    (tmp_path / "cut").touch()
    eventually(lambda: path.read_bytes().endswith(b"after\n"), 60, "the text after")
    (tmp_path / "go").touch()
    tasks.completed()
    assert tasks.stored("t.log") == b"before\n" * 3 + b"after\n"
    assert [(s["seam"], s["file"], s["cursor"]) for s in tasks.seams()] == [("truncated", "t.log", 21)]


SUBLATTICE = """
import covalent as ct
slurm = ct.executor.SlurmJobLogExecutor(**options)

@ct.electron(executor=slurm)
def child(n):
    print(f"c{n}")
    return n

@ct.electron(executor=slurm)
@ct.lattice(executor=slurm, workflow_executor="joblog_local")
def inner():
    return [child(0), child(1)]

@ct.lattice(workflow_executor="joblog_local")
def flow():
    return inner()
"""


def test_a_sublattices_electrons_have_their_text_in_their_own_dispatch(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    dispatch_id = dispatch(covalent_server, SUBLATTICE, options=options(slurm_rig, tmp_path))
    ended = covalent_server.finished(dispatch_id, timeout=120)
    assert ended == ("COMPLETED" if SUBLATTICES_RUN else "FAILED")
    if not SUBLATTICES_RUN:
        return
    graph = json.loads(covalent_server.get(f"/api/v1/dispatches/{dispatch_id}/graph").body)["graph"]
    (sub,) = {found["sublattice_dispatch_id"] for found in graph["nodes"]} - {None}
    children = electron_ids(covalent_server, sub, "child")
    assert sorted(covalent_server.stdout(sub, n) for n in children) == [b"c0\n", b"c1\n"]
    assert "c0" not in (node(covalent_server, dispatch_id, 0)["stdout"] or "")


def failed(server: CovalentServer, rig: SlurmRig, workdir: Path, **more: Any) -> str:
    """The error of a task that cannot even begin; nothing may be left in the queue."""
    before = set(rig.jobs())
    tasks = Tasks(server, rig, workdir, "print('never')", **more)
    assert tasks.finished(timeout=150) == "FAILED"
    assert set(rig.jobs()) == before
    return str(node(server, tasks.id, 0)["error"])


def test_wrong_input_is_told_with_the_thing_the_cause_and_the_next_step(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    make_key(tmp_path / "stranger")
    nobody = tmp_path / "no_known_hosts"
    nobody.touch()
    changed = tmp_path / "changed_hosts"
    make_key(tmp_path / "other_host")
    key = " ".join((tmp_path / "other_host.pub").read_text().split()[:2])
    changed.write_text(f"[127.0.0.1]:{slurm_rig.ssh_port} {key}\n")
    (tmp_path / "file").touch()
    cases: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"client_keys": str(tmp_path / "absent")}, (str(tmp_path / "absent"), "client_keys")),
        ({"client_keys": str(tmp_path / "stranger")}, ("stranger", "refused")),
        ({"known_hosts": str(nobody)}, ("host key", "SHA256:", "ssh ")),
        ({"known_hosts": str(changed)}, ("host key", "changed")),
        ({"username": "nobody-here"}, ("nobody-here",)),
        ({"sbatch_options": {"partition": "absent"}}, ("partition", "absent")),
        ({"workdir": str(tmp_path / "file" / "x")}, (str(tmp_path / "file" / "x"),)),
        ({"sbatch_command": "no-such-sbatch"}, ("no-such-sbatch",)),
    ]
    for wrong, words in cases:
        given = dict(wrong)
        workdir = Path(given.pop("workdir", tmp_path))
        error = failed(covalent_server, slurm_rig, workdir, **given)
        assert all(word in error for word in words), (wrong, error)


def test_a_node_without_that_python_says_so_and_keeps_the_text(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, "print('never')", python="/absent/python3")
    assert tasks.finished() == "FAILED"
    found = node(covalent_server, tasks.id, 0)
    assert "/absent/python3" in found["error"]
    assert "python" in found["error"]
    assert "/absent/python3" in found["stderr"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"hots": "x"}, "did you mean 'host'"),
        ({"address": "x"}, "host"),
        ({"host": ""}, "host"),
        ({"host": "h", "cleanup": "sometimes"}, "cleanup='sometimes'"),
        ({"host": "h", "sbatch_options": {"array": "1-3"}}, "array"),
        ({"host": "h", "workdir": "a\nb"}, "workdir"),
        ({"host": "h", "environment": {"A;B": "x"}}, "A;B"),
    ],
)
def test_wrong_options_are_refused_in_the_client(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        SlurmJobLogExecutor(**wrong).to_dict()
    assert words in str(caught.value)


def test_both_ways_to_end_a_dispatch_at_once_end_it_once(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    tasks = Tasks(
        covalent_server, slurm_rig, tmp_path, "import time; print('x', flush=True); time.sleep(300)"
    )
    wait_for_text(covalent_server, tasks.id, 0, lambda text: text == b"x\n")
    cancel(covalent_server, tasks.id, 0)
    cancel(covalent_server, tasks.id)
    tasks.finished()
    assert [n["status"] for n in snapshot(covalent_server, tasks.id, 0)["nodes"]] == ["CANCELLED"]
