# SPDX-License-Identifier: Apache-2.0
"""``joblog doctor`` beside a real Kubeflow, and its jobs read with no Covalent server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.left_jobs import joblog, run
from tests.executors.kubeflow_tasks import Task, account

if TYPE_CHECKING:
    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.kubeflow import KubeflowRig

BODY = """
import sys, time
for n in range(200):
    print(f"rank {rank} line {n}", flush=True)
    print(f"rank {rank} warning {n}", file=sys.stderr, flush=True)
    time.sleep(0.05)
value = {"rank": rank}
"""


def _set(**options: str) -> list[str]:
    return [word for name, value in options.items() for word in ("--set", f"{name}={value}")]


def test_rights_trainer_and_runtime_are_looked_at_and_nothing_is_created(
    covalent_server: CovalentServer, kubeflow_rig: KubeflowRig
) -> None:
    namespace, kubeconfig = account(kubeflow_rig)
    mine = {"kubeconfig": str(kubeconfig), "namespace": namespace, "runtime_kind": "TrainingRuntime"}
    before = kubeflow_rig.list("TrainJob", namespace)

    def examined(status: int, **options: str) -> dict[str, dict[str, str]]:
        argv = ["doctor", "-o", "json", "--kubeflow", *_set(**{**mine, **options})]
        out, _ = run(covalent_server, *argv, status=status)
        return {found["check"]: found for found in map(json.loads, out.decode().splitlines())}

    found = examined(0, runtime="never")
    for name in ("kubeconfig", "rights", "logs", "TrainJob"):
        assert found[name]["level"] == "ok", found[name]
    assert "would take a job with TrainingRuntime never" in found["TrainJob"]["text"]
    wrong = examined(1, runtime="absent")["TrainJob"]
    assert wrong["level"] == "fault"
    assert "there is no TrainingRuntime absent" in wrong["text"]
    wrong = examined(1, runtime="never", namespace="kube-system")["rights"]
    assert wrong["level"] == "fault"
    assert "these rights are missing in namespace kube-system: create trainjobs" in wrong["text"]
    assert kubeflow_rig.list("TrainJob", namespace) == before


def test_a_job_of_a_killed_server_is_followed_and_gives_its_value(
    fresh_covalent_server: CovalentServer, kubeflow_rig: KubeflowRig
) -> None:
    server = fresh_covalent_server
    task = Task(server, kubeflow_rig, BODY, num_nodes=2)
    task.seen(lambda text: b"line 3\n" in text, "it writes")
    job = task.state()["job"]
    server.kill()
    follower = joblog(server, "logs", "--direct", "-f", "-o", "raw", task.id, "task")
    left = joblog(server, "reconnect", task.id)
    text, err = follower.communicate(timeout=100)
    assert follower.returncode == 0, err
    assert text == b"".join(b"rank 0 line %d\n" % n for n in range(200))
    _, told = left.communicate(timeout=100)
    assert left.returncode == 1
    assert b"its text is not stored: retained: Kubernetes keeps only the newest execution" in told
    assert b"the job has ended with a result: joblog result" in told
    other, _ = run(server, "logs", "--direct", "--rank", "1", "--stream", "stderr", "-n", "1", task.id)
    assert other == b"rank 1 warning 199\n"
    out, _ = run(server, "result", task.id, "--unpickle")
    assert out.decode().splitlines()[-1] == "{'rank': 0}"
    _, err = run(server, "logs", "--direct", "--execution", "0", task.id, status=3)
    assert "Kubernetes keeps only the newest execution" in err
    kubeflow_rig.delete("TrainJob", job["name"], task.namespace)
    _, err = run(server, "logs", "--direct", task.id, status=3)
    assert "was deleted, and its logs with it" in err
