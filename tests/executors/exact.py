# SPDX-License-Identifier: Apache-2.0
"""Whether a task's output is stored byte for byte."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.executors.kubeflow_tasks import Task


def shown(data: bytes) -> bytes:
    """As text for Covalent's client: one ``?`` for each byte that is none."""
    codecs.register_error("joblog-shown", _question_marks)
    return data.decode("utf-8", "joblog-shown").encode()


def _question_marks(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "?" * (error.end - error.start), error.end


def true_bytes(task: Task, stream: str) -> bytes:
    """A stream's bytes: what is served, and the file that goes on where that lacks some."""
    text = task.text(stream)
    for rest in (task.folder / "joblog").glob(f"{stream}.from-*"):
        return text[: int(rest.name.rpartition("-")[2])] + rest.read_bytes()
    return text


def assert_exact(task: Task, stdout: bytes, stderr: bytes) -> None:
    """The ended task's output is that, stored without a seam and proved."""
    assert task.seams() == []
    for stream, expected in (("stdout", stdout), ("stderr", stderr)):
        assert true_bytes(task, stream) == expected
        assert task.text(stream) == shown(expected)
    assert task.capability("complete") == {"answer": "yes", "reason": ""}
