# SPDX-License-Identifier: Apache-2.0
"""Checks of ``KubeflowJobLogExecutor``'s options; loaded with Covalent, so it imports no cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import OptionError

from . import options

if TYPE_CHECKING:
    from .joblog_kubeflow import KubeflowJobLogExecutor

POD_LABELS = {"sidecar.istio.io/inject": "false"}
"""Istio's sidecar would keep a pod running after its container has ended."""

RENAMED = {
    "base_image": "it is called image here",
    "k8s_config_path": "it is called kubeconfig here",
    "k8s_context": "it is called context here",
    "env": "it is called environment here",
    "num_workers": "it is called num_nodes here",
    "resources_per_worker": "it is called resources here",
    "resources_per_node": "it is called resources here",
    "vcpu": "use resources={'cpu': …}",
    "memory": "use resources={'memory': …}",
    "image_repo": "give the full image; nothing is built or pushed here",
    "labels": "they are called pod_labels here",
    "annotations": "they are called pod_annotations here",
}
"""Options of other Kubernetes executors and of Kubeflow's SDK → what to do here."""

DIRECT_OPTIONS = ("kubeconfig", "context", "namespace", "store", "framing")
"""What leads to a job's output, its handle being known."""

_LINES = (
    "kubeconfig",
    "context",
    "namespace",
    "runtime",
    "service_account",
    "priority_class",
    "queue",
    "store",
)
_TEXT_MAPS = ("pod_labels", "pod_annotations", "node_selector")
_OBJECTS = ("volumes", "volume_mounts", "tolerations")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def check(executor: KubeflowJobLogExecutor) -> None:
    """Raise for an option that cannot work.

    Raises:
        OptionError: Naming the option, the cause and the next step.
    """
    name = type(executor).__name__
    for option in _LINES:
        value = getattr(executor, option)
        if not isinstance(value, str) or any(c in value for c in "\0\n\r"):
            raise OptionError(f"{name}: {option}={value!r} must be one line of text")
    for option in ("namespace", "runtime", "service_account", "priority_class", "queue"):
        value = getattr(executor, option)
        if value and not _NAME.fullmatch(value):
            raise OptionError(
                f"{name}: {option}={value!r} is not a name Kubernetes takes: a-z, 0-9, '-', '.'"
            )
    options.check_choice(name, "kind", executor.kind, ("TrainJob", "PyTorchJob"))
    kinds = ("ClusterTrainingRuntime", "TrainingRuntime")
    options.check_choice(name, "runtime_kind", executor.runtime_kind, kinds)
    options.check_number(name, "num_nodes", executor.num_nodes, least=1, whole=True)
    options.check_number(name, "keep_failed", executor.keep_failed, least=0)
    options.check_choice(name, "framing", executor.framing, (True, False))
    options.check_environment(name, "environment", executor.environment)
    options.check_strings(name, "python", executor.python)
    if not executor.python:
        raise OptionError(f"{name}: python=[] must name what starts Python in the image")
    options.check_strings(name, "image_pull_secrets", executor.image_pull_secrets)
    _check_structures(executor, name)
    _check_kind(executor, name)


def _check_structures(executor: KubeflowJobLogExecutor, name: str) -> None:
    for option in _TEXT_MAPS:
        value = getattr(executor, option)
        if not isinstance(value, dict) or not all(
            isinstance(key, str) and isinstance(text, str) for key, text in value.items()
        ):
            raise OptionError(f"{name}: {option}={value!r} must be a dict of strings to strings")
    for option in _OBJECTS:
        value = getattr(executor, option)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise OptionError(
                f"{name}: {option}={value!r} must be a list of dicts, as in a pod's specification"
            )
    for option in ("resources", "pod_patch"):
        value = getattr(executor, option)
        if not isinstance(value, dict):
            raise OptionError(f"{name}: {option}={value!r} must be a dict")
    if executor.resources:
        from . import kubeflow_resources

        kubeflow_resources.check(name, executor.resources)
    if unknown := set(executor.pod_patch) - {"metadata", "spec"}:
        raise OptionError(
            f"{name}: pod_patch has {', '.join(sorted(map(str, unknown)))}; it is part of a pod template: "
            "{'metadata': …, 'spec': …}"
        )


def _check_kind(executor: KubeflowJobLogExecutor, name: str) -> None:
    if executor.image is not None and (not isinstance(executor.image, str) or not executor.image.strip()):
        raise OptionError(f"{name}: image={executor.image!r} must be the name of an image, or None")
    if executor.kind == "PyTorchJob" and executor.image is None:
        raise OptionError(f"{name}: a PyTorchJob has no runtime to take an image from: give image=")
    if executor.kind == "TrainJob" and not executor.runtime:
        raise OptionError(f"{name}: runtime='' must name a {executor.runtime_kind}")
    for variable in executor.environment:
        if variable.startswith(("PET_", "JOBLOG_")) and variable != "JOBLOG_RESULT_DIR":
            raise OptionError(f"{name}: environment: {variable} is set by Kubeflow or by us: leave it out")
    if re.search("//[^/@]*:[^/@]*@", executor.store):
        raise OptionError(
            f"{name}: store= holds a password, and options are no place for one: give it to fsspec's driver "
            "where Covalent's server and the pods run"
        )
    if executor.log_files:
        raise OptionError(
            f"{name}: log_files={executor.log_files!r}: Kubernetes shows the logs of containers, no files; "
            "print what is to be seen"
        )
