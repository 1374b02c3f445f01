# SPDX-License-Identifier: Apache-2.0
"""Workflows of Slurm jobs: live, exact, on one connection."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from tests.executors.dispatches import dispatch, electron_ids, node, snapshot, wait_for_text
from tests.executors.slurm_tasks import Tasks, options

if TYPE_CHECKING:
    from pathlib import Path

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.slurm import SlurmRig

THREE = """
import covalent as ct
options["log_files"] = ["losses.csv"]
slurm = ct.executor.SlurmJobLogExecutor(**options)

@ct.electron(executor=slurm)
def train(n, fails):
    import os, sys, time
    with open("losses.csv", "w", buffering=1) as losses:
        for step in range(5):
            print(f"task {n} step {step} €")
            print(f"careful {step}", file=sys.stderr)
            losses.write(f"{step},{1 / (step + 1)}\\n")
            while not os.path.exists(f"{gate}/{step}"):
                time.sleep(0.02)
    if fails:
        raise ArithmeticError("loss is NaN")
    return n

@ct.lattice
def flow():
    return [train(0, False), train(1, False), train(2, True)]
"""


def test_three_electrons_grow_line_by_line_and_end_exact(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    server = covalent_server
    dispatch_id = dispatch(server, THREE, options=options(slurm_rig, tmp_path), gate=str(tmp_path))
    nodes = sorted(electron_ids(server, dispatch_id, "train"))
    assert len(nodes) == 3
    earlier = ["", "", ""]
    for step in range(5):
        for n in nodes:
            wait_for_text(server, dispatch_id, n, lambda text, step=step: b"step %d" % step in text)
        seen = snapshot(server, dispatch_id, *nodes)["nodes"]
        for n, (now, before) in enumerate(zip(seen, earlier, strict=True)):
            assert now["status"] == "RUNNING"
            assert now["stdout"].startswith(before)
            assert now["stdout"] == "".join(f"task {n} step {s} €\n" for s in range(step + 1))
        earlier = [now["stdout"] for now in seen]
        (tmp_path / str(step)).touch()
    assert server.finished(dispatch_id) == "FAILED"
    seen = snapshot(server, dispatch_id, *nodes)["nodes"]
    assert [now["status"] for now in seen] == ["COMPLETED", "COMPLETED", "FAILED"]
    for n in nodes:
        (folder,) = (tmp_path / dispatch_id).glob(f"{n}-*")
        for stream in ("stdout", "stderr"):
            assert server.stdout(dispatch_id, n, stream) == (folder / "x000" / stream).read_bytes()
        stored = server.results_dir / dispatch_id / f"node_{n}" / "joblog" / "files"
        assert (stored / "losses.csv").read_bytes() == (folder / "work" / "losses.csv").read_bytes()
    error = seen[2]["error"]
    for fact in ("FAILED", "exit", "ArithmeticError: loss is NaN", "careful 4", str(tmp_path / dispatch_id)):
        assert fact in error, error


def test_twenty_concurrent_electrons_share_one_connection_and_no_line(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    body = """
import random, time
for i in range(50):
    print(f"n{values[0]} line {i}")
    time.sleep(random.random() / 50)
if values[0] % 5 == 0:
    raise ValueError(f"n{values[0]} fails")
"""
    before = slurm_rig.connections()
    # An endpoint of its own, so that its connections can be counted.
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, body, count=20, keepalive_interval=14)
    assert tasks.finished() == "FAILED"
    assert slurm_rig.connections() - before == 1
    seen = snapshot(covalent_server, tasks.id, *tasks.nodes)["nodes"]
    said = []
    for task, now in zip(tasks.nodes, seen, strict=True):
        n = int(now["stdout"].split(" ")[0][1:])
        said.append(n)
        assert now["stdout"] == "".join(f"n{n} line {i}\n" for i in range(50))
        assert now["status"] == ("COMPLETED" if n % 5 else "FAILED")
        assert tasks.same(task)
    assert sorted(said) == list(range(20))


HELPERS = """
import covalent as ct
slurm = ct.executor.SlurmJobLogExecutor(**options)
cheap = ct.executor.LocalJobLogExecutor()

@ct.electron(executor=cheap)
def source():
    return {"a": [1, 2], "b": 3}

