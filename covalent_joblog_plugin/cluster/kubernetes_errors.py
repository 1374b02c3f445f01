# SPDX-License-Identifier: Apache-2.0
"""What the Kubernetes API answers, as errors; how it words things was seen on Kubernetes 1.34.

TransportError
├── ApiError            the cluster does not answer at the moment
│   └── IdleTimeout       a log stream was silent for long
└── AuthenticationError
    └── Unauthorized    the cluster does not know us
RefusedError            it answered that it will not; asking again at once cannot help
├── Forbidden             a right is missing
├── NotFound              there is no such thing
├── Conflict              there is one of that name
├── Refused               the request is wrong, or a webhook or a quota refuses it
└── NotStarted            a log that does not exist yet
"""

from __future__ import annotations

import json
import re
from typing import Any

from covalent_joblog_plugin.model.errors import AuthenticationError, JobLogError, TransportError


class ApiError(TransportError):
    """The cluster does not answer at the moment.

    Attributes:
        status: Of HTTP; 0 where there was no answer.
        retry_after: What it asks to wait, in seconds; None where it does not ask.
    """

    def __init__(self, text: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = retry_after


class IdleTimeout(ApiError):  # noqa: N818 - a state, not a mistake
    """A log stream was silent for long: the pod has to be looked at."""


class Unauthorized(AuthenticationError):  # noqa: N818 - HTTP's word
    """The cluster does not know us."""

    status = 401


class RefusedError(JobLogError):
    """The cluster answered that it will not; asking again at once cannot help."""

    status = 0


class Forbidden(RefusedError):  # noqa: N818 - Kubernetes' word
    """A right is missing; the text says which."""

    status = 403


class NotFound(RefusedError):  # noqa: N818 - Kubernetes' word
    """There is no such thing."""

    status = 404


class Conflict(RefusedError):  # noqa: N818 - Kubernetes' word
    """There is one of that name."""

    status = 409


class Refused(RefusedError):  # noqa: N818 - Kubernetes' word
    """The request is wrong, or a webhook or a quota refuses it; ``status`` is 400, 403, 422 or the like."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class NotStarted(RefusedError):  # noqa: N818 - a state, not a mistake
    """A log that does not exist yet: the container waits, and the text says for what."""

    status = 400


_RBAC = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" '
    r'in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_WAITING = re.compile(r"is (waiting to start: .*|not available)", re.DOTALL)
_NO_PREVIOUS = re.compile(r"previous terminated container .* not found")
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_TEXT = 2000
"""Characters kept of what is answered: a refusal may quote the whole request."""


def error_of(status: int, body: bytes, retry_after: str | None, what: str) -> JobLogError:
    """The error for an answer that is no success.

    Args:
        status: HTTP status.
        body: A Status object, or the text of something between the cluster and us.
        retry_after: That header.
        what: The request, such as ``GET /api/v1/namespaces/ml/pods``.
    """
    said = _status_object(body)
    message = str(said.get("message") or body.decode("utf-8", "replace")).strip()[:_LONGEST_TEXT]
    text = f"{what}: {status} {message}".rstrip()
    if status == 401:
        return Unauthorized(f"{text}; the credentials are wrong or have expired: renew them")
    if status in _BUSY or _for_a_moment(status, message, said):
        wait = float(retry_after) if retry_after and retry_after.isdigit() else None
        return ApiError(text, status, wait)
    return _refused(status, message, text)


def _for_a_moment(status: int, message: str, said: dict[str, Any]) -> bool:
    if status == 404:  # a kubelet that was started a second ago does not know its pods yet
        return "could not find the requested resource" in message and "pods/log" in message
    # Changed by somebody else at the same time; a login page in the API server's place.
    return (status == 409 and said.get("reason") != "AlreadyExists") or status < 400


def _refused(status: int, message: str, text: str) -> JobLogError:
    if status == 403 and (found := _RBAC.search(message)):
        return _forbidden(found, text)
    if status == 404 or (status == 400 and _NO_PREVIOUS.search(message)):
        return NotFound(text)
    if status == 409:
        return Conflict(text)
    if status == 400 and (waiting := _WAITING.search(message)):
        return NotStarted(f"the container is {waiting[1]}")
    return Refused(text, status)


def _forbidden(found: re.Match[str], text: str) -> JobLogError:
    if found["user"] == "system:anonymous":
        return Unauthorized(f"{text}; no credentials were sent: the kubeconfig has none that work")
    group = f".{found['group']}" if found["group"] else ""
    where = f" in namespace {found['namespace']}" if found["namespace"] else ""
    return Forbidden(
        f"needs {found['verb']} {found['resource']}{group}{where}: ask an administrator for that right "
        f"for {found['user']}"
    )


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) and said.get("kind") == "Status" else {}
