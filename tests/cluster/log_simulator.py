# SPDX-License-Identifier: Apache-2.0
"""An API server with one pod, whose log it serves by the kubelet's rules, and as badly as it is told to."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import yaml
from aiohttp import web

from covalent_joblog_plugin.cluster.kubernetes import Kubernetes, KubernetesSettings
from tests.cluster.cri_log import ContainerLog, LogStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

POD = "/api/v1/namespaces/ml/pods/writer"


@dataclass(frozen=True)
class Fault:
    """What comes instead of an answer, or spoils it.

    Attributes:
        status: Of HTTP; 0 lets the log come.
        message: Of the Status object, or the text that ends the log.
        after: Bytes of log that come first; None for all there is.
        cut: Whether the connection is then cut; else the answer ends well.
        headers: Of the answer.
    """

    status: int = 0
    message: str = ""
    after: int | None = 0
    cut: bool = False
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class LogSimulator:
    """One pod with one container.

    Attributes:
        starts: Logs of the container's starts; only the last two can be read.
        gone: Whether the pod was deleted.
        fault: What is wrong with a request for the log, by its query; None for nothing.
        stuck: Whether a follow stays with the file with which it began.
        again: Whether a follow once begins its file again.
        slow: Lines that a follow that began with the first file may send; None for all. It lags.
        queries: What was asked for.
    """

    starts: list[ContainerLog] = field(default_factory=lambda: [ContainerLog()])
    gone: bool = False
    fault: Callable[[dict[str, str]], Fault | None] = lambda _: None
    stuck: bool = False
    again: bool = False
    slow: asyncio.Semaphore | None = None
    queries: list[dict[str, str]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def log(self) -> ContainerLog:
        return self.starts[-1]

    def say(self, text: bytes, stream: int = 1) -> None:
        """The container writes, a tenth of a second after the last time."""
        self.log.now += 10**8
        self.log.write(stream, text)
        self.change()

    def leave(self) -> None:
        """The container ends."""
        self.log.exit()
        self.change()

    def change(self) -> None:
        """Let those know who follow."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def asked(self, what: Callable[[list[dict[str, str]]], bool]) -> None:
        """Wait until the queries are such."""
        async with asyncio.timeout(20):
            while not what(self.queries):
                self._asked.clear()
                await self._asked.wait()

    @contextlib.asynccontextmanager
    async def served(self, folder: Path) -> AsyncIterator[Kubernetes]:
        """A client of it."""
        app = web.Application()
        app.router.add_get(POD, self._pod)
        app.router.add_get(f"{POD}/log", self._log)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(runner.addresses[0][1])))
        api = Kubernetes(KubernetesSettings(str(kubeconfig)))
        try:
            yield api
        finally:
            await api.close()
            await runner.cleanup()

    async def _pod(self, _: web.Request) -> web.Response:
        if self.gone:
            return _refusal(404, 'pods "writer" not found')
        state = {"running": {}} if self.log.running else {"terminated": {"exitCode": 0}}
        status = {"restartCount": len(self.starts) - 1, "state": state}
        return web.json_response({"metadata": {"uid": "1"}, "status": {"containerStatuses": [status]}})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.queries.append(query)
        self._asked.set()
        fault = self.fault(query)
        if fault and fault.status:
            return _refusal(fault.status, fault.message, fault.headers)
        if self.gone:
            return _refusal(404, 'pods "writer" not found')
        number = -2 if "previous" in query else -1
        if len(self.starts) < -number:
            return _refusal(400, 'previous terminated container "node" in pod "writer" not found')
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            await self._send(request, response, self.starts[number], fault)
        return response

    async def _send(
        self, request: web.Request, response: web.StreamResponse, log: ContainerLog, fault: Fault | None
    ) -> None:
        query = request.query
        since = int(datetime.fromisoformat(query["sinceTime"]).timestamp()) if "sinceTime" in query else None
        follow = "follow" in query
        slow = self.slow if follow and len(log.files) == 1 else None
        stream = LogStream(log, since, follow=follow and not self.stuck, lags=slow is not None)
        left = int(query.get("limitBytes", 1 << 60))
        if fault and fault.after is not None:
            left = fault.after
        while True:
            changed = self._changed
            if self.again and follow:
                self.again = False
                stream.begin_again()
            running, data = log.running, stream.more()[:left]
            left -= len(data)
            for part in [data] if slow is None else data.splitlines(keepends=True):
                if slow is not None:
                    await slow.acquire()
                await response.write(part)
            spoilt = fault and (fault.after is None or not left)
            if spoilt or not follow or not running:
                break
            await changed.wait()
        if fault and fault.message:
            await response.write(fault.message.encode())
        if fault and fault.cut:
            request.transport.close()


def _refusal(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": status, "message": message}
    return web.json_response(body, status=status, headers=headers)


def _kubeconfig(port: int) -> dict:
    return {
        "clusters": [{"name": "simulated", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "simulated", "context": {"cluster": "simulated", "namespace": "ml"}}],
        "current-context": "simulated",
    }
