# SPDX-License-Identifier: Apache-2.0
"""An executor as its author would write it: the two hooks and ``run``, nothing else of ours."""

import asyncio
import os

from covalent_joblog_plugin.executors.base import JobLogExecutor

EXECUTOR_PLUGIN_NAME = "ThreeHooksExecutor"
_EXECUTOR_PLUGIN_DEFAULTS: dict = {}  # Covalent looks for it, even when it is empty


class ThreeHooksExecutor(JobLogExecutor):
    """Runs the function in a thread; the function writes its output to files of known names."""

    def __init__(self, folder="", **common):
        super().__init__(**common)
        self.folder = folder

    def get_files_to_monitor(self, dispatch_id, node_id):  # noqa: ARG002
        return [f"{self.folder}/{name}" for name in ("out.txt", "problems.err", "losses.csv")]

    async def poll_file(self, path, pos, size=-1):
        try:
            fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(fd, size if size >= 0 else 1 << 20, pos)
        finally:
            os.close(fd)

    async def run(self, function, args, kwargs, task_metadata):  # noqa: ARG002
        return await asyncio.to_thread(function, *args, **kwargs)
