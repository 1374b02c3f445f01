# SPDX-License-Identifier: Apache-2.0
"""How ``run()`` ended, whatever it raised, and what Covalent is told of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from covalent._shared_files import TaskRuntimeError
from covalent._workflow.transportable_object import TransportableObject

from covalent_joblog_plugin.model.errors import JobFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable

UNWIND = 3.0
"""Seconds for what runs to unwind when the server stops."""


async def of(work: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """The value of ``work``, or what it raised.

    It runs in a task of its own, so that a cancelled future in it is not taken for the server's stop.

    Raises:
        asyncio.CancelledError: The server stops; ``work`` was cancelled.
    """
    running = asyncio.create_task(_caught(work))
    try:
        await asyncio.wait([running])
    except asyncio.CancelledError:
        running.cancel()
        await asyncio.wait([running], timeout=UNWIND)
        raise
    return running.result()


async def _caught(work: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    try:
        return await work, None
    except BaseException as error:  # noqa: BLE001
        # SystemExit and KeyboardInterrupt, of a function in a thread of the server, would end the event loop
        # and the server with it; others of their kind would leave the node RUNNING for ever.
        return None, error


def failure(executor: str, error: BaseException) -> Exception:
    """What is raised for Covalent to show: a plain exception that has a text.

    Args:
        executor: Name of the executor's class.
        error: What ``run()`` raised.
    """
    own = _text(error)
    if isinstance(error, asyncio.CancelledError):
        text = f"{executor}.run(): something it waited for was cancelled"
    elif not isinstance(error, Exception):
        text = f"{executor}.run() raised {error!r}"
    else:
        text = own or f"{executor}.run() raised {type(error).__name__} without a text"
    # Covalent can neither store a lone surrogate nor show a TaskRuntimeError.
    text = text.encode("utf-8", "backslashreplace").decode()
    if text == own and isinstance(error, Exception) and not isinstance(error, TaskRuntimeError):
        return error
    failed = JobFailed(text)
    failed.__cause__ = error
    return failed


def _text(error: BaseException) -> str | None:
    """What the exception says; None where an author's own class cannot say it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - see above
        return None


def checked(executor: str, result: Any) -> Any:
    """A result that Covalent can store: with another one the node would be RUNNING for ever.

    Raises:
        JobFailed: It is not one.
    """
    if result is None or isinstance(result, TransportableObject):
        return result
    raise JobFailed(
        f"{executor}.run() returned a {type(result).__name__}; it must return what the function that it was "
        "given returns, a TransportableObject"
    )
