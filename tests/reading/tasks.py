# SPDX-License-Identifier: Apache-2.0
"""Dispatches of one electron to read the output of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.executors.dispatches import dispatch

if TYPE_CHECKING:
    from tests.rigs.covalent_server import CovalentServer

_FLOW = """
import covalent as ct
local = ct.executor.LocalJobLogExecutor()

@ct.electron(executor=local)
def task():
    exec(body, dict(given))

@ct.lattice
def flow():
    return task()
"""


def run(server: CovalentServer, body: str, **given: object) -> str:
    """Dispatch one electron, ``task``, whose body is ``body``; the dispatch's id."""
    return dispatch(server, _FLOW, body=body, given=given)
