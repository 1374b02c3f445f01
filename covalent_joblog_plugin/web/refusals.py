# SPDX-License-Identifier: Apache-2.0
"""What cannot be answered, said in JSON: a code for programs, and for people the reason and what to do."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from covalent_joblog_plugin.model.errors import (
    OutputError,
    OutputGone,
    OutputNotFound,
    OutputNotYet,
    OutputUnsupported,
    StoreError,
)

from .answers import JsonResponse, Problem, ProblemAnswer, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger("covalent_joblog_plugin")

_KINDS: list[tuple[type[Exception], int, str, str]] = [
    (OutputNotFound, 404, "not_found", "ask for one of those in exists"),
    (OutputNotYet, 404, "not_yet", "ask again later, or follow the node's events"),
    (OutputGone, 410, "gone", "what the cluster still has can be read there: joblog logs --direct"),
    (OutputUnsupported, 409, "unsupported", "the node's capabilities say what can be had"),
    (OutputError, 400, "bad_request", "see what the route takes at /docs"),
    (StoreError, 503, "unavailable", "ask again later"),
    (OSError, 503, "unavailable", "see whether the server may read its results folder; then ask again"),
]
STATUSES: dict[int | str, dict[str, Any]] = {
    400: {"model": ProblemAnswer, "description": "The request is wrong"},
    404: {"model": ProblemAnswer, "description": "There is no such thing, or not yet"},
    503: {"model": ProblemAnswer, "description": "Disk or database do not answer"},
}
"""For the documentation of each route."""
REFUSED = (OutputError, StoreError, OSError)


class BadRequestError(OutputError):
    """Parameters that do not go together."""


def problem(error: Exception) -> tuple[int, Problem]:
    """The HTTP status and the words for one of ``REFUSED``."""
    status, code, step = next((s, c, n) for kind, s, c, n in _KINDS if isinstance(error, kind))
    exists = error.exists if isinstance(error, OutputNotFound) else []
    if isinstance(error, OutputNotFound) and not exists:
        step = "see what there is: the dispatch's nodes, the node's files"
    return status, Problem(code, str(error), step, exists)


class RefusingRoute(APIRoute):
    """A route that says what it refuses as ``Problem``, whatever else the application does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Covalent's own handlers would answer in another form."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                refused: Exception = BadRequestError(_what_is_wrong(error))
            except REFUSED as error:
                refused = error
            status, words = problem(refused)
            if status == 503:
                log.warning("%s cannot be answered: %s", request.url.path, refused)
            return JsonResponse(encoded(ProblemAnswer(words)), status)

        return answer


def _what_is_wrong(error: RequestValidationError) -> str:
    return "; ".join(
        f"{fault['loc'][-1]}: {fault['msg']}, not {fault['input']!r}" for fault in error.errors()
    )
