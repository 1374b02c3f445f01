# SPDX-License-Identifier: Apache-2.0
"""Whether a job's queue can hold it: without Kueue, or without that queue, nobody looks at the label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalent_joblog_plugin.model.errors import OptionError

from .kubernetes_errors import Forbidden, NotFound

if TYPE_CHECKING:
    from .workload import Api, WorkloadSpec

GROUP = "kueue.x-k8s.io"


async def check_queue(api: Api, spec: WorkloadSpec) -> None:
    """Refuse a queue that is not there; one that we may not look at may be.

    Args:
        api: The cluster.
        spec: The job; nothing is asked where it names no queue.

    Raises:
        OptionError: The cluster has no Kueue, or the namespace no such queue.
        TransportError: The cluster cannot be reached.
    """
    if not spec.queue:
        return
    try:
        # What is served may be asked by everybody who is known.
        group = await api.request("GET", f"/apis/{GROUP}")
    except Forbidden:
        return
    except NotFound:
        raise OptionError(
            f"queue={spec.queue!r}: this cluster has no Kueue (API group {GROUP}), and the job would run "
            "at once: leave queue out, or ask for Kueue to be installed; nothing was submitted"
        ) from None
    version = (group.get("preferredVersion") or {}).get("groupVersion", f"{GROUP}/v1beta1")
    queues = f"/apis/{version}/namespaces/{spec.namespace}/localqueues"
    try:
        await api.request("GET", f"{queues}/{spec.queue}")
    except Forbidden:
        return
    except NotFound:
        raise OptionError(
            f"queue={spec.queue!r}: namespace {spec.namespace} has no such LocalQueue: kubectl -n "
            f"{spec.namespace} get localqueues shows those there are; nothing was submitted"
        ) from None
