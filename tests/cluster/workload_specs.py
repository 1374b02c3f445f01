# SPDX-License-Identifier: Apache-2.0
"""What the tests of job kinds run, and an API server that answers as it is told."""

from __future__ import annotations

from covalent_joblog_plugin.cluster.pytorch_job import PyTorchJob
from covalent_joblog_plugin.cluster.train_job import TrainJob
from covalent_joblog_plugin.cluster.workload import WorkloadSpec

KINDS = [TrainJob, PyTorchJob]
SPEC = WorkloadSpec("train-1f", "ml", "img:1", ["python3", "-c", "pass"], runtime="torch", num_nodes=2)


class ScriptedApi:
    """Answers requests by what ``script`` says of them, and keeps what was asked."""

    def __init__(self, script):
        self.asked = []
        self._script = script

    async def request(self, method, path, *, query=None, body=None, content_type="application/json"):
        self.asked.append((method, path, query, body, content_type))
        answer = self._script(method, path, body)
        if isinstance(answer, Exception):
            raise answer
        return answer
