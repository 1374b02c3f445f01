# SPDX-License-Identifier: Apache-2.0
"""``joblog reconnect``: what a server left behind is read to its end, and stored.

Covalent 0.240 never goes on with a dispatch that an earlier server had started: what it knew of it was in
memory. So the node stays RUNNING there, whatever becomes of its job, and nothing here changes that. Its text
can be completed: no server writes it any more.

Text is stored only where that is certain to be exact: the process that wrote it has ended, nobody else does
this now, the cluster numbers the executions, and what stands there right before is what was stored last.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from covalent_joblog_plugin.model.errors import JobFailed, JobLogError, OutputUnsupported
from covalent_joblog_plugin.store.state import NodeState, writer_lives

from . import choosing, console, direct
from .exits import Exit

if TYPE_CHECKING:
    from covalent_joblog_plugin.store.folders import StoredJob

AT_A_TIME = 8
"""Nodes that are followed at a time: each has a connection of its own."""


@click.command()
@choosing.dispatch_argument
@choosing.node_argument
def reconnect(dispatch: str | None, node: int | str | None) -> None:
    """Read on the jobs of a server that was killed, until they end, and store their text.

    It goes on at the byte where the stored text ends. Covalent itself shows such a node as RUNNING for ever:
    when the job has ended, `joblog result` has its value. Ctrl-C ends the reading; call it again to go on.
    """
    found = direct.jobs(dispatch, node)
    left = [job for job in found if _is_left(job)]
    if not left:
        console.event(f"nothing to do: no server left a job of {found[0].dispatch_id} behind")
        return
    try:
        brought = asyncio.run(_all(left))
    except KeyboardInterrupt:
        console.event(f"\nno longer reading; to go on: joblog reconnect {found[0].dispatch_id}")
        raise
    if not brought:
        raise click.exceptions.Exit(Exit.FAILED)


def _is_left(job: StoredJob) -> bool:
    """Whether there is a job whose text may go on; says why not."""
    if job.handle is None or job.state == NodeState.CLOSED:
        return False
    lives = writer_lives(job.writer)
    if lives and job.writer:
        hint = f"joblog logs {job.dispatch_id} {job.node_id} -f"
        console.event(f"{job}: process {job.writer['pid']} writes it, a server or a joblog reconnect: {hint}")
    return not lives


async def _all(left: list[StoredJob]) -> bool:
    room = asyncio.Semaphore(AT_A_TIME)

    async def one(job: StoredJob) -> bool:
        async with room:
            return await _told(job)

    return all(await asyncio.gather(*map(one, left)))


async def _told(job: StoredJob) -> bool:
    """Bring one node's text, and say what became of its job; False where the text could not be brought."""
    from .bringing import bring

    brought = True
    try:
        await bring(job, lambda text: console.event(f"{job}: {text}"))
    except JobLogError as error:
        brought = False
        look = f"joblog logs {job.dispatch_id} {job.node_id} --direct -f"
        console.event(f"{job}: its text is not stored: {error}. To look at it: {look}", bad=True)
        if not isinstance(error, OutputUnsupported):
            return False
        console.event(f"{job}: waiting for the job's end")
    console.event(f"{job}: {await _end(job)}")
    return brought


async def _end(job: StoredJob) -> str:
    again = "Covalent does not go on with it: dispatch again what needs it"
    try:
        async with direct.opened(job) as reader:
            await reader.result()
    except JobFailed as error:
        return f"the job failed: {str(error).splitlines()[0]}. {again}"
    except JobLogError as error:
        return f"its result cannot be had: {error}. {again}"
    where = f"joblog result {job.dispatch_id} {job.node_id} --save FILE"
    return f"the job has ended with a result: {where}. {again}"
