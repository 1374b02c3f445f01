# SPDX-License-Identifier: Apache-2.0
"""Options of Kubeflow jobs of which no pod could be made are refused before anything is dispatched."""

import pytest

from covalent_joblog_plugin import KubeflowJobLogExecutor
from covalent_joblog_plugin.model.errors import OptionError

MOUNT = {"name": "data", "mountPath": "/data"}


@pytest.mark.parametrize(
    "options",
    [
        {"pod_labels": {"app": "", "example.org/team": "A_1.b"}, "pod_annotations": {"note": "any text: é"}},
        {"pod_labels": {"a" * 63: "b" * 63, "x." * 100 + "org/k": "v"}},
        {"volume_mounts": [MOUNT]},
        {"kind": "PyTorchJob", "image": "i", "volumes": [{"name": "data"}], "volume_mounts": [MOUNT]},
        {
            "kind": "PyTorchJob",
            "image": "i",
            "pod_patch": {"spec": {"volumes": [{"name": "data"}]}},
            "volume_mounts": [MOUNT],
        },
        {"environment": {"PYTHONWARNINGS": "error", "LONG": "x" * 131_066}},
    ],
)
def test_what_kubernetes_takes_is_taken(options):
    KubeflowJobLogExecutor(**options).to_dict()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pod_labels": {"a b": "c"}}, "pod_labels: 'a b' is not a key"),
        ({"pod_labels": {"a" * 64: "c"}}, "is not a key"),
        ({"pod_labels": {"Up/name": "c"}}, "'Up/name' is not a key"),
        ({"pod_labels": {"/name": "c"}}, "'/name' is not a key"),
        ({"pod_labels": {"k": "a b"}}, "pod_labels: k='a b' is not a value"),
        ({"pod_labels": {"k": "-a"}}, "is not a value"),
        ({"pod_annotations": {"a b": "c"}}, "pod_annotations: 'a b' is not a key"),
        ({"node_selector": {"zone": "x" * 64}}, "node_selector: zone="),
        ({"volume_mounts": [{"mountPath": "/data"}]}, "needs the name of a volume"),
        ({"volume_mounts": [{"name": "data", "mountPath": "data"}]}, "an absolute mountPath"),
        ({"kind": "PyTorchJob", "image": "i", "volume_mounts": [MOUNT]}, "there is no volume 'data'"),
        ({"environment": {"JOB_COMPLETION_INDEX": "3"}}, "JOB_COMPLETION_INDEX is set by Kubeflow"),
        ({"environment": {"PYTHONINSPECT": "1"}}, "nobody answers"),
        ({"environment": {"LONG": "x" * 131_067}}, "has 131073 bytes, and Linux"),
    ],
)
def test_what_would_wait_or_fail_for_ever_is_refused(options, words):
    with pytest.raises(OptionError, match=words):
        KubeflowJobLogExecutor(**options).to_dict()
