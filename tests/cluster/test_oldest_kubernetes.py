# SPDX-License-Identifier: Apache-2.0
"""The client with the package ``kubernetes`` that kfp's notebook images hold back to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = "30.1.0"


@pytest.fixture(scope="module")
def oldest(tmp_path_factory):
    """A folder with that version, in front of what is installed."""
    folder = tmp_path_factory.mktemp("kubernetes")
    pins = [pin for pin in (ROOT / "constraints.txt").read_text().splitlines() if "kubernetes" not in pin]
    (folder / "constraints.txt").write_text("\n".join(pins))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    target = ["--target", str(folder / "site"), "--constraint", str(folder / "constraints.txt")]
    subprocess.run([*pip, *target, f"kubernetes=={VERSION}"], check=True, timeout=300)
    return folder / "site"


@pytest.mark.kubeflow
@pytest.mark.timeout(600)
def test_the_client_works_with_the_oldest_package(oldest):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(oldest), str(ROOT)])}
    version = [sys.executable, "-c", "import kubernetes; print(kubernetes.__version__)"]
    answer = subprocess.run(version, env=environment, check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == VERSION
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/cluster/test_kubernetes.py",
    ]
    run = subprocess.run(
        tests, cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=500
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
