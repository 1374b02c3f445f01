# SPDX-License-Identifier: Apache-2.0
"""The node: containerd and the kubelet, and the log files of its pods."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from .errors import RigError
from .health import answers
from .image import PAUSE_IMAGE, images
from .mounts import Mounts, kill
from .network import CNI_PLUGINS, Network
from .parts import cache, kubernetes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.rigs.daemons import Daemons

NODE = "node1"
GROUPS = Path("/sys/fs/cgroup")
# restrict_oom_score_adj: in a container the machine may refuse to lower a process's score.
CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
"""


class Node:
    """One node of one rig.

    A container's log is rotated at 1 MiB by a kubelet that looks every 3 s and removes no file of a living
    container, so that the node's files are the whole truth of what a container wrote.
    """

    def __init__(
        self, folder: Path, daemons: Daemons, wait: Callable[[str, Callable[[], bool]], None]
    ) -> None:
        self._folder = folder
        self._daemons = daemons
        self._wait = wait
        self.mounts = Mounts(folder, cache(), daemons)
        self.network = Network(folder)

    def start_keeper(self) -> None:
        """Start what keeps the log files of containers that the kubelet removes."""
        program = Path(__file__).with_name("keeper.py")
        folders = (str(self._folder / "pods"), str(self._folder / "kept"))
        self._daemons.start("log-keeper", sys.executable, str(program), *folders)

    def start_containerd(self) -> None:
        """Start containerd; containers that are there already go on."""
        if not (self._folder / "containerd.toml").exists():
            fields = {"folder": self._folder, "pause": PAUSE_IMAGE, "plugins": CNI_PLUGINS}
            (self._folder / "containerd.toml").write_text(CONTAINERD.format(**fields))
        argv = self.mounts.inside("containerd", "--config", str(self._folder / "containerd.toml"))
        self._daemons.start("containerd", *argv)
        self._wait("containerd", lambda: self.ctr("version").returncode == 0)

    def import_images(self) -> None:
        """Unpack the pods' images."""
        for archive in images():
            done = self.ctr("images", "import", str(archive))
            if done.returncode:
                raise RigError(f"ctr images import {archive}: {done.stderr.strip()}")

    def ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Ask containerd something as the kubelet's client that it is."""
        argv = ["ctr", "--address", f"{self._folder}/containerd.sock", "--namespace", "k8s.io", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def start_kubelet(self) -> None:
        """Start the kubelet; it goes on with the pods it finds."""
        config = self._folder / "kubelet.yaml"
        if not config.exists():
            config.write_text(yaml.safe_dump(self._kubelet_options()))
        options = [f"--config={config}", f"--kubeconfig={self._folder}/kubeconfig/node"]
        options += [f"--root-dir={self._folder}/kubelet", f"--cert-dir={self._folder}/kubelet/pki"]
        options += [f"--hostname-override={NODE}", f"--node-ip={self.network.node_address}"]
        kubelet = str(kubernetes().folder / "bin" / "kubelet")
        self._daemons.start("kubelet", *self.mounts.inside(kubelet, *options))
        # Until then it ends when containerd does.
        url = f"https://{self.network.node_address}:10250/healthz"
        self._wait("kubelet", lambda: answers(url, self._folder / "pki"))

    def _kubelet_options(self) -> dict[str, object]:
        pki = self._folder / "pki"
        authentication = {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        }
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            # Its port 10250 needs no choice: the address is this rig's alone.
            "address": self.network.node_address,
            "healthzPort": 0,
            "authentication": authentication,
            "authorization": {"mode": "AlwaysAllow"},
            "tlsCertFile": str(pki / "node.crt"),
            "tlsPrivateKeyFile": str(pki / "node.key"),
            "containerRuntimeEndpoint": f"unix://{self._folder}/containerd.sock",
            "podLogsDir": str(self._folder / "pods"),
            "volumePluginDir": str(self._folder / "volume-plugins"),
            "containerLogMaxSize": "1Mi",
            "containerLogMonitorInterval": "3s",
            "containerLogMaxFiles": 1000,
            # No limits on groups of pods: they need what a machine in a container does not have.
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "failCgroupV1": False,
            "makeIPTablesUtilChains": False,
            "resolvConf": "",
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "imageGCHighThresholdPercent": 100,
        }

    def stop(self) -> None:
        """End everything on the node, the containers too, without asking any of it."""
        self.mounts.stop()
        groups = self.control_groups()
        while pids := [int(pid) for group in groups for pid in _members(group)]:
            kill(pids)
        for group in groups:
            for folder in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
                folder.rmdir()
            group.rmdir()
            # The folder of all containers goes with the last one, another rig's may be there.
            with contextlib.suppress(OSError):
                group.parent.rmdir()
        self.network.stop()

    def control_groups(self) -> list[Path]:
        """The containers' groups: one a container in each hierarchy of cgroup v1, or one of v2."""
        tasks = self._folder / "containerd-state" / "io.containerd.runtime.v2.task" / "k8s.io"
        names = [path.name for path in tasks.glob("*")]
        bases = [path for path in (GROUPS, *GROUPS.glob("*")) if (path / "k8s.io").is_dir()]
        return [path for base in bases for name in names if (path := base / "k8s.io" / name).is_dir()]


def _members(group: Path) -> set[str]:
    found: set[str] = set()
    for path in group.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            found |= set(path.read_text().split())
    return found


def missing_tools() -> list[str]:
    """Debian packages of what the node needs and this machine lacks."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    needs = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "ip": "iproute2"}
    needs |= {"nsenter": "util-linux", "unshare": "util-linux", "mount": "mount"}
    found = {package for tool, package in needs.items() if shutil.which(tool, path=path) is None}
    if not Path(CNI_PLUGINS, "bridge").exists():
        found.add("containernetworking-plugins")
    return sorted(found)
