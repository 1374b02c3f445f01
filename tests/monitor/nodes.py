# SPDX-License-Identifier: Apache-2.0
"""Nodes with a real store in a folder of their own, and sources with faults."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.cluster.local_files import LocalFiles
from covalent_joblog_plugin.model.errors import TransportError
from covalent_joblog_plugin.store.node_output import NodeOutput
from covalent_joblog_plugin.store.outputs import TextOutput
from covalent_joblog_plugin.store.threads import in_writer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalent_joblog_plugin.model.records import Delta, ReadRequest

LIMIT = 64 << 20


def make_node(folder: Path, *, limit: int = LIMIT, min_free: int = 0) -> NodeOutput:
    """A node's output as ``NodeOutput.open`` makes it, without Covalent's rows."""
    ours = folder / "joblog"
    ours.mkdir(parents=True)
    node = NodeOutput(folder.name, 0, "task", ours, min_free)
    for name in ("stdout", "stderr"):
        node.add(name, TextOutput(name, folder / f"{name}.log", ours, limit))
    return node


async def end(node: NodeOutput) -> None:
    """What ``NodeOutput.close`` does, without Covalent's rows."""
    await in_writer(node._finish)


def text(node: NodeOutput, file: str = "stdout") -> bytes:
    """All true bytes stored of one output."""
    view = node.snapshot(file).view
    return view.read(0, view.total)


def seams(node: NodeOutput, file: str = "stdout") -> list[dict[str, Any]]:
    """The seams of one output, oldest first."""
    index = node.folder / "index.jsonl"
    lines = [json.loads(line) for line in index.read_text().splitlines()] if index.exists() else []
    return [line for line in lines if "seam" in line and line["file"] == file]


class Faulty:
    """Real files behind a way that fails as ways do: errors, short answers, repeated and late ones."""

    def __init__(self, seed: int) -> None:
        self._files = LocalFiles()
        self._random = random.Random(seed)
        self.faults = 0
        self.calls = 0

    async def read_deltas(
        self, requests: Sequence[ReadRequest], wait: float, max_bytes: int
    ) -> Sequence[Delta]:
        self.calls += 1
        if self._random.random() < 0.2:
            self.faults += 1
            raise TransportError("connection lost")
        deltas = await self._files.read_deltas(
            requests, min(wait, 0.2), self._random.choice([7, 999, max_bytes])
        )
        if self._random.random() < 0.1:
            self.faults += 1
            raise ConnectionResetError("the answer was on its way")
        return deltas

    async def close(self) -> None:
        await self._files.close()
