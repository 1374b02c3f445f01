# SPDX-License-Identifier: Apache-2.0
"""What a pod's JSON says of the container that runs the function, and why it does not run yet; pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from .workload import ContainerInstance

if TYPE_CHECKING:
    from collections.abc import Mapping

_IMAGE = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "ImageInspectError",
    "SignatureValidationFailed",
}
_CREATE = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError"}
_AS_USUAL = {"", "ContainerCreating", "PodInitializing"}
_ENDED = {"Failed", "Succeeded"}
_NO_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')


def condition(status: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The condition of that type if it is true; else an empty one."""
    for found in status.get("conditions") or ():
        if found.get("type") == kind and found.get("status") == "True":
            return dict(found)
    return {}


def instances(
    pod: Mapping[str, Any], container: str, rank: int | None, attempt: int = 0
) -> list[ContainerInstance]:
    """The container's instances that the pod's status still tells of, the older first.

    Kubernetes keeps the newest and the one before that. While a container waits to be started again, the one
    before is the newest that was started.

    Args:
        pod: As the API gives it.
        container: Name of the container.
        rank: Node rank of the pod.
        attempt: Restart attempt of its JobSet.
    """
    status = pod.get("status") or {}
    common = _of_pod(pod, rank, attempt)
    statuses = status.get("containerStatuses") or ()
    found = next((item for item in statuses if item.get("name") == container), None)
    why, unstartable = _why(pod, container, found)
    if found is None:
        # The node may have refused the pod before it had containers.
        state: dict[str, Any] = {"terminated": {}} if status.get("phase") in _ENDED else {}
        return [_instance(common, state, 0, "", why, unstartable)]
    common["image"] = str(found.get("image") or "")
    count = int(found.get("restartCount") or 0)
    state = found.get("state") or {}
    before = found.get("lastState") or {}
    started = "running" in state or "terminated" in state
    seen = []
    if "terminated" in before:
        # A container that waits is counted as what it was before.
        place = count - 1 if started else count
        seen.append(_instance(common, before, max(place, 0), "", "", unstartable=False))
        count = max(place, 0) + 1
    current = str(found.get("containerID") or "") if started else ""
    return [*seen, _instance(common, state, count, current, why, unstartable)]


def _of_pod(pod: Mapping[str, Any], rank: int | None, attempt: int) -> dict[str, Any]:
    metadata, status = pod["metadata"], pod.get("status") or {}
    disrupted = condition(status, "DisruptionTarget")
    return {
        "rank": rank,
        "pod": metadata["name"],
        "pod_uid": metadata["uid"],
        "attempt": attempt,
        "restart_policy": (pod.get("spec") or {}).get("restartPolicy", "Always"),
        "deleted": _told_to_go(metadata),
        "pod_phase": status.get("phase") or "Pending",
        "pod_reason": status.get("reason") or disrupted.get("reason", ""),
        "pod_message": status.get("message") or disrupted.get("message", ""),
    }


def _told_to_go(metadata: Mapping[str, Any]) -> str | None:
    """When, RFC 3339: Kubernetes says when the pod's time will be over."""
    over = metadata.get("deletionTimestamp")
    if not over:
        return None
    grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return f"{datetime.fromisoformat(over.removesuffix('Z')) - grace:%Y-%m-%dT%H:%M:%SZ}"


def _instance(
    common: dict[str, Any],
    state: Mapping[str, Any],
    count: int,
    container_id: str,
    why: str,
    unstartable: bool,
) -> ContainerInstance:
    common = {**common, "restart_count": count, "container_id": container_id}
    if (running := state.get("running")) is not None:
        return ContainerInstance(**common, state="running", started_at=running.get("startedAt"))
    if (ended := state.get("terminated")) is not None:
        common["container_id"] = ended.get("containerID") or container_id
        return ContainerInstance(
            **common,
            state="terminated",
            exit_code=ended.get("exitCode"),
            signal=ended.get("signal"),
            reason=ended.get("reason", ""),
            message=ended.get("message", ""),
            started_at=_started_at(ended),
            finished_at=ended.get("finishedAt"),
            why_waiting=why,
        )
    waiting = state.get("waiting") or {}
    return ContainerInstance(
        **common,
        state="waiting",
        waiting_reason=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        why_waiting=why,
        unstartable=unstartable,
    )


def _started_at(ended: Mapping[str, Any]) -> str | None:
    started = ended.get("startedAt")
    # The runtime's word for never: it could not be started.
    return ended.get("finishedAt") if str(started).startswith("1970-01-01") else started


# -- why it does not run ----------------------------------------------------------------------------------


def _why(pod: Mapping[str, Any], container: str, found: Mapping[str, Any] | None) -> tuple[str, bool]:
    """Why the container does not run, in words, and whether somebody has to help; ("", False) if it does."""
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase in _ENDED:
        return ("" if found else _refused(pod)), False
    for scheduled in status.get("conditions") or ():
        if scheduled.get("type") == "PodScheduled" and scheduled.get("status") == "False":
            return _unscheduled(pod["metadata"].get("namespace", ""), scheduled)
    for before in status.get("initContainerStatuses") or ():
        why, unstartable = _held_up(before)
        if why:
            return why, unstartable
    if found is not None:
        return _held_up(found)
    if status.get("containerStatuses"):
        others = ", ".join(item["name"] for item in status["containerStatuses"])
        return f"it has no container {container}, only {others}: the runtime must have one", True
    return "", False


def _refused(pod: Mapping[str, Any]) -> str:
    status, spec = pod["status"], pod.get("spec") or {}
    reason = status.get("reason") or "no reason given"
    told = f": {status['message']}" if status.get("message") else ""
    return f"node {spec.get('nodeName', '')} did not start it ({reason}){told}"


def _unscheduled(namespace: str, scheduled: Mapping[str, Any]) -> tuple[str, bool]:
    reason, message = scheduled.get("reason", ""), scheduled.get("message", "")
    if reason == "SchedulingGated":
        return "it waits at a scheduling gate", False
    if claim := _NO_CLAIM.search(message):
        return (
            f"it cannot be scheduled: there is no PersistentVolumeClaim {claim[1]}, see kubectl -n "
            f"{namespace} get pvc. Name another one in volumes, or create it"
        ), True
    return (
        f"it cannot be scheduled ({reason}): {message.rstrip('.') or 'no message'}. It waits until "
        "there is room; if there never is, ask for less in resources, or change node_selector and tolerations"
    ), False


def _held_up(status: Mapping[str, Any]) -> tuple[str, bool]:
    waiting = (status.get("state") or {}).get("waiting")
    reason = (waiting or {}).get("reason", "")
    if waiting is None or reason in _AS_USUAL:
        return "", False
    what = f"container {status.get('name', '')}"
    told = f": {waiting['message']}" if waiting.get("message") else ""
    if reason in _IMAGE:
        image = f"image {status.get('image') or ''}".rstrip()
        cure = "Look at image, and at image_pull_secrets for a private one"
        return f"{what} has no image ({reason}): {image} cannot be pulled{told}. {cure}", True
    if reason in _CREATE:
        return f"{what} cannot be created ({reason}){told}", True
    if reason == "CrashLoopBackOff":
        return f"{what} failed and is started again after a pause ({reason}){told}", False
    return f"{what} waits ({reason}){told}", False
