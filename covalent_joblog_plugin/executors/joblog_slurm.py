# SPDX-License-Identifier: Apache-2.0
"""Placeholder until the executor lands."""

from covalent.executor.base import AsyncBaseExecutor

EXECUTOR_PLUGIN_NAME = "SlurmJobLogExecutor"


class SlurmJobLogExecutor(AsyncBaseExecutor):
    """Placeholder until the executor lands."""
