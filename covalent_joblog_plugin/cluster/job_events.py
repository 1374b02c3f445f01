# SPDX-License-Identifier: Apache-2.0
"""Why a job has no pods, or no containers, or was stopped: only events tell, if they may be read.

What refuses pods (quota, PodSecurity, webhooks, a service account that is not there) is answered to the
controller that creates them, which writes an event and tries again for ever. A batch Job below a TrainJob
writes why it stopped; the TrainJob only says that a Job failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .kubernetes_errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .workload import Api

_RECENT = 500
"""Events of a namespace that are looked at; a busy namespace has thousands."""
_CREATIONS = {"FailedCreate", "FailedCreatePod", "TrainJobResourcesCreationFailed", "JobCreationFailed"}
_STARTS = {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"}
_CURES = (
    ("exceeded quota", "ask for less in resources, or wait until other jobs of the namespace have ended"),
    ("must specify", "the namespace's quota wants it: set it in resources"),
    (
        "violates PodSecurity",
        "make the pod template of the runtime, or pod_patch, fit the namespace's policy",
    ),
    ("MountVolume.SetUp failed", "what volumes names must be there"),
    ("serviceaccount", "set service_account to one of kubectl get serviceaccounts"),
    ("priority class", "set priority_class to one of kubectl get priorityclasses"),
    ("admission webhook", "ask whoever runs that webhook what it wants"),
)
_DEADLINE = "DeadlineExceeded"
"""Reason of a Job, and of a kubelet, for ending pods in which nothing failed."""


async def why_no_pods(api: Api, namespace: str, name: str) -> str:
    """Why pods of a job are not created, in words with what to do; empty where nothing tells.

    Args:
        api: The cluster.
        namespace: Of the job.
        name: Of the job; what is created for it has names that begin with it.

    Raises:
        TransportError: The cluster cannot be reached.
    """
    try:
        return refusal(await _events(api, namespace, "type=Warning"), name)
    except Forbidden:
        return f"kubectl -n {namespace} get events tells why; here it is shown if we may list events"


async def why_not_started(api: Api, namespace: str, name: str) -> str:
    """Why containers of a job are not started, in words; empty where nothing tells.

    Args:
        api: The cluster.
        namespace: Of the job.
        name: Of the job.

    Raises:
        TransportError: The cluster cannot be reached.
    """
    try:
        events = await _events(api, namespace, "type=Warning")
    except Forbidden:
        return ""
    message = _newest(events, name, _STARTS)
    return f"its pods cannot be started: {message}" if message else ""


async def why_stopped(api: Api, namespace: str, name: str) -> str:
    """Why a job was ended from outside, as a reason: ``DeadlineExceeded``, or empty where nothing tells.

    Args:
        api: The cluster.
        namespace: Of the job.
        name: Of the job.

    Raises:
        TransportError: The cluster cannot be reached.
    """
    try:
        events = await _events(api, namespace, f"reason={_DEADLINE}")
    except Forbidden:
        return ""
    return _DEADLINE if any(_belongs(event, name) for event in events) else ""


async def _events(api: Api, namespace: str, which: str) -> list[dict[str, Any]]:
    query = {"fieldSelector": which, "limit": str(_RECENT)}
    answer = await api.request("GET", f"/api/v1/namespaces/{namespace}/events", query=query)
    return list(answer.get("items") or ())


def refusal(events: Any, name: str) -> str:
    """The newest of ``events`` that says why something of the job was not created, in words; else empty."""
    message = _newest(events, name, _CREATIONS)
    return f"its pods cannot be created: {message}" if message else ""


def _newest(events: Any, name: str, reasons: set[str]) -> str:
    """What the newest of the job's events with one of these reasons says, and what to do; else empty."""
    found = [event for event in events if event.get("reason") in reasons and _belongs(event, name)]
    if not found:
        return ""
    message = str(max(found, key=_time).get("message", ""))
    cure = next((cure for mark, cure in _CURES if mark in message.lower() or mark in message), "")
    return f"{message}{f'. {cure[0].upper()}{cure[1:]}' if cure else ''}"


def _belongs(event: Mapping[str, Any], name: str) -> bool:
    owner = str((event.get("involvedObject") or {}).get("name", ""))
    return owner == name or owner.startswith(f"{name}-")


def _time(event: Mapping[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
