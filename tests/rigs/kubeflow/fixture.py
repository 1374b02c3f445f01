# SPDX-License-Identifier: Apache-2.0
"""The tests' cluster: one of their own, or the one that ``JOBLOG_TEST_KUBECONFIG`` names."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .client import Cluster
from .errors import RigError
from .rig import KubeflowRig, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

GIVEN = "JOBLOG_TEST_KUBECONFIG"
GIVEN_IMAGE = "JOBLOG_TEST_IMAGE"
_FAILED = pytest.StashKey[RigError]()


class GivenCluster(Cluster):
    """A cluster of somebody else's, with Trainer and Training Operator; its node is out of reach.

    What a test asks of the rig beyond objects of the API fails there with the reason. ``JOBLOG_TEST_IMAGE``
    names an image with this process's Python for its nodes to fetch, else ``python:<minor version>-slim``.
    """

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        python = ".".join(map(str, sys.version_info[:2]))
        super().__init__(folder, kubeconfig, os.environ.get(GIVEN_IMAGE) or f"python:{python}-slim")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise RigError(
            f"{name}: not to be had of the cluster that {GIVEN} names; unset it to test on a private one"
        )


@pytest.fixture(scope="session")
def kubeflow_rig(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubeflowRig | GivenCluster]:
    """One cluster for the whole test run."""
    folder = tmp_path_factory.mktemp("kubeflow")
    if given := os.environ.get(GIVEN):
        yield GivenCluster(folder, Path(given))
        return
    if error := request.config.stash.get(_FAILED, None):
        raise error
    rig = KubeflowRig(folder / "rig")
    rig.start()
    yield rig
    rig.stop()


def build_before_tests(session: pytest.Session) -> None:
    """Build what the tests' cluster consists of, with progress on the terminal and no test's timeout."""
    wanted = any("kubeflow_rig" in getattr(item, "fixturenames", ()) for item in session.items)
    if not wanted or session.config.option.collectonly or os.environ.get(GIVEN):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        try:
            prepare()
        except RigError as error:
            # The tests that need it fail with it; the others can run.
            session.config.stash[_FAILED] = error
