# SPDX-License-Identifier: Apache-2.0
"""Parts of manifests that every kind of job needs: the pod template, patches of it, and the Secret; pure."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import OptionError

from .workload import NAME_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .workload import Workload, WorkloadSpec

QUEUE = "kueue.x-k8s.io/queue-name"
"""Label by which Kueue finds a job's local queue."""

_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "ports": "containerPort",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "schedulingGates": "name",
    "resourceClaims": "name",
}
"""Lists of a pod template that are merged item by item, as the API's own patch strategies say; others
(tolerations, command, …) are replaced."""
_OWN = {
    "command": "the job starts our runner; set python= for another interpreter",
    "args": "the job starts our runner; give the function arguments instead",
    "restartPolicy": "Covalent repeats failed tasks, so pods are not restarted",
}


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with a part of a pod template merged over it, as ``kubectl patch`` does; neither is changed.

    Mappings are merged, lists of named things are merged by name, everything else is replaced, and None
    removes what is there.
    """
    merged = dict(base)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            below = merged.get(key)
            merged[key] = merge(below if isinstance(below, dict) else {}, value)
        elif key in _MERGE_KEYS and isinstance(value, (list, tuple)):
            merged[key] = _merge_items(merged.get(key) or [], value, _MERGE_KEYS[key])
        else:
            merged[key] = value
    return merged


def _merge_items(base: Any, patch: Any, name: str) -> list[Any]:
    items = list(base)
    places = {item.get(name): place for place, item in enumerate(items)}
    for item in patch:
        place = places.get(item.get(name)) if name in item else None
        if place is None:
            items.append(merge({}, item))
        else:
            items[place] = merge(items[place], item)
    return items


def pod_template(spec: WorkloadSpec, container: str) -> dict[str, Any]:
    """The pod template that ``spec`` asks for, its ``pod_patch`` merged in; what is empty is left out.

    Args:
        spec: What is to run.
        container: The container that runs it.

    Raises:
        OptionError: ``pod_patch`` is no part of a pod template, or changes what is ours.
    """
    check_name(spec)
    _check_patch(spec, container)
    own = _filled(
        metadata=_filled(labels=dict(spec.pod_labels), annotations=dict(spec.pod_annotations)),
        spec=_filled(
            containers=[_container(spec, container)],
            volumes=[dict(volume) for volume in spec.volumes],
            serviceAccountName=spec.service_account,
            imagePullSecrets=[{"name": name} for name in spec.image_pull_secrets],
            nodeSelector=dict(spec.node_selector),
            tolerations=[dict(toleration) for toleration in spec.tolerations],
            priorityClassName=spec.priority_class,
            terminationGracePeriodSeconds=spec.termination_grace,
        ),
    )
    return merge(own, spec.pod_patch)


def _container(spec: WorkloadSpec, name: str) -> dict[str, Any]:
    return _filled(
        name=name,
        image=spec.image,
        command=[literal(word) for word in spec.command],
        env=_environment(spec),
        resources=_resources(spec.resources),
        volumeMounts=[dict(mount) for mount in spec.volume_mounts],
    )


def _filled(**fields: Any) -> dict[str, Any]:
    # Not "if value": 0 seconds of grace is a value.
    return {key: value for key, value in fields.items() if value is not None and value not in ("", [], {})}


def literal(text: str) -> str:
    """``text`` so that it arrives unchanged: Kubernetes replaces ``$(NAME)``, and ``$$`` by ``$``."""
    return text.replace("$", "$$")


def _environment(spec: WorkloadSpec) -> list[dict[str, Any]]:
    plain = [{"name": name, "value": literal(value)} for name, value in spec.environment.items()]
    secret = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": of, "key": key}}}
        for name, (of, key) in spec.secret_environment.items()
    ]
    return plain + secret


def _resources(resources: Mapping[str, Any]) -> dict[str, Any]:
    if not resources or set(resources) <= {"requests", "limits", "claims"}:
        both = {part: _quantities(resources[part]) for part in ("requests", "limits") if resources.get(part)}
        return {**resources, **both}
    return {"requests": _quantities(resources), "limits": _quantities(resources)}


def _quantities(amounts: Mapping[str, Any]) -> dict[str, Any]:
    # Fields of custom resources take whole numbers and texts, and Python's 1e-05 is no quantity.
    return {
        name: f"{Decimal(str(amount)):f}" if isinstance(amount, float) else amount
        for name, amount in amounts.items()
    }


def check_name(spec: WorkloadSpec) -> None:
    """Refuse a name of which the controllers cannot make pod names.

    Raises:
        OptionError: It is too long.
    """
    if len(spec.name) > NAME_CHARACTERS:
        raise OptionError(
            f"job name {spec.name!r} has {len(spec.name)} characters: more than {NAME_CHARACTERS} leave no "
            "room for what Kubeflow appends; shorten it"
        )


def _check_patch(spec: WorkloadSpec, container: str) -> None:
    patch = spec.pod_patch
    if odd := (set(patch) - {"metadata", "spec"}) | (
        set(patch.get("metadata") or {}) - {"labels", "annotations"}
    ):
        raise OptionError(
            f"pod_patch: {', '.join(sorted(odd))}: it is part of a pod template, so that it has metadata "
            'with labels and annotations, and spec, such as {"spec": {"nodeSelector": {"disk": "ssd"}}}'
        )
    pod = patch.get("spec") or {}
    ours = [item for item in pod.get("containers") or () if item.get("name") == container]
    for key in (key for part in (pod, *ours) for key in part if key in _OWN):
        raise OptionError(f"pod_patch: {key}: {_OWN[key]}; leave it out")


def job_metadata(spec: WorkloadSpec) -> dict[str, Any]:
    """Of the job's object."""
    labels = {**spec.labels, **({QUEUE: spec.queue} if spec.queue else {})}
    own = _filled(labels=labels, annotations=dict(spec.annotations))
    return {"name": spec.name, "namespace": spec.namespace, **own}


def payload_secret(kind: Workload, spec: WorkloadSpec, uid: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """The Secret a job's containers wait for; it goes with the job.

    Args:
        kind: Of the job.
        spec: The job; the Secret has its name, namespace and labels.
        uid: Of the job's object. A dependent by ``uid`` alone: as neither controller nor what blocks the
            job's deletion it needs no right on the job's finalizers.
        texts: Key → text.
    """
    owner = {"apiVersion": f"{kind.group}/{kind.version}", "kind": kind.kind, "name": spec.name, "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": spec.name,
            "namespace": spec.namespace,
            "labels": dict(spec.labels),
            "ownerReferences": [{**owner, "controller": False}],
        },
        "type": "Opaque",
        "immutable": True,
        "stringData": dict(texts),
    }
