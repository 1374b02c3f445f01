# SPDX-License-Identifier: Apache-2.0
"""Output of a Kubeflow job straight from the cluster, which keeps the newest execution."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.capabilities import Answer, Capabilities, Capability
from covalent_joblog_plugin.model.errors import OutputGone, OutputNotFound, OutputNotYet, OutputUnsupported
from covalent_joblog_plugin.model.records import ReadRequest

from .kubeflow_follower import JobFollower
from .kubeflow_job import Job
from .kubernetes_errors import NotFound
from .pauses import wait_for
from .workload import WorkloadSpec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from covalent_joblog_plugin.model.records import Delta, Stream

    from .instance_output import Spool
    from .kubeflow_job import Instance, JobEnd
    from .kubernetes import Kubernetes
    from .workload import Workload

PIECE_BYTES = 1 << 20
QUIET = 1.0
"""Seconds without news after which what there is now counts as read, when nobody wants to follow."""
_NEWEST_ONLY = (
    "retained: Kubernetes keeps only the newest execution and does not number it; read it without execution= "
    "and earlier ones from the node's stored output"
)


class KubeflowReader:
    """Reads one job; see ``OutputReader``.

    Args:
        api: The cluster; closed with the reader.
        workload: The job's kind.
        handle: What ``Job.handle`` gave.
        framing: Whether the job's output is framed by our runner.
        place: Beginning of the URLs of the job's objects in its store; empty without one.
    """

    def __init__(
        self, api: Kubernetes, workload: Workload, handle: dict[str, Any], *, framing: bool, place: str = ""
    ) -> None:
        self._api = api
        self._workload = workload
        self._handle = handle
        self._framing = framing
        self._place = place

    async def capabilities(self) -> Capabilities:
        """See ``OutputReader``."""
        namespace = self._handle["namespace"]
        may = await self._api.can_i("get", "", "pods", "log", namespace=namespace)
        right = (
            Capability(Answer.YES)
            if may
            else Capability(Answer.NO, f"needs get pods/log in namespace {namespace}")
        )
        forgets = "Kubernetes keeps the log of the newest container only, until the job is deleted"
        merged = "framing=False: the log API of Kubernetes merges both streams"
        return Capabilities(
            read=right,
            follow=right,
            retained=Capability(Answer.NO, forgets),
            split_streams=Capability(Answer.YES) if self._framing else Capability(Answer.NO, merged),
            complete=Capability(Answer.UNKNOWN, "the beginning may have been rotated away"),
        )

    async def executions(self) -> list[int]:
        """See ``OutputReader``; always ``OutputUnsupported``: the cluster does not know their numbers."""
        raise OutputUnsupported(_NEWEST_ONLY)

    async def output(
        self,
        *,
        execution: int | None = None,
        rank: int = 0,
        stream: Stream = "stdout",
        follow: bool = False,
        start: int = 0,
    ) -> AsyncGenerator[bytes, None]:
        """See ``OutputReader``; earlier executions are ``OutputUnsupported``: the cluster forgets them."""
        if execution is not None:
            raise OutputUnsupported(_NEWEST_ONLY)
        news = asyncio.Event()
        async with self._following(news.set, rank) as follower:
            instance = await self._newest(follower, rank)
            spool = self._spool(instance, stream)
            async for data in _pieces(instance, stream, spool, news, follow=follow, start=start):
                yield data

    @asynccontextmanager
    async def ended(self) -> AsyncIterator[tuple[JobFollower, JobEnd]]:
        """How the job ended, which is waited for, and what reads its logs meanwhile.

        Raises:
            OutputNotYet: Nothing was started yet.
            OutputGone: The job was deleted.
            TransportError: The cluster cannot be reached.
        """
        async with self._following(lambda: None) as follower:
            await self._newest(follower, 0)
            yield follower, await follower.end

    async def close(self) -> None:
        """See ``OutputReader``."""
        await self._api.close()

    @asynccontextmanager
    async def _following(
        self, changed: Callable[[], None], rank: int | None = None
    ) -> AsyncIterator[JobFollower]:
        follower = JobFollower(self._api, await self._job(), changed, rank)
        try:
            yield follower
        finally:
            await follower.close()

    async def _job(self) -> Job:
        handle = self._handle
        try:
            await self._api.request("GET", self._workload.path(handle["namespace"], handle["name"]))
        except NotFound as error:
            raise OutputGone(
                f"{handle['kind']} {handle['name']} is not in namespace {handle['namespace']} any more: it "
                "was deleted, and its logs with it; read the node's stored output"
            ) from error
        spec = WorkloadSpec(
            name=handle["name"],
            namespace=handle["namespace"],
            num_nodes=handle["num_nodes"],
            image=None,
            command=(),
        )
        secret = {"store": self._place} if self._place else {}
        return Job(self._workload, spec, secret, self._framing, lambda _: None)

    async def _newest(self, follower: JobFollower, rank: int) -> Instance:
        await follower.looked()
        job = follower.job
        if instances := job.instances.get(rank):
            return instances[-1]
        if job.instances:
            raise OutputNotFound(f"there is no rank {rank}: the job has {_ranks(job)}")
        why = job.waiting or "no container has been started"
        raise OutputNotYet(f"{job.workload.kind} {job.name} has no output yet: {why}; ask again later")

    def _spool(self, instance: Instance, stream: Stream) -> Spool:
        spool = instance.output.spools.get(stream)
        if spool is None:
            there = " and ".join(instance.output.spools)
            raise OutputUnsupported(f"split_streams: there is no {stream} in this job's log, but {there}")
        for other in instance.output.spools.values():
            if other is not spool:
                other.ignore()
        return spool


def _ranks(job: Job) -> str:
    return ", ".join(map(str, sorted(job.instances)))


async def _pieces(
    instance: Instance, stream: Stream, spool: Spool, news: asyncio.Event, *, follow: bool, start: int
) -> AsyncIterator[bytes]:
    pos = 0
    while True:
        news.clear()
        ended = spool.ended  # before the look: what came until then is in the answer
        delta: Delta | None = spool.answer(ReadRequest(instance.path(stream), pos, stored=pos), PIECE_BYTES)
        instance.output.took()
        if delta is not None and delta.data:
            pos += len(delta.data)
            if piece := delta.data[max(0, start - (pos - len(delta.data))) :]:
                yield piece
        elif ended:
            return
        else:
            await wait_for(news, None if follow else QUIET)
            if not (follow or news.is_set()):
                return
