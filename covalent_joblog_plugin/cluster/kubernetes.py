# SPDX-License-Identifier: Apache-2.0
"""The API server of a Kubernetes cluster: JSON requests and raw logs.

Configuration and credentials are the ``kubernetes`` package's business; requests go by aiohttp, because they
must not block the event loop, and because that package's clients know neither ``sinceTime`` nor a log
without a total time-out, and differ from version to version.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import aiohttp

from .kubernetes_config import Access, KubernetesSettings, load
from .kubernetes_errors import ApiError, IdleTimeout, NotStarted, error_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

__all__ = ["Kubernetes", "KubernetesSettings"]

REQUEST_SECONDS = 30.0
IDLE_SECONDS = 75.0
"""A log stream that was silent for so long is closed: a dead connection looks the same."""
STREAMS = 64
"""Logs followed at a time."""
BUFFER_BYTES = 256 * 1024
"""Of a log, read ahead from the socket."""


GATHERED_BYTES, GATHER_SECONDS = 64 * 1024, 0.01
"""The kubelet sends line by line; smaller pieces are waited for together, at a tenth of the cost."""


class Kubernetes:
    """A client of one cluster; connects when it is first used."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self.streams = asyncio.Semaphore(STREAMS)
        """Held by who follows a log."""
        self._settings = settings
        self._access: Access | None = None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._lock = asyncio.Lock()

    @property
    def namespace(self) -> str:
        """Where we work; what was given before ``connect``, and empty where that was nothing."""
        return self._access.namespace if self._access else self._settings.namespace

    @property
    def service_account(self) -> str | None:
        """Of the pod we run in; None outside of a cluster, and before ``connect``."""
        return self._access.service_account if self._access else None

    async def connect(self) -> None:
        """Read configuration and credentials, once; nothing is sent.

        Raises:
            OptionError: There is no configuration, or no such context.
            AuthenticationError: It gives no credentials.
        """
        await self._connected()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """One request; the answer's object.

        Raises:
            ApiError: The cluster does not answer; it may later.
            Unauthorized: It does not know us.
            RefusedError: One of its subclasses: it answered that it will not.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json"} | (
            {"Content-Type": content_type} if body is not None else {}
        )
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        sent = self._send(method, path, params=query, data=data, headers=headers, timeout=timeout)
        async with sent as response:
            text = await _whole(response)
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ApiError(
                f"{method} {path}: no JSON object came; is something else in the API server's place?"
            )
        return answer

    @asynccontextmanager
    async def open_log(
        self,
        pod: str,
        container: str,
        *,
        follow: bool,
        since: int | None = None,
        previous: bool = False,
        limit: int | None = None,
        namespace: str | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The log of a container as it comes, every line with its stamp.

        Args:
            pod: Name of the pod.
            container: Name of the container.
            follow: Whether to wait for more until the container ends.
            since: Unix seconds: lines from then on; the API knows no fractions.
            previous: Whether the instance before the current one is meant.
            limit: At most so many bytes.
            namespace: None for ours.

        Raises:
            NotStarted: There is none yet.
            IdleTimeout: While reading: nothing came for ``IDLE_SECONDS``.
            ApiError: The connection failed, also while reading.
            Unauthorized: The cluster does not know us.
            RefusedError: See ``request``.
        """
        query = {"container": container, "timestamps": "true"}
        if follow:
            query["follow"] = "true"
        if since is not None:
            query["sinceTime"] = datetime.fromtimestamp(since, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        if previous:
            query["previous"] = "true"
        if limit is not None:
            query["limitBytes"] = str(limit)
        access = await self._connected()
        path = f"/api/v1/namespaces/{namespace or access.namespace}/pods/{pod}/log"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=IDLE_SECONDS)
        # A proxy that compresses holds text back.
        headers = {"Accept-Encoding": "identity"}
        sent = self._send(
            "GET", path, params=query, headers=headers, timeout=timeout, read_bufsize=BUFFER_BYTES
        )
        async with sent as response:
            if response.status == 204:
                raise NotStarted("the pod has no node yet")
            yield _chunks(response)

    async def can_i(
        self, verb: str, group: str, resource: str, subresource: str = "", namespace: str | None = None
    ) -> bool:
        """Whether we may; everybody may ask (SelfSubjectAccessReview).

        Raises:
            TransportError: The cluster cannot be reached.
            RefusedError: It does not answer that question.
        """
        access = await self._connected()
        attributes = {
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "namespace": namespace or access.namespace,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = await self.request(
            "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review
        )
        return bool((answer.get("status") or {}).get("allowed"))

    async def close(self) -> None:
        """Close all connections; the client cannot be used again."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _connected(self, refused: Access | None = None) -> Access:
        """The way in; a new one when the cluster has ``refused`` it, whoever of us comes first."""
        async with self._lock:
            if self._closed:
                raise ApiError("the client of the cluster was closed")
            if self._access is None or self._access is refused:
                self._access = await asyncio.to_thread(load, self._settings)
            if self._session is None:
                # Without a limit, since each log holds a connection; without the environment, or passwords of
                # ~/.netrc would be sent.
                self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
            return self._access

    @asynccontextmanager
    async def _send(self, method: str, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        access = await self._connected()
        response = await self._attempt(access, method, path, options)
        if response.status == 401:
            response.release()
            # A token that has expired: configuration and its programs know how to get a new one.
            access = await self._connected(refused=access)
            response = await self._attempt(access, method, path, options)
        try:
            if response.status >= 300:
                body = await _whole(response)
                wait = response.headers.get("Retry-After")
                raise error_of(response.status, body, wait, f"{method} {path}")
            yield response
        finally:
            # Back to the pool if it was read to its end, else (a log) its connection is cut.
            response.close()

    async def _attempt(
        self, access: Access, method: str, path: str, options: dict[str, Any]
    ) -> aiohttp.ClientResponse:
        if self._session is None or self._closed:
            raise ApiError("the client of the cluster was closed")
        credentials = await asyncio.to_thread(access.headers)
        try:
            return await self._session.request(
                method,
                access.host + path,
                **{**options, "headers": {**options["headers"], **credentials}},
                ssl=access.tls,
                server_hostname=access.server_name,
                proxy=access.proxy,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise ApiError(f"{access.host} of {access.source} does not answer: {_words(error)}") from error


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.read()
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
        raise ApiError(f"the cluster's answer broke off: {_words(error)}") from error


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
            if len(chunk) < GATHERED_BYTES:
                await asyncio.sleep(GATHER_SECONDS)
    except asyncio.TimeoutError as error:
        raise IdleTimeout(f"nothing came for {IDLE_SECONDS:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise ApiError(f"the connection broke: {_words(error)}") from error


def _words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientPayloadError):
        return "it was cut"  # aiohttp's own text is about transfer encodings
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not accepted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0  # a negative one is of the name service
        return os.strerror(number) if number > 0 else error.os_error.strerror or str(error.os_error)
    return str(error) or type(error).__name__
