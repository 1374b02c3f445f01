# SPDX-License-Identifier: Apache-2.0
"""Jobs on the rig's Kubeflow, as the code that runs a task makes them."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from covalent_joblog_plugin.cluster.dry_run import STRICT
from covalent_joblog_plugin.cluster.kubeflow_job import Instance, JobEnd
from covalent_joblog_plugin.cluster.kubernetes import Kubernetes, KubernetesSettings
from covalent_joblog_plugin.cluster.manifests import payload_secret
from covalent_joblog_plugin.cluster.workload import JobPhase, WorkloadSpec
from tests.rigs.daemons import until

TELL = "import json; open('/dev/termination-log', 'w').write(json.dumps({0}))"
"""A program that leaves a value behind as its pod's termination message."""
EXAMPLE = Path(__file__).parents[2] / "examples" / "02-kubeflow"
DEADLINE = 90.0


def restricted_pod(container):
    """A patch that makes a pod fit the policy ``restricted``, with a read-only root."""
    return {
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": container,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": True,
                    },
                }
            ],
        }
    }


def role_rules():
    """What the documented Role allows."""
    return yaml.safe_load((EXAMPLE / "role.yaml").read_text())["rules"]


def example_runtime(namespace, image):
    """The documented runtime, with an image the rig has."""
    runtime = yaml.safe_load((EXAMPLE / "runtime.yaml").read_text())
    runtime["metadata"]["namespace"] = namespace
    runtime_pod(runtime)["containers"][0]["image"] = image
    return runtime


