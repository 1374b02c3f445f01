# SPDX-License-Identifier: Apache-2.0
"""Ways into the Slurm rig, and jobs on the Kubeflow one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from covalent_joblog_plugin.cluster.asyncssh_shell import AsyncsshShell
from covalent_joblog_plugin.cluster.slurm import SlurmCluster, SlurmSettings
from covalent_joblog_plugin.cluster.ssh_endpoint import SshEndpoint
from tests.cluster.kubeflow_workloads import jobs_of_an_account

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.cluster.kubeflow_workloads import Jobs
    from tests.rigs.kubeflow import KubeflowRig
    from tests.rigs.slurm import SlurmRig


@pytest.fixture
def endpoint(slurm_rig: SlurmRig) -> SshEndpoint:
    """The rig's login node."""
    return SshEndpoint(
        "127.0.0.1",
        slurm_rig.ssh_port,
        "root",
        (str(slurm_rig.client_key),),
        known_hosts=(str(slurm_rig.known_hosts),),
        ssh_config=False,
    )


@pytest.fixture
async def make_shell(endpoint: SshEndpoint) -> AsyncIterator[Callable[..., AsyncsshShell]]:
    """Makes shells to the rig, with changes to the endpoint, and closes them."""
    made: list[AsyncsshShell] = []

    def make(max_sessions: int = 4, **changes: Any) -> AsyncsshShell:
        made.append(AsyncsshShell(replace(endpoint, **changes), max_sessions))
        return made[-1]

    yield make
    for shell in made:
        await shell.close()


@pytest.fixture
def shell(make_shell: Callable[..., AsyncsshShell]) -> AsyncsshShell:
    """A shell to the rig."""
    return make_shell()


@pytest.fixture
def noisy_login(slurm_rig: SlurmRig):
    """Writes rc files that talk; they are gone after the test."""
    rc = slurm_rig.home / ".bashrc"
    rc.write_text('echo "Welcome to the cluster, job 4711"; printf "no newline"; echo "mesg: no tty" >&2\n')
    yield rc
    rc.unlink()


@pytest.fixture
async def make_cluster(
    make_shell: Callable[..., AsyncsshShell],
) -> AsyncIterator[Callable[..., SlurmCluster]]:
    """Makes clusters on the rig, with settings of one's own, and closes them."""
    made: list[SlurmCluster] = []

    def make(shell: AsyncsshShell | None = None, **settings: Any) -> SlurmCluster:
        made.append(SlurmCluster(shell or make_shell(), SlurmSettings(**settings)))
        return made[-1]

    yield make
    for cluster in made:
        await cluster.close()


@pytest.fixture
def cluster(make_cluster: Callable[..., SlurmCluster]) -> SlurmCluster:
    """The rig's Slurm."""
    return make_cluster()


@pytest.fixture
async def jobs(kubeflow_rig: KubeflowRig) -> AsyncIterator[Jobs]:
    """Jobs in a namespace of their own."""
    async with jobs_of_an_account(kubeflow_rig) as made:
        yield made


@pytest.fixture
async def restricted(kubeflow_rig: KubeflowRig) -> AsyncIterator[Jobs]:
    """Jobs in a namespace with the policy ``restricted``."""
    async with jobs_of_an_account(kubeflow_rig, pod_security="restricted") as made:
        yield made
