# SPDX-License-Identifier: Apache-2.0
"""The end of a task whose store does not answer."""

import logging
import socket
import time

from covalent_joblog_plugin.cluster.kubeflow_job import Job
from covalent_joblog_plugin.cluster.train_job import TrainJob
from covalent_joblog_plugin.executors import kubeflow_outcome
from covalent_joblog_plugin.payload.pod_bundle import stream_counts
from tests.cluster.workload_specs import SPEC


async def test_a_store_that_does_not_answer_holds_up_no_node(monkeypatch, caplog):
    monkeypatch.setattr(kubeflow_outcome, "STORE_PATIENCE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, caplog.at_level(logging.WARNING):
        address = f"127.0.0.1:{silent.getsockname()[1]}/task"
        place = f"ftp://someone:secret@{address}"
        job = Job(TrainJob(), SPEC, {"store": place}, framing=True, counts=stream_counts)
        began = time.monotonic()
        await kubeflow_outcome.clear_store(job, taken=True)
        assert time.monotonic() - began < 5
        connection, _ = silent.accept()
        connection.close()
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{SPEC.name}: ftp://…@{address}.payload stays in the store, which does not answer within 0.3 s"
    )
