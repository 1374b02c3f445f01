# SPDX-License-Identifier: Apache-2.0
"""Whether a TrainJob's runtime can run our container; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .workload import WorkloadSpec

_CONTAINERS = ("containers", "initContainers")
_SINCE = {"securityContext": "2.2", "activeDeadlineSeconds": "2.2", "terminationGracePeriodSeconds": "2.3"}
"""Field → the first Trainer that takes it from a TrainJob; of the others 2.1 to 2.3 take all or none."""


def check(runtime: Mapping[str, Any], spec: WorkloadSpec, job: str, container: str) -> None:
    """Refuse a runtime in which the function would not run, or lacks what ``pod_patch`` changes.

    Args:
        runtime: As the cluster has it.
        spec: What is to run.
        job: Name of the runtime's replicated job whose pods are the nodes.
        container: Name of the container in them that runs the function.

    Raises:
        OptionError: Naming the option, the cause and the next step.
    """
    name = f"{spec.runtime_kind} {spec.runtime}"
    if "mpi" in (runtime["spec"].get("mlPolicy") or {}):
        raise OptionError(
            f"runtime: {name} is for MPI: it runs the function in a launcher that starts processes on the "
            "nodes, and this executor runs it on every node. Use a runtime without mpi in its mlPolicy; "
            "nothing was submitted"
        )
    found = _containers(runtime, job)
    if ("containers", container) not in found:
        raise OptionError(
            f"runtime: {name} has no job {job} with a container {container}, which would run the function. "
            "Use another runtime; nothing was submitted"
        )
    # Trainer 2.1 and 2.3 take containers that the runtime lacks; then no pod is ever made, and nothing
    # says why.
    for key, patched in sorted(_patched(spec) - found):
        raise OptionError(
            f"pod_patch: {key}: {name} has no {patched}, and a TrainJob can only change what is there: "
            "write it into the runtime; nothing was submitted"
        )


def check_unseen(spec: WorkloadSpec, container: str, why: str) -> None:
    """Refuse what cannot be checked with a runtime that we may not look at.

    Args:
        spec: What is to run.
        container: Name of the container that runs the function.
        why: Why we may not.

    Raises:
        OptionError: ``pod_patch`` changes other containers than ours.
    """
    if patched := _patched(spec) - {("containers", container)}:
        names = ", ".join(sorted(name for _, name in patched))
        raise OptionError(
            f"pod_patch: whether {spec.runtime_kind} {spec.runtime} has container {names} cannot be checked: "
            f"{why}. Or write it into the runtime; nothing was submitted"
        )


def instead(spec: WorkloadSpec, job: str, field: str, inside: str) -> str:
    """Which Trainer takes a field from a TrainJob, and where to write it for this one.

    Args:
        spec: What is to run.
        job: Name of the runtime's replicated job whose pods are the nodes.
        field: Its path in the TrainJob.
        inside: The same in the pod template; empty for another field.
    """
    since = next((version for name, version in _SINCE.items() if name in field.split(".")), "")
    name = inside or field.removeprefix("spec.")
    who = (
        f"Trainer takes {name} from a TrainJob since {since}, and this one is older"
        if since
        else f"no Trainer up to 2.3 takes {name} from a TrainJob"
    )
    place = f"template.spec.{f'template.{inside}' if inside else name}"
    return (
        f"{who}: write it into a runtime, at {place} of its replicated job {job}, and name that one with "
        f"runtime= (now {spec.runtime_kind} {spec.runtime})"
    )


def _patched(spec: WorkloadSpec) -> set[tuple[str, str]]:
    pod = spec.pod_patch.get("spec") or {}
    return {(key, one.get("name", "")) for key in _CONTAINERS for one in pod.get(key) or ()}


def _containers(runtime: Mapping[str, Any], job: str) -> set[tuple[str, str]]:
    """Kind and name of the containers in the pods of one of its jobs."""
    jobs = runtime["spec"]["template"]["spec"].get("replicatedJobs") or ()
    pods = [one["template"]["spec"]["template"]["spec"] for one in jobs if one.get("name") == job]
    return {(key, one["name"]) for pod in pods for key in _CONTAINERS for one in pod.get(key) or ()}
