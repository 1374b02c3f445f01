# SPDX-License-Identifier: Apache-2.0
"""The training on two nodes, on a real cluster, with the example's own Role and runtime."""

import re
import subprocess
import sys

import pytest
import yaml

from tests.executors.dispatches import node
from tests.executors.kubeflow_tasks import role_rules
from tests.project.tracked import ROOT

EXAMPLE = ROOT / "examples" / "02-kubeflow"


@pytest.fixture
def trained(covalent_server, kubeflow_rig):
    namespace = kubeflow_rig.namespace("example")
    kubeconfig = kubeflow_rig.service_account(namespace, "covalent", role_rules())
    runtime = yaml.safe_load((EXAMPLE / "runtime.yaml").read_text())
    runtime["metadata"]["namespace"] = namespace
    kubeflow_rig.apply(runtime)
    options = ["--kubeconfig", str(kubeconfig), "--namespace", namespace, "--image", kubeflow_rig.image]
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "workflow.py"), *options, "--epochs", "3"],
        env=covalent_server.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_both_nodes_are_shown(covalent_server, trained):
    status = covalent_server.finished(trained, timeout=120)
    assert status == "COMPLETED", node(covalent_server, trained, 0)["error"]
    first = covalent_server.stdout(trained, 0).decode()
    beside = covalent_server.results_dir / trained / "node_0" / "joblog" / "files" / "rank1.stdout"
    second = beside.read_bytes().decode()
    for rank, text in enumerate((first, second)):
        assert text.startswith(f"node {rank} of 2: 500 points on ")
        losses = [float(loss) for loss in re.findall(r"\repoch +\d+ loss ([\d.]+)\n", text)]
        assert len(losses) == 3
        assert text.count("\repoch") == 3 * 11
