# SPDX-License-Identifier: Apache-2.0
"""Logs of containers of a real cluster, however often their reading is disturbed."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import pytest

from covalent_joblog_plugin.cluster.kubernetes import Kubernetes, KubernetesSettings
from covalent_joblog_plugin.cluster.pod_log import InstanceState
from tests.cluster.pod_logs import Instance, start
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


NUMBERED = """
import os, time
rate, seconds = {rate}, {seconds}
n, began = 0, time.monotonic()
while time.monotonic() - began < seconds:
    data = b''.join(b'%08d' % i + b'.' * 91 + b'\\n' for i in range(n, n + 100))
    while data:
        data = data[os.write(1, data):]
    n += 100
    time.sleep(max(0, began + n * 100 / rate - time.monotonic()))
"""


def numbers(data):
    """The lines' numbers; a piece of a line at a gap has none."""
    return [
        int(line[:8]) for line in bytes(data).split(b"\n") if len(line) == 99 and line.endswith(b"." * 91)
    ]


@pytest.mark.parametrize("rate", [300_000, 2_000_000])
async def test_of_a_log_that_is_rotated_nothing_is_missing_without_a_gap(kubeflow_rig, namespace, api, rate):
    """But what was rotated away before the first read, of which only the runner in the pod can tell."""
    pod = await start(kubeflow_rig, api, namespace, f"rotated-{rate}", NUMBERED.format(rate=rate, seconds=14))
    proved = await pod.log().follow()
    truth = kubeflow_rig.ground_truth(pod.uid)
    taken = numbers(pod.taken.data)
    assert taken == sorted(set(taken))
    assert set(taken) <= set(numbers(truth))
    jumps = [a for a, b in pairwise(taken) if b != a + 1]
    assert len(pod.taken.gaps) >= len(jumps)
    if not pod.taken.gaps:
        assert truth.endswith(bytes(pod.taken.data))
    if rate < 2_000_000:
        assert (proved, pod.taken.gaps) == (True, [])
    print(f"{rate}: {len(pod.taken.data)} of {len(truth)} bytes, gaps {pod.taken.gaps}, {jumps}, {proved}")


async def test_a_killed_api_server_and_a_stopped_kubelet_cost_no_byte(kubeflow_rig, namespace, api):
    pod = await start(kubeflow_rig, api, namespace, "faults", program("both-streams", 45))
    reading = asyncio.create_task(pod.log().follow())
    await pod.taken.until(lambda taken: len(taken.data) > 20_000)
    await asyncio.to_thread(kubeflow_rig.stop_apiserver, kill_it=True)
    try:
        await pod.taken.until(lambda taken: any("does not answer" in why for why in taken.troubles))
    finally:
        await asyncio.to_thread(kubeflow_rig.start_apiserver)
    size = len(pod.taken.data)
    await pod.taken.until(lambda taken: len(taken.data) > size)
    assert pod.taken.troubles[-1] == ""
    await asyncio.to_thread(kubeflow_rig.stop_kubelet)
    try:
        await pod.taken.until(lambda taken: taken.troubles[-1] != "")
        await asyncio.sleep(30)  # as long as it takes the node to count as lost
    finally:
        await asyncio.to_thread(kubeflow_rig.start_kubelet)
    assert await reading
    assert pod.taken.gaps == []
    assert pod.taken.troubles[-1] == ""
    assert bytes(pod.taken.data) == kubeflow_rig.ground_truth(pod.uid)


LAST_WORDS = """
import signal, sys, time
def leave(*_):
    print("last words", flush=True)
    sys.stdout.write("and no newline"); sys.stdout.flush()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready")
time.sleep(120)
"""


async def test_the_last_words_of_a_deleted_pod_arrive(kubeflow_rig, namespace, api):
    pod = await start(kubeflow_rig, api, namespace, "deleted", LAST_WORDS, grace=10)
    reading = asyncio.create_task(pod.log().follow())
    await pod.taken.until(lambda taken: taken.data)
    await api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/deleted")
    await reading
    assert bytes(pod.taken.data) == b"ready\nlast words\nand no newline"
    assert pod.taken.gaps == []


async def test_a_pod_gone_before_its_log_was_read_is_told(kubeflow_rig, namespace, api):
    pod = await start(kubeflow_rig, api, namespace, "gone", "print('never read')")
    await api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/gone", body={"gracePeriodSeconds": 0})
    await pod.seen_as((InstanceState.GONE, False))
    assert await pod.log().follow() is False
    assert pod.taken.data == b""
    assert "cannot be read" in pod.taken.gaps[0][1]


async def test_each_start_of_a_crashing_container_has_its_own_text(kubeflow_rig, namespace, api):
    """K05: what the first start wrote is read although the second one, which says nothing yet, is current."""
    code = "import sys, time\nprint('boom', time.time_ns()); time.sleep(1); sys.exit(1)\n"
    first = await start(kubeflow_rig, api, namespace, "crashing", code, restart="Always")
    reading = asyncio.create_task(first.log().follow())
    await first.seen_as((InstanceState.ENDED, True))
    # One that was read as it ran, and the same one only now that it is the previous one.
    late = Instance(api, namespace, "crashing", first.uid)
    assert await late.log().follow()
    assert await reading
    truth = kubeflow_rig.ground_truth(first.uid)
    assert truth.startswith(b"boom")
    assert bytes(first.taken.data) == truth
    assert bytes(late.taken.data) == truth
    assert (first.taken.gaps, late.taken.gaps) == ([], [])
