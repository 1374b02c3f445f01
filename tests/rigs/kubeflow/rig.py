# SPDX-License-Identifier: Apache-2.0
"""One Kubeflow cluster as processes of this machine, all of it below one folder."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.rigs.daemons import Daemons, until
from tests.rigs.ports import free_ports

from .client import Cluster
from .control_plane import ISSUER, ControlPlane
from .controllers import Controllers
from .errors import RigError
from .image import PYTHON_IMAGE, build_images
from .keeper import keep
from .mounts import HOLDER, kill
from .node import NODE, Node, missing_tools
from .parts import PAIRS, all_parts, build
from .tokens import sign_token
from .truth import Record, read_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OLDEST, NEWEST = min(PAIRS), max(PAIRS)
PORTS = (
    *("etcd", "etcd-peer", "apiserver", "jobset", "jobset-health", "trainer", "trainer-health"),
    *("training-operator", "training-operator-health"),
)
PROGRAMS = (
    *("log-keeper", "training-operator", "trainer", "jobset", "kubelet", "containerd"),
    *("kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"),
)


class KubeflowRig(Cluster):
    """Kubernetes with one node, JobSet, Trainer and Training Operator.

    Several may run side by side: ports are chosen free, and each has a bridge and a mount namespace of
    its own. ``folder`` must not exist yet for ``start``; a rig that runs is found again by it.
    """

    def __init__(self, folder: Path, trainer: str = OLDEST) -> None:
        super().__init__(folder, folder / "kubeconfig" / "admin", PYTHON_IMAGE)
        self.trainer = trainer
        self.daemons = Daemons(folder)
        self.node = Node(folder, self.daemons, self._wait)
        self.control_plane = ControlPlane(folder, self.daemons, self._wait)
        self.controllers = Controllers(folder, self.daemons, self._wait, self.node.mounts, self)
        self._record = folder / "rig.json"
        if self._record.exists():
            self._use(**json.loads(self._record.read_text()))

    def start(self) -> KubeflowRig:
        """Start everything; returns when a pod can be made.

        Raises:
            RigError: something is missing or did not come up; nothing is left running.
        """
        prepare()
        for name in ("log", "pods", "serving-certs"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o711)
        try:
            self._start_all()
        except BaseException:
            self.stop()
            raise
        return self

    def _start_all(self) -> None:
        self._use(dict(zip(PORTS, free_ports(len(PORTS)), strict=True)), self.trainer)
        self.node.mounts.start()
        self.node.network.start()
        self.node.start_keeper()
        self.control_plane.make_identities(self.node.network.node_address)
        for kind in ("crt", "key"):
            shutil.copy(self.folder / "pki" / f"hooks.{kind}", self.folder / "serving-certs" / f"tls.{kind}")
        self.control_plane.start_etcd()
        self.control_plane.start_apiserver()
        self.node.start_containerd()
        with ThreadPoolExecutor(1) as beside:
            importing = beside.submit(self.node.import_images)
            self.control_plane.wait_for_apiserver()
            self.control_plane.start_managers()
            self.controllers.start_operator()
            importing.result()
        self.node.start_kubelet()
        self.controllers.start_pair(self.trainer)
        self.controllers.wait_for_operator()
        self._wait("kubelet", self.node_is_ready)

    def stop(self) -> None:
        """End everything that was started, and remove the folder."""
        # By force: the API server would wait for every follower of a log, and nothing needs to be saved.
        kill([pid for name in PROGRAMS if (pid := self.daemons.pid(name))])
        self.node.stop()
        for name in (*PROGRAMS, HOLDER):
            self.daemons.stop(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _use(self, ports: dict[str, int], trainer: str) -> None:
        """Take over ports and version, chosen now or by whoever started the rig, and write them down."""
        self.control_plane.ports = self.controllers.ports = ports
        self.trainer = trainer
        self._record.write_text(json.dumps({"ports": ports, "trainer": trainer}))

    def use_trainer(self, version: str) -> None:
        """Have the cluster run another Trainer with its JobSet (``OLDEST``, ``NEWEST``)."""
        if version != self.trainer:
            self.controllers.stop_pair()
            self.controllers.start_pair(version)
            self._use(self.controllers.ports, version)

    def node_is_ready(self) -> bool:
        """Whether the API server thinks well of the node."""
        node = self.get("Node", NODE) or {}
        conditions = node.get("status", {}).get("conditions") or []
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def stop_apiserver(self, *, kill_it: bool = False) -> None:
        """Stop it by SIGTERM, then by force as it waits for open requests; or by force at once."""
        self._stop("kube-apiserver", kill_it=kill_it)

    def start_apiserver(self) -> None:
        """Start it again, at the same port; returns when it is ready."""
        self.control_plane.start_apiserver()
        self.control_plane.wait_for_apiserver()

    def stop_kubelet(self, *, kill_it: bool = False) -> None:
        """Stop the kubelet; containers run on, their logs cannot be read."""
        self._stop("kubelet", kill_it=kill_it)

    def start_kubelet(self) -> None:
        """Start it again; it knows its pods again about a second later."""
        self.node.start_kubelet()

    def restart_containerd(self) -> None:
        """Kill containerd and start it again; containers run on."""
        self._stop("containerd", kill_it=True)
        self.node.start_containerd()

    @contextlib.contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Have one program (``kubelet``, ``kube-apiserver``, ``trainer`` …) do nothing meanwhile."""
        pid = self._pid(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def short_token(self, namespace: str, name: str, seconds: float) -> str:
        """A token that ends so soon; the API server remembers for up to 10 s that it was good."""
        account = self.get("ServiceAccount", name, namespace)
        if account is None:
            raise RigError(f"there is no ServiceAccount {name} in {namespace}")
        return sign_token(self.folder / "pki" / "service-accounts.key", ISSUER, account, seconds)

    def log_records(self, pod_uid: str, container: str = "node", restart: int = 0) -> list[Record]:
        """The node's records of one container instance, also when it or its pod is gone."""
        kept = self.folder / "kept"
        keep(self.folder / "pods", kept, set())
        files = kept / pod_uid / container / str(restart)
        if not files.exists():
            raise RigError(
                f"no log file of start {restart} of container {container} in pod {pod_uid} was ever seen"
            )
        return read_records(files)

    def ground_truth(
        self, pod_uid: str, container: str = "node", restart: int = 0, stream: str | None = None
    ) -> bytes:
        """What one container instance wrote: both streams in the order of the node's records, or one."""
        records = self.log_records(pod_uid, container, restart)
        return b"".join(record.data for record in records if stream in {None, record.stream})

    def _stop(self, name: str, *, kill_it: bool) -> None:
        if kill_it:
            kill([self._pid(name)])
        self.daemons.stop(name)

    def _pid(self, name: str) -> int:
        pid = self.daemons.pid(name)
        if pid is None:
            raise RigError(f"{name} of the rig in {self.folder} does not run")
        return pid

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait until a program is ready, or say what it wrote last."""
        try:
            until(lambda: self.daemons.pid(name) is None or ready(), f"{name} is ready", timeout=90)
            if self.daemons.pid(name) and ready():
                return
            cause = "has ended"
        except TimeoutError as error:
            cause = str(error)
        log = self.folder / "log" / f"{name}.out"
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else "nothing"
        raise RigError(f"{name}: {cause}. It wrote last:\n{tail}")


def prepare() -> None:
    """Build whatever a rig needs and this machine lacks; minutes at the first time.

    Raises:
        RigError: it cannot be built here; the message says what to install.
    """
    if os.getuid() != 0:
        raise RigError(
            "the Kubeflow rig must run as root: its node makes namespaces, mounts and control groups"
        )
    if missing := missing_tools():
        raise RigError(
            f"the node lacks programs: apt-get install --no-install-recommends {' '.join(missing)}"
        )
    build(all_parts())
    build_images()
