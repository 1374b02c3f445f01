# SPDX-License-Identifier: Apache-2.0
"""Children to test with."""

from __future__ import annotations

import asyncio
from pathlib import Path

from covalent_joblog_plugin.payload import child
from tests.payload.calls import packed

DEADLINE = 30
"""Seconds a test of a child may take."""


async def begin(folder, function, *, python=None, bundle=None, **environment):
    """Start a call in ``folder/node``, its streams beside bundle and result."""
    node, work = folder / "node", folder / "work"
    node.mkdir(mode=0o700, exist_ok=True)
    work.mkdir(exist_ok=True)
    return await child.start(
        bundle or packed(function),
        node,
        stdout=node / "stdout",
        stderr=node / "stderr",
        python=python,
        cwd=work,
        environment=environment,
    )


async def text_in(path, wanted, count=1):
    """Wait until a file holds ``wanted`` so many times."""
    while (path.read_text() if path.exists() else "").count(wanted) < count:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    return path.read_text()


def is_there(pid):
    return Path(f"/proc/{pid}").exists()


def runs(pid):
    """Also orphans end as zombies, until whoever adopted them reaps them."""
    return is_there(pid) and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def wait_for_word(word="go"):
    """A function that prints its number and waits for a file of that name."""

    def function():
        import os
        import pathlib
        import time

        print(os.getpid())
        while not pathlib.Path(word).exists():
            time.sleep(0.01)
        return word

    return function
