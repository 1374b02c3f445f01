# SPDX-License-Identifier: Apache-2.0
"""An executor whose hooks are a test's own lines: what an author may get wrong."""

import asyncio
import os

from covalent_joblog_plugin.executors.base import JobLogExecutor

EXECUTOR_PLUGIN_NAME = "OddHooksExecutor"
_EXECUTOR_PLUGIN_DEFAULTS: dict = {}


class OddHooksExecutor(JobLogExecutor):
    """``script`` may define ``files``, ``poll``, ``run``, ``setup``, ``gone``, ``after`` and ``caps``."""

    def __init__(self, script="", folder="", **common):
        super().__init__(**common)
        self.script = script
        self.folder = folder

    def _hook(self, name):
        names = {"self": self, "asyncio": asyncio, "folder": self.folder}
        exec(self.script, names)
        return names.get(name)

    def get_files_to_monitor(self, dispatch_id, node_id):  # noqa: ARG002
        hook = self._hook("files")
        return hook() if hook else [f"{self.folder}/out.txt"]

    async def poll_file(self, path, pos, size=-1):
        if hook := self._hook("poll"):
            return await hook(path, pos, size)
        fd = os.open(path, os.O_RDONLY)
        try:
            return os.pread(fd, size if size >= 0 else 1 << 20, pos)
        finally:
            os.close(fd)

    async def setup(self, task_metadata):  # noqa: ARG002
        if hook := self._hook("setup"):
            await hook()

    async def writers_gone(self, dispatch_id, node_id):  # noqa: ARG002
        hook = self._hook("gone")
        return await hook() if hook else True

    async def after_final_read(self):
        if hook := self._hook("after"):
            await hook()

    def capabilities(self):
        hook = self._hook("caps")
        return hook() if hook else super().capabilities()

    async def run(self, function, args, kwargs, task_metadata):  # noqa: ARG002
        if hook := self._hook("run"):
            return await hook(function, args, kwargs)
        return await asyncio.to_thread(function, *args, **kwargs)
