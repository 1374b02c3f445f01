# SPDX-License-Identifier: Apache-2.0
"""Runtimes for TrainJobs of the tests.

``torch-distributed`` is a ClusterTrainingRuntime like the one Trainer brings, and the rig has it once. In
each namespace made by the rig there are these TrainingRuntimes:

- ``never``: restartPolicy Never, backoffLimit 0. A failing container fails the TrainJob; the pod stays.
- ``on-failure``: restartPolicy OnFailure. A failing container is started again in its pod.
- ``restart-once``: like ``never``, but the JobSet restarts all pods once (failurePolicy maxRestarts 1).
- ``gone-at-once``: like ``never``, but jobs and pods are deleted at their end (ttlSecondsAfterFinished 0).
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def torch_distributed(image: str) -> Json:
    """The runtime of the whole cluster: what JobSet and Job fill in holds for everything that is not said."""
    return _runtime("ClusterTrainingRuntime", "torch-distributed", image, {}, {}, {})


def training_runtimes(image: str) -> list[Json]:
    """The runtimes of one namespace, without it."""
    never, no_retry = {"restartPolicy": "Never"}, {"backoffLimit": 0}
    kind = "TrainingRuntime"
    return [
        _runtime(kind, "never", image, never, no_retry, {}),
        _runtime(kind, "on-failure", image, {"restartPolicy": "OnFailure"}, {}, {}),
        _runtime(kind, "restart-once", image, never, no_retry, {"failurePolicy": {"maxRestarts": 1}}),
        _runtime(kind, "gone-at-once", image, never, no_retry, {"ttlSecondsAfterFinished": 0}),
    ]


def _runtime(kind: str, name: str, image: str, pod: Json, job: Json, jobset: Json) -> Json:
    containers = [{"name": "node", "image": image}]
    step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    template = {"metadata": step, "spec": {**job, "template": {"spec": {**pod, "containers": containers}}}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            # Without a number of processes: Trainer 2.3 knows the field of 2.1 no more.
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {**jobset, "replicatedJobs": [{"name": "node", "template": template}]}},
        },
    }
