# SPDX-License-Identifier: Apache-2.0
"""The disk of Covalent's results at its reserve while a task prints: the task ends as it would have."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.executors.dispatches import node
from tests.executors.test_local import run
from tests.rigs.covalent_server import CovalentServer, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.covalent

MIB = 1 << 20
LINES = 60 * MIB // 16
PRINTS = f"""
import os
for n in range(0, {LINES}, 10_000):
    os.write(1, b"".join(b"%015d\\n" % m for m in range(n, min(n + 10_000, {LINES}))))
open(f"{{gate}}/said", "w").close()
"""


@pytest.fixture
def nearly_full(covalent_database: Path, tmp_path: Path) -> Iterator[CovalentServer]:
    """A server whose results lie on a disk with some 34 MiB above the reserve of 256 MiB."""
    server = CovalentServer(tmp_path / "server", covalent_database)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", server.results_dir], check=True)
    try:
        (server.results_dir / "ballast").write_bytes(bytes(110 * MIB))
        yield server.start()
    finally:
        server.close()
        subprocess.run(["umount", server.results_dir], check=True)


def seams(server: CovalentServer, dispatch_id: str) -> list[dict[str, Any]]:
    index = server.results_dir / dispatch_id / "node_0" / "joblog" / "index.jsonl"
    lines = [json.loads(line) for line in index.read_text().splitlines()]
    return [line for line in lines if "seam" in line]


def said() -> bytes:
    return b"".join(b"%015d\n" % n for n in range(LINES))


def test_with_room_again_the_text_is_complete(nearly_full: CovalentServer, tmp_path: Path) -> None:
    dispatch_id = run(nearly_full, PRINTS, gate=str(tmp_path))
    eventually(lambda: _has(nearly_full, dispatch_id, "paused"), 60, "the pause")
    assert said().startswith(nearly_full.stdout(dispatch_id, 0))
    (nearly_full.results_dir / "ballast").unlink()
    assert nearly_full.finished(dispatch_id) == "COMPLETED"
    assert nearly_full.stdout(dispatch_id, 0) == said()
    assert [s["seam"] for s in seams(nearly_full, dispatch_id)] == ["paused", "resumed"]


def test_without_room_the_task_is_completed_and_the_prefix_stays(
    nearly_full: CovalentServer, tmp_path: Path
) -> None:
    dispatch_id = run(nearly_full, PRINTS, {"final_read_timeout": 3}, gate=str(tmp_path))
    assert nearly_full.finished(dispatch_id) == "COMPLETED"
    text = nearly_full.stdout(dispatch_id, 0)
    assert 8 * MIB < len(text) < 34 * MIB
    assert said().startswith(text)
    assert node(nearly_full, dispatch_id, 0)["status"] == "COMPLETED"
    assert [s["seam"] for s in seams(nearly_full, dispatch_id)] == ["paused", "incomplete"]


def _has(server: CovalentServer, dispatch_id: str, kind: str) -> bool:
    index = server.results_dir / dispatch_id / "node_0" / "joblog" / "index.jsonl"
    return index.exists() and kind in index.read_text()
