# SPDX-License-Identifier: Apache-2.0
"""What the tests of all rooms share: real servers, started once.

Covalent reads its configuration at import, so this file points it at the session's own server before any
test can import it: the test process never touches the configuration or the server of whoever runs the tests.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis
import pytest

from tests.rigs.covalent_server import CovalentServer
from tests.rigs.kubeflow import build_before_tests, kubeflow_rig  # noqa: F401 - a fixture
from tests.rigs.slurm import slurm_rig  # noqa: F401 - a fixture

# What an example takes says more of the machine than of the code.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

_ROOT = Path(tempfile.mkdtemp(prefix="joblog-tests-"))
_SERVER = CovalentServer(_ROOT / "server")

for _name in [name for name in os.environ if name.startswith("COVALENT_")]:
    del os.environ[_name]
os.environ["COVALENT_CONFIG_DIR"] = str(_SERVER.config_dir)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what a test needs by the fixtures that start it, so that nobody has to remember to."""
    for item in items:
        if {"covalent_database", "covalent_server", "fresh_covalent_server"} & set(item.fixturenames):
            item.add_marker(pytest.mark.covalent)
        if "slurm_rig" in item.fixturenames:
            item.add_marker(pytest.mark.slurm)
        if "kubeflow_rig" in item.fixturenames:
            item.add_marker(pytest.mark.kubeflow)


def pytest_collection_finish(session):
    """Build what takes minutes before the first test begins."""
    build_before_tests(session)


def pytest_unconfigure():
    """Remove what the servers wrote."""
    shutil.rmtree(_ROOT, ignore_errors=True)


@pytest.fixture(scope="session")
def covalent_database(tmp_path_factory):
    """A migrated database for servers to start from."""
    server = CovalentServer(tmp_path_factory.mktemp("database") / "server")
    server.migrate()
    return server.database


@pytest.fixture(scope="session")
def covalent_server(covalent_database):
    """The session's Covalent server; the test process's own ``covalent`` is its client."""
    shutil.copy(covalent_database, _SERVER.database)
    _SERVER.add_executors()
    _SERVER.start()
    yield _SERVER
    _SERVER.close()


@pytest.fixture
def fresh_covalent_server(covalent_database, tmp_path):
    """A Covalent server to stop, kill and start again."""
    server = CovalentServer(tmp_path / "server", covalent_database)
    server.add_executors()
    yield server.start()
    server.close()
