# SPDX-License-Identifier: Apache-2.0
"""Logs of containers of a real cluster, however often their reading is disturbed."""

from __future__ import annotations

import asyncio
import random

import pytest

from covalent_joblog_plugin.cluster.kubernetes import Kubernetes, KubernetesSettings
from tests.cluster.pod_logs import start
from tests.rigs.cutting_proxy import CuttingProxy

pytestmark = pytest.mark.timeout(240)

SECONDS = 20
# Of a size that stays within one log file of the rig (1 MiB): what is rotated away while nobody can read it
# is lost.
WRITERS = {
    "lines": "w(1, b'line %d of many, and they are told apart by their numbers\\n' % n); pause(300)",
    "equal-lines": "w(1, b'the same\\n' * 3 + b'\\n'); pause(150)",
    "both-streams": "w(1 + n % 2, b'stream %d says %d\\n' % (1 + n % 2, n)); pause(300)",
    "parts": "w(1 + (n % 7 == 0), b'part %d' % n + b'\\n' * (n % 5 == 0)); pause(200)",
    "progress": "w(2, b'\\rstep %d' % n + b'\\n' * (n % 50 == 0)); pause(200)",
    "long-lines": "w(1, b'%d ' % n * random.choice([300, 2000, 7000]) + b'\\n'); pause(2)",
    "any-bytes": "w(1 + n % 2, random.randbytes(random.choice([1, 30, 300]))); pause(200)",
    "stamps": "w(1, b'2025-01-01T00:00:00.123456789Z x\\n2025-01-01T00:00:00.1234'); pause(200)",
    "bursts": "w(1, b''.join(b'burst %d.%d\\n' % (n, i) for i in range(200))); pause(2)",
}
PROGRAM = """
import os, random, time
random.seed(4)
end = time.monotonic() + {seconds}
def w(fd, data):
    while data:
        data = data[os.write(fd, data):]
def pause(rate):
    time.sleep(1 / rate)
n = 0
while time.monotonic() < end:
    {step}
    n += 1
"""


def program(name, seconds=SECONDS):
    return PROGRAM.format(seconds=seconds, step=WRITERS[name])


@pytest.fixture
async def make_api(kubeflow_rig):
    """Makes clients of the rig's API server, and closes them."""
    made = []

    def make(kubeconfig=None):
        made.append(Kubernetes(KubernetesSettings(str(kubeconfig or kubeflow_rig.kubeconfig))))
        return made[-1]

    yield make
    for api in made:
        await api.close()


@pytest.fixture
def api(make_api):
    return make_api()


@pytest.fixture(scope="module")
def namespace(kubeflow_rig):
    return kubeflow_rig.namespace("pod-logs")


async def test_a_log_whose_connections_are_cut_at_random_places_is_exact(
    kubeflow_rig, namespace, api, make_api
):
    """Whatever was written."""
    rng = random.Random(7)
    proxy = CuttingProxy(kubeflow_rig.api_port, lambda _: rng.randrange(5_000, 120_000))
    cut = make_api(kubeflow_rig.kubeconfig_for(port=proxy.port))
    pods = await asyncio.gather(
        *(start(kubeflow_rig, api, namespace, f"cuts-{name}", program(name)) for name in WRITERS)
    )
    for pod in pods:
        pod.api = cut
    proved = await asyncio.gather(*(pod.log().follow() for pod in pods))
    proxy.close()
    assert proxy.cuts > 50
    for name, pod, whole in zip(WRITERS, pods, proved, strict=True):
        truth = kubeflow_rig.ground_truth(pod.uid)
        assert (name, whole, pod.taken.gaps) == (name, True, [])
        assert bytes(pod.taken.data) == truth, name
        assert len(truth) > 10_000
