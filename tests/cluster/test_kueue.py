# SPDX-License-Identifier: Apache-2.0
"""A queue that nobody serves, as a scripted and as a real API server tell of it."""

import asyncio
from dataclasses import replace

import pytest

from covalent_joblog_plugin.cluster.kubernetes import Kubernetes, KubernetesSettings
from covalent_joblog_plugin.cluster.kubernetes_errors import Forbidden, NotFound
from covalent_joblog_plugin.cluster.kueue import check_queue
from covalent_joblog_plugin.model.errors import OptionError
from tests.cluster.kubeflow_workloads import served_kueue
from tests.cluster.workload_specs import SPEC, ScriptedApi

QUEUED = replace(SPEC, queue="research")
SERVED = {"preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta2"}}


async def asked(group, queue):
    api = ScriptedApi(lambda _, path, __: group if path.endswith("k8s.io") else queue)
    await check_queue(api, QUEUED)
    return [path for _, path, *_ in api.asked]


async def test_a_job_without_a_queue_asks_nothing():
    api = ScriptedApi(lambda *_: {})
    await check_queue(api, SPEC)
    assert api.asked == []


async def test_a_queue_that_is_there_is_asked_for_in_the_version_that_is_preferred():
    assert await asked(SERVED, {}) == [
        "/apis/kueue.x-k8s.io",
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/ml/localqueues/research",
    ]


async def test_without_kueue_a_queue_is_refused():
    with pytest.raises(OptionError, match=r"^queue='research': this cluster has no Kueue"):
        await asked(NotFound("404 page not found"), {})


async def test_a_queue_that_is_not_there_is_refused():
    with pytest.raises(OptionError, match="namespace ml has no such LocalQueue"):
        await asked(SERVED, NotFound("not found"))


async def test_what_may_not_be_looked_at_may_be_there():
    assert len(await asked(Forbidden("needs get"), {})) == 1
    assert len(await asked(SERVED, Forbidden("needs get localqueues"))) == 2


async def test_a_real_cluster_without_and_with_kueue(jobs):
    spec = jobs.spec("queued", queue="research")
    with pytest.raises(OptionError, match="this cluster has no Kueue"):
        await check_queue(jobs.api, spec)
    may_look = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues"], "verbs": ["get"]}
    account = jobs.rig.service_account(jobs.namespace, "looks", [may_look])
    looking = Kubernetes(KubernetesSettings(str(account), namespace=jobs.namespace))
    with served_kueue(jobs.rig):
        await check_queue(jobs.api, spec)  # the documented Role does not let it look at queues
        with pytest.raises(OptionError, match=f"namespace {jobs.namespace} has no such LocalQueue"):
            await check_queue(looking, spec)
        meta = {"name": "research", "namespace": jobs.namespace}
        queue = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": meta}
        await asyncio.to_thread(jobs.rig.apply, queue)
        await check_queue(looking, spec)
    await looking.close()
