# SPDX-License-Identifier: Apache-2.0
"""Follows one job: which container instances it has, what each writes, and when it is over.

What became of the job is told by its containers, not by the phase of its pods (a sidecar keeps a pod
running) and never by its log: a failed read says nothing about a job.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import JobLogError, TransportError
from covalent_joblog_plugin.model.records import SeamKind

from . import kubeflow_wording
from .instance_output import InstanceOutput
from .job_events import why_no_pods, why_not_started, why_stopped
from .kubeflow_job import CONTAINER_FAILED, UNSTARTABLE, Instance, JobEnd
from .kubernetes_errors import NotFound
from .pauses import back_off, wait_for
from .pod_log import InstanceState, PodLog
from .workload import JobPhase

if TYPE_CHECKING:
    from collections.abc import Callable

    from .kubeflow_job import Job
    from .kubernetes import Kubernetes
    from .workload import ContainerInstance

log = logging.getLogger(__name__)

STARTING_PACE, RUNNING_PACE = 0.5, 2.0
"""Seconds between two looks at a job whose containers start or end, and at one that simply runs."""
STARTING = 120.0
"""Seconds after the last change for which a job counts as starting."""
SIDECAR_PATIENCE = 15.0
"""Seconds a failed container's pod may go on before its sidecar counts as what keeps it running."""
UNSTARTABLE_PATIENCE = 120.0
"""Seconds an image may fail to be pulled, or a container to be created, before the job is given up."""
PODLESS_PATIENCE, IDLE_PATIENCE = 5.0, 15.0
"""Seconds a job may be without pods, and its pods without containers, before it is asked why."""
PODS_PATIENCE = 120.0
"""Seconds the containers of an ended job may take to end."""


