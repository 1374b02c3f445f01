# SPDX-License-Identifier: Apache-2.0
"""Reading a job's output straight from its cluster, with no Covalent server in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .capabilities import Capabilities
    from .records import Stream


class OutputReader(Protocol):
    """One job's output, as the cluster still has it."""

    async def capabilities(self) -> Capabilities:
        """What can be done; asks the cluster.

        Raises:
            TransportError: The cluster cannot be reached.
        """

    async def executions(self) -> list[int]:
        """The starts of the job whose output is there, in restart order; empty before the first one.

        Raises:
            OutputUnsupported: The cluster does not tell them apart.
            TransportError: The cluster cannot be reached.
        """

    def output(
        self,
        *,
        execution: int | None = None,
        rank: int = 0,
        stream: Stream = "stdout",
        follow: bool = False,
        start: int = 0,
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of one stream, in pieces of any size; who leaves early closes it.

        Args:
            execution: Which start of the job; None for the newest.
            rank: Global rank on Slurm, node rank on Kubeflow.
            stream: Which one; where the cluster merges both it is ``log``.
            follow: Whether to go on until the end of that execution.
            start: Byte offset in the stream at which to begin.

        Raises:
            OutputNotFound: There is no such execution or rank.
            OutputNotYet: Nothing was started yet.
            OutputGone: The cluster has forgotten the job.
            OutputUnsupported: The cluster does not keep that execution or stream.
            TransportError: The cluster cannot be reached.
        """

    async def result(self) -> Any:
        """The function's value as Covalent carries it, checked and not unpickled; waits for the job's end.

        Raises:
            JobFailed: There is none; the text says all that is known.
            OutputNotYet: Nothing was started yet.
            OutputGone: The cluster has forgotten the job.
            OutputUnsupported: The cluster does not keep it.
            PayloadError: The result is damaged.
            TransportError: The cluster cannot be reached.
        """

    async def close(self) -> None:
        """Give back the connection."""
