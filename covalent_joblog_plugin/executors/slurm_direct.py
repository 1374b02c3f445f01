# SPDX-License-Identifier: Apache-2.0
"""A Slurm job's output and result straight from its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalent_joblog_plugin.cluster.slurm_reader import SlurmReader

from . import slurm_outcome

if TYPE_CHECKING:
    from covalent_joblog_plugin.cluster.slurm import SlurmCluster


class SlurmJobReader(SlurmReader):
    """See ``OutputReader``.

    Args:
        cluster: Its login node; closed with the reader.
        handle: As given to ``announce_job``.
        login: How to reach the login node by hand, such as ``ssh cluster``.
    """

    def __init__(self, cluster: SlurmCluster, handle: dict[str, Any], login: str) -> None:
        super().__init__(cluster, handle)
        self._login = login

    async def result(self) -> Any:
        """See ``OutputReader``."""
        await self.begun()
        end = await self._cluster.ended(self.job)
        return await slurm_outcome.result(self._cluster, self.job, end, self._login)
