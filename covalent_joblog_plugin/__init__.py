# SPDX-License-Identifier: Apache-2.0
"""Live, byte-exact output of Covalent tasks that run as jobs elsewhere."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .executors.base import JobLogExecutor
    from .executors.direct import open_output
    from .executors.joblog_kubeflow import KubeflowJobLogExecutor
    from .executors.joblog_local import LocalJobLogExecutor
    from .executors.joblog_slurm import SlurmJobLogExecutor
    from .model.errors import JobFailed, TransportError
    from .model.records import FileRef, FileStat, Identity
    from .reading.handle import logs

__all__ = [
    "FileRef",
    "FileStat",
    "Identity",
    "JobFailed",
    "JobLogExecutor",
    "KubeflowJobLogExecutor",
    "LocalJobLogExecutor",
    "SlurmJobLogExecutor",
    "TransportError",
    "logs",
    "open_output",
]

_HOMES = {
    "FileRef": "model.records",
    "FileStat": "model.records",
    "Identity": "model.records",
    "JobFailed": "model.errors",
    "JobLogExecutor": "executors.base",
    "KubeflowJobLogExecutor": "executors.joblog_kubeflow",
    "LocalJobLogExecutor": "executors.joblog_local",
    "SlurmJobLogExecutor": "executors.joblog_slurm",
    "TransportError": "model.errors",
    "logs": "reading.handle",
    "open_output": "executors.direct",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for: Covalent imports this package while it is half imported."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