def runtime_pod(runtime):
    """Its pod's specification, to be changed."""
    (job,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    return job["template"]["spec"]["template"]["spec"]


def python(code):
    """A command that runs ``code`` with the node rank in ``R``, which SIGTERM ends."""
    head = "import os, signal, sys, time; signal.signal(15, lambda *_: os._exit(143)); "
    rank = "R = int(os.environ.get('JOB_COMPLETION_INDEX') or os.environ.get('RANK') or 0)\n"
    return ["python3", "-c", head + rank + code]


@dataclass
class Seen:
    """What was seen of a job: its states, and the last of every instance, by pod and start."""

    states: list = field(default_factory=list)
    instances: dict = field(default_factory=dict)
    now: list = field(default_factory=list)

    def take(self, state, instances):
        if not self.states or self.states[-1] != state:
            self.states.append(state)
        self.now = instances
        self.instances.update({(one.pod_uid, one.restart_count): one for one in instances})

    @property
    def state(self):
        return self.states[-1]

    def end(self):
        """As the code that follows a job would tell it."""
        here = {(one.pod_uid, one.restart_count) for one in self.now}
        ranks = {
            one.rank: Instance(one, 0, None, gone=key not in here) for key, one in self.instances.items()
        }
        return JobEnd(self.state.phase, self.state.reason, self.state.message, ranks)


class Jobs:
    """Jobs in one namespace, made with the rights of one account."""

    def __init__(self, rig, namespace, kubeconfig):
        self.rig = rig
        self.namespace = namespace
        self.api = Kubernetes(KubernetesSettings(str(kubeconfig), namespace=namespace))

    def spec(self, name, code="pass", **changes):
        base = {
            "command": python(code),
            "image": self.rig.image,
            "runtime": "never",
            "runtime_kind": "TrainingRuntime",
        }
        return WorkloadSpec(name, self.namespace, **{**base, **changes})

    @asynccontextmanager
    async def submitted(self, kind, spec, secret=None):
        """The job with its Secret, running; it is deleted afterwards."""
        await kind.prepare(self.api, spec)
        made = await self.api.request(
            "POST", kind.path(spec.namespace), query=STRICT, body=kind.manifest(spec)
        )
        try:
            body = payload_secret(kind, spec, made["metadata"]["uid"], secret or {})
            await self.api.request("POST", f"/api/v1/namespaces/{spec.namespace}/secrets", body=body)
            seen = Seen()
            seen.take(kind.state(made), [])
            await kind.resume(self.api, spec)
            yield seen
        finally:
            self.rig.delete(kind.kind, spec.name, spec.namespace)

    async def look(self, kind, spec, seen):
        job = await self.api.request("GET", kind.path(spec.namespace, spec.name))
        path = f"/api/v1/namespaces/{spec.namespace}/pods"
        pods = await self.api.request("GET", path, query=kind.pod_query(spec.name))
        seen.take(kind.state(job), [one for pod in pods["items"] for one in kind.instances(pod)])

    async def until(self, true, kind, spec, seen):
        """Look at the job until ``true()``: nobody tells of changes without the right to watch."""
        deadline = time.monotonic() + DEADLINE
        while not true():
            assert time.monotonic() < deadline, f"not in time: {seen.states} {seen.now}"
            await self.look(kind, spec, seen)
            await asyncio.sleep(0.1)
        return seen

    async def over(self, kind, spec, seen):
        return await self.until(lambda: not seen.state.phase.open, kind, spec, seen)


@asynccontextmanager
async def jobs_of_an_account(rig, **options):
    """Jobs in a new namespace, of an account with the documented Role."""
    namespace = rig.namespace(f"workloads-{uuid.uuid4().hex[:8]}", **options)
    made = Jobs(rig, namespace, rig.service_account(namespace, "joblog", role_rules()))
    try:
        yield made
    finally:
        await made.api.close()
        rig.delete("Namespace", namespace)


async def goes_through(jobs, kind, name):
    values = {"A": "$(HOME) $$ $x a$$b", "EMPTY": ""}
    tell = TELL.format("[R, *(os.environ.get(v) for v in ('A', 'EMPTY', 'P'))]")
    spec = jobs.spec(
        name,
        tell,
        num_nodes=2,
        environment=values,
        secret_environment={"P": (name, "p")},
        resources={"cpu": "100m"},
        pod_labels={"sidecar.istio.io/inject": "false"},
        pod_annotations={"note": "n"},
        volumes=[{"name": "v", "emptyDir": {}}],
        volume_mounts=[{"name": "v", "mountPath": "/v"}],
    )
    async with jobs.submitted(kind, spec, {"p": "$(HOME)"}) as seen:
        await jobs.over(kind, spec, seen)
        await jobs.until(lambda: all(one.state == "terminated" for one in seen.now), kind, spec, seen)
        pods = jobs.rig.list("Pod", spec.namespace, kind.pod_query(name)["labelSelector"])
    assert seen.state.phase is JobPhase.COMPLETE
    told = {one.rank: (one.exit_code, json.loads(one.message)) for one in seen.now}
    assert told == {rank: (0, [rank, *values.values(), "$(HOME)"]) for rank in (0, 1)}
    for pod in pods:
        assert pod["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
        assert pod["metadata"]["annotations"]["note"] == "n"
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["limits"] == container["resources"]["requests"] == {"cpu": "100m"}
        assert {"name": "v", "mountPath": "/v"} in container["volumeMounts"]
    return seen


@contextmanager
def served_kueue(rig):
    """As if Kueue were installed: the cluster has its queues, and nobody who acts on them."""
    plural, group = "localqueues", "kueue.x-k8s.io"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "LocalQueue", "plural": plural, "singular": "localqueue", "listKind": "LocalQueueList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    rig.apply(definition)
    try:
        until(lambda: _established(rig, f"{plural}.{group}"), "the queues are served", timeout=20)
        yield
    finally:
        rig.delete("CustomResourceDefinition", f"{plural}.{group}")
        # Whoever comes next would else take what is being removed for their own.
        until(lambda: rig.get("CustomResourceDefinition", f"{plural}.{group}") is None, "they are gone")


def _established(rig, name):
    conditions = rig.get("CustomResourceDefinition", name).get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


async def gone(jobs, kind, name):
    for _ in range(300):
        if jobs.rig.get(kind, name, jobs.namespace) is None:
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"{kind} {name} outlived its job")
