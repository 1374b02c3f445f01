# SPDX-License-Identifier: Apache-2.0
"""Jobs in one namespace of a Kubernetes cluster with Kubeflow: submit, follow, read, cancel."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.model.errors import AuthenticationError, SubmissionError, TransportError
from covalent_joblog_plugin.model.source import FAIR_BYTES

from .kubeflow_follower import JobFollower
from .kubeflow_job import PAYLOAD
from .kubernetes import Kubernetes
from .kubernetes_errors import Conflict, Forbidden, NotFound, Refused
from .kueue import check_queue
from .manifests import payload_secret
from .pauses import SUBMIT_PATIENCE, back_off, wait_for, worth_another
from .pytorch_job import PyTorchJob
from .train_job import TrainJob

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from covalent_joblog_plugin.model.records import Delta, ReadRequest

    from .instance_output import InstanceOutput, Spool
    from .kubeflow_job import Job, JobEnd
    from .kubernetes import KubernetesSettings
    from .workload import Workload

log = logging.getLogger(__name__)

WORKLOADS: dict[str, Callable[[], Workload]] = {"TrainJob": TrainJob, "PyTorchJob": PyTorchJob}


class KubeflowCluster:
    """One endpoint; the ``DeltaSource`` of all its jobs."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self.api = Kubernetes(settings)
        self._followers: dict[Job, JobFollower] = {}
        self._outputs: dict[str, tuple[InstanceOutput, Spool]] = {}
        self._news = asyncio.Event()
        self._reached = False

    # -- output ---------------------------------------------------------------------------------------

    async def read_deltas(
        self, requests: Sequence[ReadRequest], wait: float, max_bytes: int
    ) -> Sequence[Delta]:
        """See ``DeltaSource``."""
        deadline = time.monotonic() + wait
        while True:
            self._news.clear()
            if deltas := self._answer(requests, max_bytes):
                return deltas
            rest = deadline - time.monotonic()
            if rest <= 0:
                return []
            await wait_for(self._news, rest)

    def _answer(self, requests: Sequence[ReadRequest], max_bytes: int) -> list[Delta]:
        deltas: list[Delta] = []
        room = max_bytes
        share = max_bytes if len(requests) == 1 else FAIR_BYTES
        for request in requests:
            if request.path not in self._outputs:
                self._outputs = self._all_outputs()  # a container has begun since
            if request.path not in self._outputs:
                continue
            output, spool = self._outputs[request.path]
            delta = spool.answer(request, min(share, room))
            output.took()
            if delta is not None:
                room -= len(delta.data)
                deltas.append(delta)
            if room <= 0:
                break
        return deltas

    def _all_outputs(self) -> dict[str, tuple[InstanceOutput, Spool]]:
        return {
            instance.path(stream): (instance.output, spool)
            for job in self._followers
            for instances in job.instances.values()
            for instance in instances
            for stream, spool in instance.output.spools.items()
        }

    async def close(self) -> None:
        """See ``DeltaSource``."""
        for follower in self._followers.values():
            await follower.close()
        self._followers.clear()
        await self.api.close()

    # -- jobs -----------------------------------------------------------------------------------------

    async def submit(self, job: Job, abandoned: Callable[[], bool] = lambda: False) -> bool:
        """Create the job, then the Secret it waits for, which the job owns; then let it run.

        The name is the node's own, so every step can be repeated: a job of that name with the same payload
        is this one.

        Returns:
            Whether it was submitted; False when ``abandoned()`` turned true first.

        Raises:
            SubmissionError: The cluster refuses it; nothing runs.
            OptionError: The served version cannot take an option.
            TransportError: The cluster cannot be reached.
        """
        deadline, failures = time.monotonic() + SUBMIT_PATIENCE, 0
        while not abandoned():
            try:
                await self._submit(job)
            except AuthenticationError:
                raise
            except TransportError as error:
                if not worth_another(deadline, failures, reached=self._reached):
                    raise
                log.info("job %s: %s", job.name, error)
                failures += 1
                await asyncio.sleep(back_off(failures))
            except (Forbidden, Refused) as error:
                raise SubmissionError(f"{job.workload.kind} {job.name} was not submitted: {error}") from error
            else:
                self._followers[job] = JobFollower(self.api, job, self._news.set)
                return True
        return False

    async def _submit(self, job: Job) -> None:
        kind, namespace = job.workload, job.spec.namespace
        await check_queue(self.api, job.spec)
        await kind.prepare(self.api, job.spec)
        self._reached = True
        try:
            made = await self._create(kind.path(namespace), kind.manifest(job.spec))
        except Conflict:
            made = await self.api.request("GET", kind.path(namespace, job.name))
            if made["metadata"].get("annotations", {}).get(PAYLOAD) != job.spec.annotations[PAYLOAD]:
                raise SubmissionError(
                    f"{kind.kind} {job.name} in namespace {namespace} exists and is not this task's: delete "
                    f"it (kubectl delete {kind.plural} {job.name} -n {namespace}) and run the task again"
                ) from None
            log.info("%s %s had been created already", kind.kind, job.name)
        job.uid = made["metadata"]["uid"]
        try:
            secret = payload_secret(kind, job.spec, job.uid, job.secret)
            await self._create(f"/api/v1/namespaces/{namespace}/secrets", secret)
        except Conflict:
            log.info("the Secret of %s had been created already", job.name)
        except (Forbidden, Refused):
            await self.delete(job)
            raise
        await kind.resume(self.api, job.spec)

    async def _create(self, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
        return await self.api.request("POST", path, query={"fieldValidation": "Strict"}, body=manifest)

    async def ended(self, job: Job) -> JobEnd:
        """Wait for the end of a submitted job, however long the cluster does not answer meanwhile."""
        return await asyncio.shield(self._followers[job].end)

    def seconds_run(self, job: Job) -> float:
        """Seconds so far in which a container of the job ran: not those it waits or is suspended."""
        return self._followers[job].seconds_run

    async def read_to_end(self, job: Job) -> None:
        """Wait until the logs of all its containers have been read to their end."""
        if follower := self._followers.get(job):
            await follower.reading_done()

    def trouble(self, job: Job) -> str:
        """Why the job's state is not known at the moment; empty when it is."""
        follower = self._followers.get(job)
        return follower.trouble if follower else ""

    async def forget(self, job: Job) -> None:
        """Follow the job no more; what it wrote and nobody took is dropped."""
        if follower := self._followers.pop(job, None):
            self._outputs = {}
            await follower.close()

    async def cancel(self, handle: dict[str, Any]) -> None:
        """End a job known by its handle alone, its pods with it; tried until the cluster has answered.

        A job that is not there any more is cancelled.
        """
        kind = WORKLOADS[handle["kind"]]()
        path = kind.path(handle["namespace"], handle["name"])
        await self._persist(
            lambda: self._delete(path), f"{kind.plural} {handle['name']} -n {handle['namespace']}"
        )
        for job, follower in self._followers.items():
            if job.name == handle["name"]:
                follower.hurry()

    async def delete(self, job: Job) -> None:
        """Remove the job and what it owns.

        Raises:
            TransportError: The cluster cannot be reached.
            Forbidden: The right to delete is missing.
        """
        await self._delete(job.workload.path(job.spec.namespace, job.name))

    async def _delete(self, path: str) -> None:
        try:
            # In the background: pods get their signal at once, and a finished job need not be waited for.
            await self.api.request("DELETE", path, body={"propagationPolicy": "Background"})
        except NotFound:
            return

    async def _persist(self, act: Callable[[], Awaitable[None]], by_hand: str) -> None:
        failures = 0
        while True:
            try:
                return await act()
            except (TransportError, Forbidden, Refused) as error:
                if not failures:
                    hint = f"By hand: kubectl delete {by_hand}"
                    log.warning("%s cannot be cancelled yet (%s); trying on. %s", by_hand, error, hint)
            await asyncio.sleep(back_off(failures))
            failures += 1
