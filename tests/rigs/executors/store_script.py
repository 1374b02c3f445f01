# SPDX-License-Identifier: Apache-2.0
"""An executor that runs a test's own lines against the store, inside the server."""

import asyncio
import time

from covalent._shared_files.util_classes import RESULT_STATUS
from covalent._workflow.transportable_object import TransportableObject
from covalent.executor.base import AsyncBaseExecutor

from covalent_joblog_plugin.model import records
from covalent_joblog_plugin.store import node_output
from covalent_joblog_plugin.web import hook

EXECUTOR_PLUGIN_NAME = "StoreScriptExecutor"
_EXECUTOR_PLUGIN_DEFAULTS = {"script": ""}
hook.install()


class StoreScriptExecutor(AsyncBaseExecutor):
    """``script`` defines ``async def run(output, say)``; ``say(data, file="stdout")`` stores or raises.

    What it returns is the node's result; ``interrupt`` is called where the server cancels it.
    """

    def __init__(self, script="", options=None):
        super().__init__()
        self.script = script
        self.options = options or {}

    async def execute(self, function, args, kwargs, dispatch_id, results_dir, node_id=-1):  # noqa: ARG002
        output = await node_output.NodeOutput.open(dispatch_id, node_id, **self.options)

        async def say(data, file="stdout", execution=0):
            item = node_output.Append(file, data, execution, time.time())
            taken = await node_output.write([(output, item)])
            assert taken == [len(data)], (taken, output.trouble)

        names = {"asyncio": asyncio, "time": time, **vars(records), **vars(node_output)}
        exec(self.script, names)
        try:
            result = await names["run"](output, say)
        except asyncio.CancelledError:
            output.interrupt()
            raise
        except BaseException:
            await output.close()
            raise
        await output.close()
        return TransportableObject(result), None, None, RESULT_STATUS.COMPLETED

    async def run(self, function, args, kwargs, task_metadata):
        raise NotImplementedError

    async def cancel(self, task_metadata, job_handle):  # noqa: ARG002
        return True
