# SPDX-License-Identifier: Apache-2.0
"""Users, folders, variables, process namespaces and Pythons that a container may bring."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from covalent_joblog_plugin.payload import pod_bundle
from tests.payload.pods import ended, payload_of, run, variables_of
from tests.payload.pythons import SYSTEM, installed


def test_the_function_sees_nothing_of_our_variables(tmp_path):
    def function():
        return dict(os.environ), Path.cwd()

    done = run(tmp_path, function, MINE="yes", PYTHONFAULTHANDLER="")
    environment, cwd = done.value
    assert not [name for name in environment if name.startswith("JOBLOG_")]
    assert (environment["MINE"], environment["PYTHONUNBUFFERED"]) == ("yes", "1")
    assert environment["PYTHONFAULTHANDLER"] == ""
    assert cwd == tmp_path


@pytest.mark.parametrize("minor", [8, 9, 12, 13])
def test_other_pythons_run_it_and_name_themselves(tmp_path, minor):
    """What is sent is Python 3.8's; the call itself wants the version that pickled it."""
    python = installed().get((3, minor))
    if python is None:
        pytest.fail(f"python3.{minor} is not installed: pyenv install 3.{minor}")
    done = run(tmp_path, lambda: None, python=python)
    assert (done.status, done.verdict.kind) == (70, "python")
    assert done.verdict.python.startswith(f"3.{minor}.")
    assert done.complete


READ_ONLY = """
for folder in /tmp /var/tmp /usr/tmp; do
    [ ! -d $folder ] || { mount --bind $folder $folder && mount -o remount,bind,ro $folder; }
done
cd /
exec setpriv --reuid 1000 --regid 1000 --clear-groups "$@"
"""


def test_read_only_folders_and_another_user_are_no_obstacle(tmp_path):
    """As in a hardened pod, which may write into /dev/shm alone."""
    if os.getuid():
        pytest.fail("run as root, to become another user")

    def function():
        import os

        return os.getuid(), os.access(".", os.W_OK), os.access("/tmp", os.W_OK)

    with tempfile.NamedTemporaryFile(dir="/dev/shm") as message:
        os.fchmod(message.fileno(), 0o666)
        environment = variables_of(payload_of(function), JOBLOG_TERMINATION_LOG=message.name)
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", *pod_bundle.container_command([SYSTEM])],
            env={"PATH": os.environ["PATH"], **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        done = ended(tmp_path, process)
        done.message = Path(message.name).read_text()
    assert done.status == 0, done.stderr
    assert done.value == (1000, False, False)


def test_orphans_are_reaped_by_the_first_process(tmp_path):
    """In a process namespace of its own, as a container has it."""
    if os.getuid():
        pytest.fail("run as root, to make a process namespace")

    def function():
        import os
        import subprocess
        from pathlib import Path

        def states():
            lines = [line.read_text() for line in Path("/proc").glob("[0-9]*/stat")]
            return {line.split()[0]: line.rpartition(")")[2].split()[0] for line in lines}

        orphans = subprocess.run(
            ["sh", "-c", "for n in 1 2 3; do sleep 0.2 & echo $!; done"], stdout=subprocess.PIPE, check=True
        ).stdout.split()
        deadline = time.monotonic() + 20
        while {pid.decode() for pid in orphans} & set(states()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return len(orphans), "Z" in states().values(), os.getppid()

    done = run(tmp_path, function, before=["unshare", "--pid", "--fork", "--mount-proc"])
    assert done.status == 0, done.stderr
    assert done.value == (3, False, 1)
