# SPDX-License-Identifier: Apache-2.0
"""What importing the package does, and does not."""

import json
import os
import subprocess
import sys

import pytest

ENTRY_MODULES = ("joblog_local", "joblog_slurm")


@pytest.fixture
def in_a_process_of_its_own(tmp_path):
    """Runs a script, which prints JSON on its last line, for a user who has nothing but the package."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("COVALENT_", "XDG_"))}

    def run(script):
        env = ours | {"HOME": str(tmp_path), "COVALENT_CONFIG_DIR": str(tmp_path / "config")}
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_importing_covalent_loads_no_room_below_the_executors(in_a_process_of_its_own):
    """Covalent imports the entry modules in every client: what they bring is paid by everybody."""
    loaded = in_a_process_of_its_own(
        "import json, sys, covalent;"
        "print(json.dumps([m for m in sys.modules if m.startswith('covalent_joblog_plugin.')]))"
    )
    rooms = {name.split(".")[1] for name in loaded}
    assert rooms <= {"executors", "model", "web"}


def test_importing_covalent_loads_neither_the_dispatcher_nor_a_client_of_a_cluster(in_a_process_of_its_own):
    heavy = ("covalent_dispatcher", "covalent_ui", "asyncssh", "kubernetes", "watchfiles", "sqlalchemy")
    script = "import json, sys, covalent; print(json.dumps(sorted(m.split('.')[0] for m in sys.modules)))"
    without = "import os; os.environ['COVALENT_PLUGIN_LOAD'] = 'false';"
    brought = set(in_a_process_of_its_own(script)) - set(in_a_process_of_its_own(without + script))
    assert brought.isdisjoint(heavy)


def test_importing_covalent_starts_no_thread_and_opens_no_socket(in_a_process_of_its_own):
    """The Dask cluster is forked with the plugins loaded."""
    started = in_a_process_of_its_own(
        "import json, os, threading, covalent;"
        "fds = [os.readlink(f'/proc/self/fd/{f}') for f in os.listdir('/proc/self/fd')"
        "       if os.path.lexists(f'/proc/self/fd/{f}')];"
        "print(json.dumps([threading.active_count(), [f for f in fds if f.startswith('socket')]]))"
    )
    assert started == [1, []]


@pytest.mark.parametrize("short_name", ENTRY_MODULES)
def test_covalent_knows_the_executor_by_its_short_name_and_its_class(in_a_process_of_its_own, short_name):
    known = in_a_process_of_its_own(
        "import json, covalent as ct;"
        "from covalent.executor import _executor_manager as m;"
        f"cls = m.executor_plugins_map[{short_name!r}];"
        "print(json.dumps([cls.__name__, hasattr(ct.executor, cls.__name__)]))"
    )
    assert known == [
        {"joblog_local": "LocalJobLogExecutor", "joblog_slurm": "SlurmJobLogExecutor"}[short_name],
        True,
    ]


FIRST = (
    "from covalent_joblog_plugin import LocalJobLogExecutor",
    "import covalent_joblog_plugin.executors.joblog_local",
    "import covalent_joblog_plugin.executors.base",
)


@pytest.mark.parametrize("first", FIRST)
def test_the_executors_are_known_whichever_package_is_imported_first(in_a_process_of_its_own, first):
    known = in_a_process_of_its_own(
        f"import json; {first}; import covalent as ct;"
        "from covalent.executor import _executor_manager as m;"
        "print(json.dumps([n in m.executor_plugins_map for n in ('joblog_local', 'joblog_slurm')]))"
    )
    assert known == [True, True]


def test_every_exported_name_is_there_and_explained():
    import covalent_joblog_plugin

    for name in covalent_joblog_plugin.__all__:
        assert getattr(covalent_joblog_plugin, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        covalent_joblog_plugin.absent  # noqa: B018