@ct.electron(executor=slurm)
def train(numbers, table):
    print(numbers, table)
    return {"first": numbers, "second": table}

@ct.electron(executor=cheap)
def sink(first, second):
    print(first, second)

@ct.lattice
def flow():
    made = source()
    trained = train([made, 4], {"k": made})
    return sink(trained["first"], trained["second"])
"""


def test_an_electron_with_a_list_a_dict_and_two_subscripts_is_one_slurm_job(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    before = set(slurm_rig.jobs())
    dispatch_id = dispatch(covalent_server, HELPERS, options=options(slurm_rig, tmp_path))
    assert covalent_server.finished(dispatch_id) == "COMPLETED"
    assert len(set(slurm_rig.jobs()) - before) == 1
    (sink,) = electron_ids(covalent_server, dispatch_id, "sink")
    made = {"a": [1, 2], "b": 3}
    assert node(covalent_server, dispatch_id, sink)["stdout"] == f"{[made, 4]} { ({'k': made}) }\n"


ONLY_THERE = """
import covalent as ct
options["setup_commands"] = [f"export PYTHONPATH={folder}"]
slurm = ct.executor.SlurmJobLogExecutor(**options)

@ct.electron(executor=slurm)
def make():
    import only_on_the_cluster
    return {"value": only_on_the_cluster.Thing()}

@ct.electron(executor=slurm)
def use(thing):
    print(thing.name)

@ct.lattice
def flow():
    return use(make()["value"])
"""


def test_a_helper_node_whose_values_only_the_cluster_can_load_runs_there(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    (tmp_path / "only_on_the_cluster.py").write_text("class Thing:\n    name = 'from afar'\n")
    before = set(slurm_rig.jobs())
    dispatch_id = dispatch(
        covalent_server, ONLY_THERE, options=options(slurm_rig, tmp_path), folder=str(tmp_path)
    )
    assert covalent_server.finished(dispatch_id) == "COMPLETED"
    assert len(set(slurm_rig.jobs()) - before) == 3
    (use,) = electron_ids(covalent_server, dispatch_id, "use")
    assert covalent_server.stdout(dispatch_id, use) == b"from afar\n"
    (picked,) = electron_ids(covalent_server, dispatch_id, ":make.__getitem__")
    state = covalent_server.results_dir / dispatch_id / f"node_{picked}" / "joblog" / "state.json"
    assert "only_on_the_cluster" in json.loads(state.read_text())["remembered"]["fallback"]


def test_what_the_function_leaves_in_its_folder_stays(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    tasks = Tasks(
        covalent_server, slurm_rig, tmp_path, "open('model.pt', 'w').write('weights')", cleanup="on_success"
    )
    tasks.completed()
    left = [p.relative_to(tasks.folder()) for p in tasks.folder().rglob("*") if p.is_file()]
    assert [str(p) for p in left] == ["work/model.pt"]


def test_a_job_that_leaves_nothing_has_its_folder_removed(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, "print('x')", cleanup="on_success")
    tasks.completed()
    assert list((tmp_path / tasks.id).glob("*")) == []
    assert tasks.text() == b"x\n"


def test_a_burst_of_200_mb_is_whole_before_the_status(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    body = """
import os
line = b"0123456789abcdef" * 62 + b"1234567\\n"
for _ in range(200): os.write(1, line * 1000)
"""
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, body, max_node_bytes=1 << 30)
    tasks.completed()
    assert len(tasks.text()) == 200_000_000
    assert tasks.same()


def test_bytes_that_are_no_text_and_a_job_that_prints_nothing(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    body = """
import os
if values[0]:
    os.write(1, b"a\\xe9\\0\\r 50%\\r100%\\n" + "€".encode()[:2])
"""
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, body, count=2)
    tasks.completed()
    texts = sorted(tasks.text(n) for n in tasks.nodes)
    assert texts == [b"", b"a?\0\r 50%\r100%\n??"]


def test_a_child_that_prints_after_the_jobs_end_delays_nothing_for_long(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    body = """
import subprocess
print("mine", flush=True)
subprocess.Popen(["sh", "-c", "sleep 1; echo late"], start_new_session=True)
"""
    begun = time.monotonic()
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, body)
    tasks.completed()
    assert time.monotonic() - begun < 45
    assert tasks.text() in {b"mine\n", b"mine\nlate\n"}
