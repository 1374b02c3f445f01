# SPDX-License-Identifier: Apache-2.0
"""Faults between Covalent and a Kubeflow job that writes: the node's result is exact, and has no seam."""

import random
import sys
import time

from tests.executors.exact import assert_exact
from tests.executors.kubeflow_tasks import Task, account, role_rules
from tests.rigs.covalent_server import eventually
from tests.rigs.cutting_proxy import CuttingProxy

# What a task writes, with the stream of each piece. All of it stays below the 1 MiB at which the rig rotates
# a log: what is rotated away while nobody can read it is lost.
PIECES = r"""
import random

def pieces():
    rng = random.Random(kind)
    for n in range(steps):
        if kind == "lines":
            yield 1 + n % 2, b"line %d of many, and its number tells it apart\r\n" % n
        elif kind == "bar":
            yield 2, b"\rstep %d of %d" % (n, steps) + b"\n" * (n % 50 == 0)
            yield 1, b"the same\n" * (n % 10 == 0)
        else:
            yield rng.choice((1, 2)), rng.randbytes(rng.choice((1, 30, 200)))
"""
BODY = (
    PIECES
    + """
import os, time
began = time.monotonic()
for n, (stream, data) in enumerate(pieces()):
    os.write(stream, data)
    time.sleep(max(0, began + n * pause - time.monotonic()))
"""
)
KINDS = ("lines", "bar", "bytes")


def written(given, stream):
    """What a task writes to a stream."""
    scope = dict(given)
    exec(PIECES, scope)
    return b"".join(data for number, data in scope["pieces"]() if number == stream)


class Tasks:
    """A task of each kind, all of them running; each writes for ``seconds``."""

    def __init__(self, server, rig, seconds, **options):
        self.server = server
        self.given = [{"kind": kind, "steps": seconds * 100, "pause": 0.01} for kind in KINDS]
        self.tasks = [Task(server, rig, BODY, given, **options) for given in self.given]

    def grown(self, more=1000):
        """Wait until more of each is there."""
        for task, size in [(task, len(task.seen(lambda _: True, "its text"))) for task in self.tasks]:
            task.seen(lambda text, size=size: len(text) >= size + more, "its text goes on")

    def told(self, why):
        """Wait until each says so."""
        for task in self.tasks:
            eventually(lambda task=task: why in task.state().get("note", ""), 60, why)

    def check(self):
        """All of them end well, and are exact."""
        for task, given in zip(self.tasks, self.given, strict=True):
            assert task.completed(timeout=240) == "result"
            assert_exact(task, written(given, 1), written(given, 2))


def test_connections_that_are_cut_anywhere_cost_nothing(covalent_server, kubeflow_rig):
    """Those that submit and look as well as those that read; also while they are opened."""
    rng = random.Random(5)
    proxy = CuttingProxy(kubeflow_rig.api_port, lambda _: rng.randrange(2_000, 120_000))
    namespace, _ = account(kubeflow_rig)
    user = {"token": kubeflow_rig.token(namespace, "covalent")}
    kubeconfig = kubeflow_rig.kubeconfig_for(user, port=proxy.port)
    # Each cut costs a pause: the end may come late.
    options = {"kubeconfig": str(kubeconfig), "final_read_timeout": 200}
    tasks = Tasks(covalent_server, kubeflow_rig, 15, **options)
    tasks.check()
    proxy.close()
    assert proxy.cuts > 30


def test_a_kubelet_away_for_long_and_an_api_server_that_dies_cost_nothing(covalent_server, kubeflow_rig):
    tasks = Tasks(covalent_server, kubeflow_rig, 60)
    tasks.grown()
    kubeflow_rig.stop_kubelet()
    try:
        # What happens in that time happens in the cluster: the node may count as lost, its pods do not.
        time.sleep(30)
    finally:
        kubeflow_rig.start_kubelet()
    tasks.grown()
    kubeflow_rig.stop_apiserver(kill_it=True)
    kubeflow_rig.start_apiserver()
    tasks.check()


LOGIN = """
import json, pathlib, sys
kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
print(json.dumps({**kind, "status": {"token": pathlib.Path(sys.argv[1]).read_text()}}))
"""


def test_a_token_that_is_revoked_and_replaced_costs_nothing(covalent_server, kubeflow_rig, tmp_path):
    namespace = kubeflow_rig.namespace("revoked")
    kubeflow_rig.service_account(namespace, "covalent", role_rules())
    token, login = tmp_path / "token", tmp_path / "login.py"
    token.write_text(kubeflow_rig.token(namespace, "covalent"))
    login.write_text(LOGIN)
    command = {"command": sys.executable, "args": [str(login), str(token)]}
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **command}}
    kubeconfig = str(kubeflow_rig.kubeconfig_for(user))
    tasks = Tasks(covalent_server, kubeflow_rig, 50, kubeconfig=kubeconfig, namespace=namespace)
    tasks.grown()
    # Tokens of an account that is gone are no good, and a new one of that name has other tokens.
    kubeflow_rig.delete("ServiceAccount", "covalent", namespace)
    # It remembers none that was good, and all streams break.
    kubeflow_rig.stop_apiserver(kill_it=True)
    tasks.told("does not answer")
    kubeflow_rig.start_apiserver()
    tasks.told("renew them")
    kubeflow_rig.service_account(namespace, "covalent", role_rules())
    token.write_text(kubeflow_rig.token(namespace, "covalent"))
    tasks.check()
