# SPDX-License-Identifier: Apache-2.0
"""What is delivered."""

import configparser
import subprocess
import sys
import zipfile

import pytest

from tests.project.tracked import ROOT, tracked


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        yield archive


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel):
    delivered = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert delivered >= {str(path.relative_to(ROOT)) for path in tracked("covalent_joblog_plugin")}
    assert {name.partition("/")[0] for name in delivered} == {"covalent_joblog_plugin"}


def test_the_wheel_names_its_executors_its_command_and_its_licence(wheel):
    (entry_points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    named = configparser.ConfigParser()
    named.read_string(wheel.read(entry_points).decode())
    assert {section: dict(named[section]) for section in named.sections()} == {
        "console_scripts": {"joblog": "covalent_joblog_plugin.cli.main:joblog"},
        "covalent.executor.executor_plugins": {
            name: f"covalent_joblog_plugin.executors.{name}"
            for name in ("joblog_kubeflow", "joblog_local", "joblog_slurm")
        },
    }
    assert [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]