class JobFollower:
    """Follows one job from its creation until ``close``.

    Args:
        api: The cluster.
        job: The job; its ``instances`` are kept up to date here.
        changed: Called when there is something new to read.
        rank: Whose log is read; None for every rank's.
    """

    def __init__(
        self, api: Kubernetes, job: Job, changed: Callable[[], None], rank: int | None = None
    ) -> None:
        self._api = api
        self.job = job
        self._changed = changed
        self._rank = rank
        self._known: dict[str, Instance] = {}
        self._begun = 0
        self._lock = asyncio.Lock()
        self._hurry = asyncio.Event()
        self._lively_until = time.monotonic() + STARTING
        self._since: dict[str, float] = {}
        self._idle = ""
        self._stopped: str | None = None
        self.end: asyncio.Future[JobEnd] = asyncio.get_running_loop().create_future()
        self.seconds_run = 0.0
        """Seconds so far in which at least one container ran."""
        self._ran_at: float | None = None
        self.trouble = ""
        """Why the cluster's answer is not known at the moment, and since when; empty when it is."""
        self._task = asyncio.create_task(self._run(), name=f"joblog follow {job.name}")

    async def looked(self) -> None:
        """Look at the job now.

        Raises:
            TransportError: The cluster cannot be reached.
        """
        await self._fresh()

    async def reading_done(self) -> None:
        """Wait for that."""
        while readings := [k.reading for k in self._known.values() if k.reading and not k.reading.done()]:
            await asyncio.wait(readings)

    def hurry(self) -> None:
        """Something was done to the job: look soon, and often for a while."""
        self._lively_until = time.monotonic() + STARTING
        self._hurry.set()

    async def close(self) -> None:
        """Follow it no more."""
        tasks = [self._task, *(known.reading for known in self._known.values() if known.reading)]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if not self.end.done():
            self.end.set_exception(TransportError(f"job {self.job.name} is not followed any more"))
            self.end.exception()

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._fresh()
                failures, self.trouble = 0, ""
                pause = STARTING_PACE if time.monotonic() < self._lively_until else RUNNING_PACE
            except Exception as error:  # noqa: BLE001 - whatever a look raised, the job is not to be left alone
                self._complain(error)
                failures += 1
                pause = min(15.0, back_off(failures))
            self._hurry.clear()
            await wait_for(self._hurry, pause)

    def _complain(self, error: Exception) -> None:
        since = self.trouble.partition(": ")[0] or f"not answering since {time.strftime('%H:%M:%S')}"
        known, self.trouble = self.trouble, f"{since}: {error}"
        if not known:
            expected = isinstance(error, JobLogError)
            level = logging.WARNING if expected else logging.ERROR
            log.log(level, "job %s (it goes on): %s", self.job.name, error, exc_info=not expected)

    async def _fresh(self) -> None:
        """Look at the job; who asks while somebody else is about to look shares that look."""
        wanted = self._begun + 1
        async with self._lock:
            if self._begun < wanted:
                await self._look()

    async def _look(self) -> None:
        self._begun += 1
        job, pods = await asyncio.gather(self._object(), self._pods())
        found = [instance for pod in pods for instance in self.job.workload.instances(pod)]
        self._update(found)
        await self._ask_why(job, found)
        self._judge(job, found)

    async def _object(self) -> dict[str, Any] | None:
        job = self.job
        try:
            return await self._api.request("GET", job.workload.path(job.spec.namespace, job.name))
        except NotFound:
            return None

    async def _pods(self) -> list[dict[str, Any]]:
        job = self.job
        path = f"/api/v1/namespaces/{job.spec.namespace}/pods"
        answer = await self._api.request("GET", path, query=job.workload.pod_query(job.name))
        return list(answer.get("items") or ())

    # -- instances ------------------------------------------------------------------------------------

    def _update(self, found: list[ContainerInstance]) -> None:
        begun = [seen for seen in found if seen.container_id and seen.rank is not None]
        newest = {seen.pod_uid: seen.restart_count for seen in sorted(begun, key=lambda s: s.restart_count)}
        for seen in sorted(begun, key=lambda s: (s.started_at or "", s.restart_count)):
            known = self._known.get(seen.container_id)
            if known is None:
                self._add(seen)
                continue
            if known.seen.state != seen.state:
                self.hurry()
            known.seen = seen
            known.superseded = seen.restart_count < newest[seen.pod_uid]
        here = {seen.container_id for seen in begun}
        for container_id, known in self._known.items():
            known.gone = container_id not in here
        now = time.monotonic()
        self.seconds_run += now - self._ran_at if self._ran_at else 0.0
        self._ran_at = now if any(not known.ended for known in self._known.values()) else None

    def _add(self, seen: ContainerInstance) -> None:
        rank = seen.rank or 0
        before = self.job.instances.setdefault(rank, [])
        output = InstanceOutput(len(before), framing=self.job.framing, changed=self._changed)
        same_pod = [known.seen.restart_count for known in before if known.seen.pod_uid == seen.pod_uid]
        missed = seen.restart_count - (max(same_pod) + 1 if same_pod else 0)
        if missed > 0:
            self._say_missed(output, missed)
        instance = Instance(seen, len(before), output)
        before.append(instance)
        self._known[seen.container_id] = instance
        if self._rank in {None, rank}:
            instance.reading = asyncio.create_task(self._read(instance), name=f"joblog log {seen.pod} {rank}")
        self.hurry()
        self._changed()

    def _say_missed(self, output: InstanceOutput, missed: int) -> None:
        text = f"{missed} earlier start(s) of this container ended before their log could be read"
        for spool in output.spools.values():
            spool.seam(SeamKind.LOST, text)

    async def _read(self, instance: Instance) -> None:
        async def look() -> tuple[InstanceState, bool]:
            await self._fresh()
            if instance.gone:
                return InstanceState.GONE, False
            ended = instance.seen.state == "terminated"
            return (InstanceState.ENDED if ended else InstanceState.RUNNING), instance.superseded

        seen = instance.seen
        container, namespace = self.job.workload.container, self.job.spec.namespace
        reader = PodLog(self._api, namespace, seen.pod, container, look, instance.output)
        proved = False
        try:
            proved = await reader.follow()
        except Exception as error:
            # Reading is ours; whatever is wrong with it, the job goes on and the reader is told.
            log.exception("the log of %s is not read any more", seen.pod)
            instance.output.gap(f"{type(error).__name__}: {error}")
        finally:
            counts = self.job.counts(instance.seen.message) if instance.seen.message else None
            instance.output.end(proved=proved, counts=counts)

    # -- the end --------------------------------------------------------------------------------------

    def _judge(self, job: dict[str, Any] | None, found: list[ContainerInstance]) -> None:
        if self.end.done():
            return
        state = self.job.workload.state(job) if job is not None else None
        self.job.waiting = kubeflow_wording.why_waiting(self.job, state, found, self._idle)
        last = {rank: instances[-1] for rank, instances in self.job.instances.items()}
        active = [known for known in last.values() if not known.ended]
        done = len(last) == self.job.spec.num_nodes and all(k.succeeded for k in last.values())
        if done and (state is None or state.phase.open):  # whoever removes it now, its work was done
            self._over(JobPhase.COMPLETE, "", "", last)
        elif state is None:
            failed = any(k.seen.exit_code and k.seen.deleted is None for k in last.values())
            if not self._for_long("deleted", not active, PODS_PATIENCE):
                return
            if failed:
                self._over(JobPhase.FAILED, "", "its object has been deleted since", last)
            else:
                self._over(None, "Deleted", "its object was deleted by somebody else", last)
        elif not state.phase.open:
            if self._for_long("over", not active, PODS_PATIENCE):
                self._over(state.phase, self._stopped or state.reason, state.message, last)
        elif self._sidecar_holds(last):
            text = "its container failed, and another container of the pod goes on"
            self._over(JobPhase.FAILED, CONTAINER_FAILED, text, last)
        elif self._unstartable(found):
            self._over(state.phase, UNSTARTABLE, "it was given up, because it cannot start", last)

    def _for_long(self, what: str, now: bool, patience: float) -> bool:
        """Whether something is so now, or has been waited for for ``patience`` seconds."""
        since = self._since.setdefault(what, time.monotonic())
        return now or time.monotonic() - since > patience

    def _lasts(self, what: str, true: bool, patience: float) -> bool:
        """Whether something has been so for ``patience`` seconds without a break."""
        if not true:
            self._since.pop(what, None)
            return False
        return time.monotonic() - self._since.setdefault(what, time.monotonic()) > patience

    def _sidecar_holds(self, last: dict[int, Instance]) -> bool:
        failed = any(
            known.seen.exit_code
            and not known.gone
            and not known.seen.deleted  # it will end as soon as all its containers have
            and known.seen.restart_policy == "Never"
            and known.seen.pod_phase == "Running"
            for known in last.values()
        )
        return self._lasts("sidecar", failed, SIDECAR_PATIENCE)

    def _unstartable(self, found: list[ContainerInstance]) -> bool:
        return self._lasts("unstartable", any(seen.unstartable for seen in found), UNSTARTABLE_PATIENCE)

    async def _ask_why(self, job: dict[str, Any] | None, found: list[ContainerInstance]) -> None:
        """No condition says why a job has no pods, or why a Job below it was stopped; only events do."""
        phase = self.job.workload.state(job).phase if job is not None else None
        where = self.job.spec.namespace, self.job.name
        pending = phase is JobPhase.PENDING
        idle = pending and bool(found) and not any(seen.container_id or seen.why_waiting for seen in found)
        if self._lasts("podless", pending and not found, PODLESS_PATIENCE):
            self._since["podless"] = time.monotonic()  # again after as long
            self._idle = await why_no_pods(self._api, *where) or kubeflow_wording.no_pods(self.job)
        elif self._lasts("idle", idle, IDLE_PATIENCE):
            self._since["idle"] = time.monotonic()
            self._idle = await why_not_started(self._api, *where)
        elif found and not idle:
            self._idle = ""
        if phase is JobPhase.FAILED and self._stopped is None and not self.end.done():
            self._stopped = await why_stopped(self._api, *where)

    def _over(self, phase: JobPhase | None, reason: str, message: str, last: dict[int, Instance]) -> None:
        self.hurry()
        self.end.set_result(JobEnd(phase, reason, message, last, self.job.waiting))
        self._changed()
