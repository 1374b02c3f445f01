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
_LABEL = re.compile("[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_CHARACTERS, _PREFIX_CHARACTERS = 63, 253
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
    _check_mounts(executor, name)
    _check_kind(executor, name)


def _check_structures(executor: KubeflowJobLogExecutor, name: str) -> None:
    for option in _TEXT_MAPS:
        value = getattr(executor, option)
        if not isinstance(value, dict) or not all(
            isinstance(key, str) and isinstance(text, str) for key, text in value.items()
        ):
            raise OptionError(f"{name}: {option}={value!r} must be a dict of strings to strings")
        for key, text in value.items():
            _check_label(f"{name}: {option}", key, "" if option == "pod_annotations" else text)
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


def _check_label(where: str, key: str, value: str) -> None:
    # Trainer takes any, and then no pod can be made of it.
    prefix, slash, short = key.rpartition("/")
    named = len(short) <= _LABEL_CHARACTERS and _LABEL.fullmatch(short)
    if not named or (slash and not (len(prefix) <= _PREFIX_CHARACTERS and _NAME.fullmatch(prefix))):
        raise OptionError(
            f"{where}: {key!r} is not a key Kubernetes takes: at most {_LABEL_CHARACTERS} of A-Z, a-z, 0-9, "
            "'-', '_', '.', with a letter or digit at both ends, after a domain and '/' if you like"
        )
    if value and (len(value) > _LABEL_CHARACTERS or not _LABEL.fullmatch(value)):
        raise OptionError(
            f"{where}: {key}={value!r} is not a value Kubernetes takes: at most {_LABEL_CHARACTERS} of A-Z, "
            "a-z, 0-9, '-', '_', '.', with a letter or digit at both ends"
        )


def _check_mounts(executor: KubeflowJobLogExecutor, name: str) -> None:
    more = (executor.pod_patch.get("spec") or {}).get("volumes") or ()
    known = {volume.get("name") for volume in (*executor.volumes, *more)}
    for mount in executor.volume_mounts:
        if not mount.get("name") or not str(mount.get("mountPath", "")).startswith("/"):
            raise OptionError(
                f"{name}: volume_mounts: {mount!r} needs the name of a volume and an absolute mountPath"
            )
        # A TrainJob's runtime may have it.
        if executor.kind == "PyTorchJob" and mount["name"] not in known:
            raise OptionError(
                f"{name}: volume_mounts: there is no volume {mount['name']!r}: give it in volumes="
            )


def _check_kind(executor: KubeflowJobLogExecutor, name: str) -> None:
    if executor.image is not None and (not isinstance(executor.image, str) or not executor.image.strip()):
        raise OptionError(f"{name}: image={executor.image!r} must be the name of an image, or None")
    if executor.kind == "PyTorchJob" and executor.image is None:
        raise OptionError(f"{name}: a PyTorchJob has no runtime to take an image from: give image=")
    if executor.kind == "TrainJob" and not executor.runtime:
        raise OptionError(f"{name}: runtime='' must name a {executor.runtime_kind}")
    for variable in executor.environment:
        ours = variable.startswith(("PET_", "JOBLOG_")) or variable == "JOB_COMPLETION_INDEX"
        if ours and variable != "JOBLOG_RESULT_DIR":
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
