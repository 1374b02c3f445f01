# SPDX-License-Identifier: Apache-2.0
"""What the rig says when it cannot be built, and how it is built once."""

import subprocess
import sys

import pytest

from tests.rigs.kubeflow import KubeflowRig, RigError, image, node, parts
from tests.rigs.kubeflow.fixture import GivenCluster


def test_what_the_machine_lacks_is_named_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setattr("os.getuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name, **_: None if name == "runc" else f"/usr/bin/{name}")
    monkeypatch.setattr(node, "CNI_PLUGINS", str(tmp_path))
    with pytest.raises(RigError, match=r"apt-get install .* containernetworking-plugins runc$"):
        KubeflowRig(tmp_path / "none").start()


def test_no_go_is_named_before_anything_is_built(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(RigError, match=r"there is no go here: install Go 1\.26"):
        parts.build([parts.etcd()])


def test_an_old_go_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(RigError, match=r"go1\.19\.8"):
        parts.build([parts.etcd()])


GO = """\
#!/bin/sh
if [ "$1" = version ]; then echo go version go1.26.1 linux/amd64; exit; fi
echo "$*" >> {calls}
[ "$1" = list ] && exit {status}
sleep 0.5
for word; do [ "$before" = -o ] && echo built > "$word"; before=$word; done
exit {status}
"""


def put_go(monkeypatch, folder, status):
    """A go command that needs no minutes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    (folder / "go").write_text(GO.format(calls=folder / "calls", status=status))
    (folder / "go").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_two_processes_build_a_part_once(monkeypatch, tmp_path):
    put_go(monkeypatch, tmp_path, 0)
    code = "from tests.rigs.kubeflow import parts; parts.build([parts.etcd()])"
    both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert [line.split()[0] for line in (tmp_path / "calls").read_text().splitlines()] == ["build", "list"]
    assert (parts.etcd().folder / "bin" / "etcd").read_text() == "built\n"


def test_a_build_that_failed_is_begun_again(monkeypatch, tmp_path):
    put_go(monkeypatch, tmp_path, 1)
    with pytest.raises(RigError, match=r"go build .* exited 1"):
        parts.build([parts.etcd()])
    assert not parts.etcd().folder.exists()
    put_go(monkeypatch, tmp_path, 0)
    parts.build([parts.etcd()])
    assert parts.etcd().folder.exists()


def test_a_given_cluster_refuses_what_only_the_rig_can_do(tmp_path):
    given = GivenCluster(tmp_path, tmp_path / "kubeconfig")
    with pytest.raises(RigError, match=r"stop_kubelet: .* unset it"):
        given.stop_kubelet()


def test_another_python_than_that_of_the_image_is_refused(monkeypatch):
    monkeypatch.setattr(image, "PYTHON", (3, 7))
    with pytest.raises(RigError, match=r"Make the virtual environment with python3\.7"):
        image.build_images()
