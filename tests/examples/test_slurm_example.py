# SPDX-License-Identifier: Apache-2.0
"""The parameter sweep on a real Slurm."""

import csv
import json
import subprocess
import sys

import pytest

from tests.executors.dispatches import electron, node
from tests.project.tracked import ROOT

EXAMPLE = ROOT / "examples" / "01-slurm" / "workflow.py"
RATES = ("0.5", "60")
EPOCHS = 20


@pytest.fixture(scope="module")
def swept(covalent_server, slurm_rig, tmp_path_factory):
    """The id of a finished sweep, and how many jobs Slurm had for it."""
    before = set(slurm_rig.jobs())  # older ones may be forgotten meanwhile
    options = {
        "--host": "127.0.0.1",
        "--port": str(slurm_rig.ssh_port),
        "--username": "root",
        "--key": str(slurm_rig.client_key),
        "--known-hosts": str(slurm_rig.known_hosts),
        "--workdir": str(tmp_path_factory.mktemp("jobs")),
        "--python": sys.executable,
        "--epochs": str(EPOCHS),
    }
    argv = [word for option in options.items() for word in option]
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *argv, "--rates", *RATES],
        env=covalent_server.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    dispatch_id = done.stdout.strip()
    assert covalent_server.finished(dispatch_id, timeout=120) == "COMPLETED"
    return dispatch_id, len(set(slurm_rig.jobs()) - before)


@pytest.fixture(scope="module")
def nodes(covalent_server, swept):
    """Node ids by name, in the order of the rates."""
    graph = json.loads(covalent_server.get(f"/api/v1/dispatches/{swept[0]}/graph").body)["graph"]
    found = {}
    for one in sorted(graph["nodes"], key=lambda one: one["node_id"]):
        found.setdefault(one["name"], []).append(one["node_id"])
    return found


def test_every_training_is_one_job_and_the_list_of_them_is_none(swept):
    assert swept[1] == len(RATES)


def test_each_training_has_its_own_text_progress_and_warnings(covalent_server, swept, nodes):
    assert len(nodes["train"]) == len(RATES)
    for rate, node_id in zip(RATES, nodes["train"], strict=True):
        found = node(covalent_server, swept[0], node_id)
        assert found["stdout"].startswith(f"learning rate {float(rate)}: 400 points, 256 weights\n")
        assert found["stdout"].count("\n") == 1 + EPOCHS // 10
        assert f"rate {float(rate)}: 100%" in found["stderr"]
        assert "\r" in found["stderr"]
    rose = [node(covalent_server, swept[0], n)["stderr"].count("loss rose") for n in nodes["train"]]
    assert rose[1] > 0 == rose[0]


def test_the_losses_are_kept_beside_each_training(covalent_server, swept, nodes):
    for node_id in nodes["train"]:
        folder = covalent_server.results_dir / swept[0] / f"node_{node_id}"
        (table,) = [path for path in folder.rglob("*losses.csv*") if path.is_file()]
        rows = list(csv.DictReader(table.read_text().splitlines()))
        assert [row["epoch"] for row in rows] == [str(n) for n in range(1, EPOCHS + 1)]
        assert float(rows[-1]["loss"]) > 0


def test_the_best_is_named(covalent_server, swept, nodes):
    (best,) = nodes["best"]
    assert node(covalent_server, swept[0], best)["stdout"].startswith("rate 0.5 ")
    assert electron(covalent_server, swept[0], best)["status"] == "COMPLETED"
