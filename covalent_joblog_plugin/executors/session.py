# SPDX-License-Identifier: Apache-2.0
"""One task from ``execute()`` to its terminal status: watch, run, read to the end, close, report.

Covalent writes returned streams over the node's assets, so ``None`` is returned for both. It shows the text
of a plain exception as the node's error, and nothing of a ``TaskRuntimeError``.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covalent._shared_files import TaskCancelledError
from covalent._shared_files.util_classes import RESULT_STATUS

from covalent_joblog_plugin.model.errors import TransportError
from covalent_joblog_plugin.monitor.hub import hub
from covalent_joblog_plugin.monitor.watch import Watch
from covalent_joblog_plugin.store import node_output
from covalent_joblog_plugin.store.node_output import NodeOutput

from . import direct, helper_nodes, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalent_joblog_plugin.model.records import Seam
    from covalent_joblog_plugin.monitor.monitor import Monitor

    from .base import JobLogExecutor

log = logging.getLogger(__name__)

STOP_GRACE = 3.0
"""Seconds for the cancel of a job when the server stops."""
ASK_AGAIN = 1.0
"""Seconds until a question that the cluster could not be asked is put again."""

NodeKey = tuple[str, int]
_running: dict[NodeKey, Session] = {}


@dataclass(slots=True, eq=False)
class Session:
    """A task being run by one executor."""

    executor: JobLogExecutor
    node: NodeKey
    monitor: Monitor
    watch: Watch | None
    handle: Any = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def output(self) -> NodeOutput | None:
        """Where the text is stored; None when that could not be opened, which stops no task."""
        return self.watch.output if self.watch else None

    async def announce(self, handle: Any) -> None:
        """Record the job; before it is submitted this is the last chance to leave it."""
        first, self.handle = self.handle is None, handle
        try:
            await self.executor.set_job_handle(handle)
        except (RuntimeError, asyncio.TimeoutError) as error:
            # Covalent's listener is gone after one fault; our own record in the node's folder remains.
            log.warning("Covalent did not record the job of %s node %s: %r", *self.node, error)
        if self.output is not None:
            known = {"job": handle, "executor": direct.kept(self.executor), "name": self.output.node_name}
            await self.output.remember(known)
        if self.cancelled.is_set():
            if first:
                raise TaskCancelledError
            await self.executor.cancel_job(handle)

    def files_changed(self) -> None:
        """Have ``get_files_to_monitor`` asked now."""
        if self.watch is not None:
            self.monitor.files_changed(self.watch)

    async def seam(self, output: str, seam: Seam) -> None:
        """Mark a break at the present end of one output."""
        if self.output is not None:
            await node_output.write([(self.output, node_output.SeamAt(output, seam))])

    async def cancel(self) -> bool:
        """Ask for the end of the job; ``run`` sees it through."""
        self.cancelled.set()
        if self.handle is not None:
            await self.executor.cancel_job(self.handle)
        return True

    async def abandon(self) -> None:
        """The server stops: end the job within ``STOP_GRACE`` seconds and mark the output."""
        if self.output is not None:
            self.output.interrupt()
        if self.handle is not None:
            try:
                await asyncio.wait_for(self.executor.cancel_job(self.handle), STOP_GRACE)
            except Exception as error:  # noqa: BLE001 - the last thing done before the server ends
                log.warning("the job of %s node %s may run on: %r", *self.node, error)

    async def read_to_end(self) -> None:
        """Read on until the cluster says that nobody writes any more and nothing new comes."""
        timeout = self.executor.final_read_timeout
        try:
            if self.watch is not None:
                await self.monitor.finish(self.watch, self._writers_gone, timeout)
        except Exception:
            # No fault of reading changes what became of the task.
            log.exception("the end of the output of %s node %s may be missing", *self.node)
        try:
            await self.executor.after_final_read()
        except Exception:
            # The author's code: the same.
            log.exception("after_final_read of %s node %s failed", *self.node)

    async def _writers_gone(self) -> bool:
        try:
            return await self.executor.writers_gone(*self.node)
        except TransportError as error:
            log.warning("cannot ask who still writes for %s node %s: %s", *self.node, error)
            await asyncio.sleep(ASK_AGAIN)
            return False
        except Exception:
            # The author's code; asking again would only be the same mistake again.
            log.exception("writers_gone of %s node %s failed: taken for yes", *self.node)
            return True


async def run_task(
    executor: JobLogExecutor,
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    metadata: dict[str, Any],
) -> tuple[Any, None, None, Any]:
    """Run a task as Covalent's ``execute()`` is to: ``(result, None, None, status)``.

    Raises:
        Exception: Whatever made the task fail, after all its text is stored.
    """
    try:
        executor.check_options()
        output = await _open_output(executor, metadata)
        helper = helper_nodes.local_stand_in(executor, function, args, kwargs, output)
        try:
            if helper is not None:
                try:
                    return await _attempt(helper, function, args, kwargs, metadata, output)
                except helper_nodes.CannotBegin as error:
                    await _note(output, f"this helper node runs on the cluster: {error}")
            return await _attempt(executor, function, args, kwargs, metadata, output)
        finally:
            if output is not None:
                await _close(output)
    finally:
        executor.listening_ends()


async def _attempt(
    executor: JobLogExecutor,
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    metadata: dict[str, Any],
    output: NodeOutput | None,
) -> tuple[Any, None, None, Any]:
    with _session(executor, _key(metadata), output) as session:
        try:
            result, error = await outcome.of(_run(session, function, args, kwargs, metadata))
            await _teardown(executor, metadata)
            await session.read_to_end()
        except asyncio.CancelledError:
            await session.abandon()
            raise
    if isinstance(error, TaskCancelledError):
        return None, None, None, RESULT_STATUS.CANCELLED
    if error is not None:
        raise outcome.failure(type(executor).__name__, error)
    return outcome.checked(type(executor).__name__, result), None, None, RESULT_STATUS.COMPLETED


async def _run(
    session: Session,
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    metadata: dict[str, Any],
) -> Any:
    await _refuse_if_cancelled(session)
    await session.executor.setup(task_metadata=metadata)
    return await session.executor.run(function, args, kwargs, metadata)


@contextmanager
def _session(executor: JobLogExecutor, node: NodeKey, output: NodeOutput | None) -> Iterator[Session]:
    """One attempt to run a node: its endpoint is held and the node is known while it lasts."""
    key = executor.endpoint_key()
    name = f"{type(executor).__name__} {key or node}"
    monitor = hub.acquire(name, executor.make_source)
    watch = None
    if output is not None:
        watch = Watch(output, lambda: executor.get_files_to_monitor(*node), int(executor.max_log_bytes))
        monitor.add(watch)
    session = _running[node] = executor.__dict__["_session"] = Session(executor, node, monitor, watch)
    try:
        yield session
    finally:
        if _running.get(node) is session:  # the node may have begun while its old job was being cancelled
            del _running[node]
        del executor.__dict__["_session"]
        if watch is not None:
            monitor.remove(watch)
        hub.release(name, linger=key is not None)


async def _note(output: NodeOutput | None, text: str) -> None:
    """Keep why it runs elsewhere than asked; notes on how the job stands come and go beside it."""
    log.info("%s: %s", output, text)
    if output is not None:
        await output.remember({"fallback": text})


async def _open_output(executor: JobLogExecutor, metadata: dict[str, Any]) -> NodeOutput | None:
    try:
        output = await NodeOutput.open(*_key(metadata), max_node_bytes=int(executor.max_node_bytes))
    except Exception:
        # Whatever it is, the task runs without.
        log.exception("the output of %s node %s will not be stored", *_key(metadata))
        return None
    try:
        await output.remember({"capabilities": executor.capabilities().to_json()})
    except Exception:
        # The author's code: a node of which nothing is known is better than none.
        log.exception("capabilities() of %s node %s failed", *_key(metadata))
    return output


async def _close(output: NodeOutput) -> None:
    try:
        await output.close()
    except Exception:
        # Whatever is wrong with the store, the task ended as it ended.
        log.exception("the output of %s could not be closed", output)


async def _refuse_if_cancelled(session: Session) -> None:
    try:
        requested = await session.executor.get_cancel_requested()
    except (RuntimeError, asyncio.TimeoutError) as error:
        log.warning("could not ask whether %s node %s is cancelled: %r", *session.node, error)
        return
    if requested or session.cancelled.is_set():
        raise TaskCancelledError


async def _teardown(executor: JobLogExecutor, metadata: dict[str, Any]) -> None:
    try:
        await executor.teardown(task_metadata=metadata)
    except Exception:
        # A failed clean-up must not hide what the task did.
        log.exception("teardown of %s node %s failed", *_key(metadata))


async def cancel_task(executor: JobLogExecutor, dispatch_id: str, node_id: int) -> bool:
    """End the job of a node; True when its end was asked for, False when there is none to end.

    Covalent also calls this for finished nodes, for nodes not started yet, and with another node's handle:
    only the node counts.
    """
    node = (dispatch_id, node_id)
    if session := _running.get(node):
        return await session.cancel()
    if await node_output.node_status(*node) != str(RESULT_STATUS.RUNNING):
        return False
    handle = await node_output.job_handle(*node)
    if session := _running.get(node):  # it began while the database was asked
        return await session.cancel()
    if handle is None:
        return False
    with _session(executor, node, None) as session:
        session.handle = handle
        await session.cancel()
    return True


def _key(metadata: dict[str, Any]) -> NodeKey:
    return metadata["dispatch_id"], metadata["node_id"]
