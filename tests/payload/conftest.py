# SPDX-License-Identifier: Apache-2.0
"""What the tests of this room share."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from tests.payload import pythons
from tests.payload.children import DEADLINE


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory):
    """An interpreter like this one, without Covalent, cloudpickle or anything else installed."""
    return pythons.bare(tmp_path_factory.mktemp("bare"))


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run_in_loop(request):
    """Run a coroutine in a loop of its own."""

    def run(coroutine):
        loop = request.param()
        try:
            return loop.run_until_complete(asyncio.wait_for(coroutine, DEADLINE))
        finally:
            loop.close()

    return run
