# SPDX-License-Identifier: Apache-2.0
"""One node's Kubeflow job, from what is asked of the cluster before it to its removal."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from covalent._shared_files import TaskCancelledError

from covalent_joblog_plugin.model.errors import JobLogError, PayloadError
from covalent_joblog_plugin.payload import bundle

from . import kubeflow_capabilities, kubeflow_cluster, kubeflow_outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalent_joblog_plugin.cluster.kubeflow import KubeflowCluster
    from covalent_joblog_plugin.cluster.kubeflow_job import Job, JobEnd

    from .joblog_kubeflow import KubeflowJobLogExecutor
    from .kubeflow_capabilities import Rights

log = logging.getLogger(__name__)

NOTE_SECONDS = 1.0
REMOVAL_PATIENCE = 20.0
"""Seconds the removal of a job that was given up may hold up the node's end; it is tried on after that."""


class KubeflowRun:
    """The run of one node.

    Attributes:
        job: The job once it has been submitted; None before.
    """

    def __init__(self, executor: KubeflowJobLogExecutor) -> None:
        self._executor = executor
        self._cluster: KubeflowCluster = executor.source
        self._made: Job | None = None
        self._rights: Rights | None = None
        self._succeeded = False
        self._given_up = False
        self._taken = True
        self.job: Job | None = None

    async def value(
        self,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
        task_metadata: dict[str, Any],
    ) -> Any:
        """See ``KubeflowJobLogExecutor.run``."""
        executor, cluster = self._executor, self._cluster
        await self._ask_rights()
        call = bundle.take_apart(function, args, kwargs)
        job = self._made = await kubeflow_cluster.make_job(executor, cluster, call, task_metadata)
        await executor.announce_job(job.handle())
        if not await cluster.submit(job, lambda: executor.cancel_requested):
            raise TaskCancelledError
        self.job = job
        executor.session.files_changed()
        if executor.cancel_requested:  # while it was being created
            await cluster.cancel(job.handle())
        telling = asyncio.create_task(self._tell(job), name="joblog why it waits")
        try:
            end = await self._ended(job)
        finally:
            telling.cancel()
        if executor.cancel_requested:
            raise TaskCancelledError
        return await self._result(job, end)

    async def close(self) -> None:
        """Say whether the output is complete; remove the job, a failed one after ``keep_failed`` seconds."""
        if self._made is not None:
            await kubeflow_outcome.clear_store(self._made, taken=self._taken)
        if self.job is None:
            if self._made is not None and self._made.uid:  # created, and then the cluster did not answer
                kubeflow_cluster.delete_later(self._executor, self._made.handle(), 0)
            return
        watch = self._executor.session.watch
        if watch is not None:
            found = kubeflow_capabilities.after(self.job, self._rights, watch.lanes.stored())
            await watch.output.remember({"capabilities": found.to_json()})
        await self._cluster.forget(self.job)
        await self._remove(self.job)

    async def _remove(self, job: Job) -> None:
        executor = self._executor
        if self._given_up:
            return
        if not (self._succeeded or executor.cancel_requested or not executor.keep_failed):
            kubeflow_cluster.delete_later(executor, job.handle(), executor.keep_failed)
            return
        try:
            await self._cluster.delete(job)
        except JobLogError as error:
            log.warning("%s %s stays: %s", job.workload.kind, job.name, error)

    async def _ask_rights(self) -> None:
        executor, output = self._executor, self._executor.session.output
        self._rights = await kubeflow_capabilities.rights(self._cluster.api, executor.kind)
        if output is not None:
            known = kubeflow_capabilities.before(framing=executor.framing, rights=self._rights)
            await output.remember({"capabilities": known.to_json()})

    async def _result(self, job: Job, end: JobEnd) -> Any:
        removal = await self._give_up(job) if end.given_up else ""
        read_to_end = partial(self._cluster.read_to_end, job)
        patience = self._executor.final_read_timeout
        try:
            value = await kubeflow_outcome.result(job, end, read_to_end, patience, removal)
        except PayloadError:
            self._taken = False
            raise
        self._succeeded = True
        return value

    async def _give_up(self, job: Job) -> str:
        """Remove a job that may still run, so that nothing does once its node has failed; what was done."""
        self._given_up = True
        kind = job.workload
        removing = asyncio.create_task(self._cluster.cancel(job.handle()), name="joblog given up")
        await asyncio.wait([removing], timeout=REMOVAL_PATIENCE)
        if removing.done():
            await removing
            return f"{kind.kind} {job.name} was deleted, so that it does not run later"
        removing.cancel()
        kubeflow_cluster.delete_later(self._executor, job.handle(), 0)
        return (
            f"{kind.kind} {job.name} could not be deleted yet, which is tried on, and may still run: kubectl "
            f"-n {job.spec.namespace} delete {kind.plural}.{kind.group} {job.name}"
        )

    async def _tell(self, job: Job) -> None:
        """Keep with the node why the job waits, or why nothing is known of it."""
        told, output = "", self._executor.session.output
        while True:
            note = self._cluster.trouble(job) or job.waiting
            if note != told:
                told = note
                log.info("%s: %s", job.name, note or "it goes on")
                if output is not None:
                    await output.remember({"note": note})
            await asyncio.sleep(NOTE_SECONDS)

    async def _ended(self, job: Job) -> JobEnd:
        executor, cluster = self._executor, self._cluster
        if executor.time_limit <= 0:
            return await cluster.ended(job)
        ended = asyncio.create_task(cluster.ended(job), name="joblog time limit")
        try:
            while (left := executor.time_limit - cluster.seconds_run(job)) > 0:
                await asyncio.wait([ended], timeout=max(left, NOTE_SECONDS))
                if ended.done():
                    return await ended
        finally:
            ended.cancel()
        await cluster.cancel(job.handle())
        end = await cluster.ended(job)
        if not executor.cancel_requested:
            raise kubeflow_outcome.over_time(job, end, executor.time_limit)
        return end
