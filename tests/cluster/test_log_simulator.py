# SPDX-License-Identifier: Apache-2.0
"""The log in memory gives what a real kubelet gives."""

from __future__ import annotations

from datetime import datetime

import pytest

from covalent_joblog_plugin.cluster.kubernetes import Kubernetes, KubernetesSettings
from tests.cluster import cri_log
from tests.cluster.pod_logs import CONTAINER, start

WRITER = """
import os, time
for n in range(6):
    os.write(1, b'line %d\\r\\n' % n + b'part of ')
    os.write(2, b'other stream %d\\n' % n)
    os.write(1, b'x' * (16380 + n) + b'\\n' + b'\\xff\\x00\\n\\n')
    os.write(2, b'y' * 40000)
    os.write(1, b'between\\n')
    os.write(2, b'\\n' * 2)
    time.sleep(0.5)
os.write(1, b'no end')
"""


def nanoseconds(stamp):
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(whole + "+00:00").timestamp()) * 10**9 + int(f"{fraction:0<9}")


@pytest.fixture
async def api(kubeflow_rig):
    client = Kubernetes(KubernetesSettings(str(kubeflow_rig.kubeconfig)))
    yield client
    await client.close()


@pytest.fixture
async def written(kubeflow_rig, api, request):
    """A pod that has written, and its node's records."""
    namespace = kubeflow_rig.namespace("simulated")
    name = request.node.name.replace("_", "-")
    pod = await start(kubeflow_rig, api, namespace, name, WRITER)
    assert await pod.log().follow()
    return pod, kubeflow_rig.log_records(pod.uid)


async def test_answers_are_those_of_a_real_kubelet(api, written):
    pod, records = written
    log = cri_log.ContainerLog()
    streams = {"stdout": 1, "stderr": 2}
    log.files[-1] = [cri_log.Record(nanoseconds(r.stamp), streams[r.stream], r.data) for r in records]
    begin = log.files[-1][0].nanoseconds // 10**9
    for since in (None, *range(begin - 1, begin + 5)):
        for limit in (None, 100, 20_000):
            how = {"follow": False, "since": since, "limit": limit, "namespace": pod.namespace}
            async with api.open_log(pod.pod, CONTAINER, **how) as chunks:
                real = b"".join([chunk async for chunk in chunks])
            assert real == cri_log.LogStream(log, since).more()[:limit], (since, limit)


async def test_records_are_those_of_a_real_runtime(written):
    """Each stream cut into the same records; which stream comes first is a matter of microseconds."""
    _, records = written
    log = cri_log.ContainerLog()
    for n in range(6):
        log.write(1, b"line %d\r\npart of " % n)
        log.write(2, b"other stream %d\n" % n)
        log.write(1, b"x" * (16380 + n) + b"\n\xff\x00\n\n")
        log.write(2, b"y" * 40000)
        log.write(1, b"between\n")
        log.write(2, b"\n\n")
    log.write(1, b"no end")
    log.exit()
    for number, name in ((1, "stdout"), (2, "stderr")):
        real = [record.data for record in records if record.stream == name]
        assert real == [record.text for record in log.files[-1] if record.stream == number]
