# SPDX-License-Identifier: Apache-2.0
"""The local executor's own end of a cancel, without a server: moments that a client cannot hit."""

import asyncio
from pathlib import Path

import pytest
from covalent._shared_files import TaskCancelledError

from covalent_joblog_plugin import LocalJobLogExecutor
from covalent_joblog_plugin.cluster.local_files import LocalFiles
from covalent_joblog_plugin.executors.session import Session
from covalent_joblog_plugin.monitor.monitor import Monitor
from covalent_joblog_plugin.payload import child
from tests.payload.calls import assembled


def forever() -> None:
    import time

    time.sleep(600)


async def test_a_task_cancelled_while_it_starts_does_not_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = LocalJobLogExecutor(workdir=str(tmp_path))
    executor._init_runtime()
    session = Session(executor, ("dispatch", 0), Monitor(LocalFiles()), None)
    executor.__dict__["_session"] = session
    start, started = child.start, []

    async def cancelled_meanwhile(*args: object, **kwargs: object) -> child.Child:
        started.append(await start(*args, **kwargs))  # type: ignore[arg-type]
        await session.cancel()
        return started[0]

    async def accepts(handle: object) -> None:
        """Covalent's side."""

    monkeypatch.setattr(child, "start", cancelled_meanwhile)
    monkeypatch.setattr(executor, "set_job_handle", accepts)
    metadata = {"dispatch_id": "dispatch", "node_id": 0}
    with pytest.raises(TaskCancelledError):
        await asyncio.wait_for(executor.run(*assembled(forever), metadata), 30)
    assert not await started[0].group_alive()
    await executor.after_final_read()
    await session.monitor.source.close()
