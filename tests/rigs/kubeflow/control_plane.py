# SPDX-License-Identifier: Apache-2.0
"""Kubernetes without its node: etcd, API server, controller manager and scheduler, on loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from .certificates import Authority
from .health import answers
from .node import NODE
from .parts import etcd, kubernetes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.rigs.daemons import Daemons

ISSUER = "https://kubernetes.default.svc"
# Who each program is to the API server: common name and organization of its certificate.
CLIENTS = {
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", None),
    "kube-scheduler": ("system:kube-scheduler", None),
}


class ControlPlane:
    """The control plane of one rig; ``ports`` are those of etcd, its peers and the API server."""

    def __init__(
        self, folder: Path, daemons: Daemons, wait: Callable[[str, Callable[[], bool]], None]
    ) -> None:
        self._folder = folder
        self._daemons = daemons
        self._wait = wait
        self.authority = Authority(folder / "pki")
        self.ports: dict[str, int] = {}

    def make_identities(self, node_address: str) -> None:
        """Make certificates and kubeconfig files of everything that talks or serves."""
        issue = self.authority.issue
        self.authority.create()
        self.authority.make_key("service-accounts")
        issue("etcd", "etcd", hosts=("127.0.0.1",))
        issue("apiserver", "kube-apiserver", hosts=("127.0.0.1", "localhost", "10.96.0.1"))
        issue("hooks", "hooks", hosts=("127.0.0.1", "training-operator.kubeflow.svc"))
        for name, (user, group) in CLIENTS.items():
            issue(name, user, group=group)
        issue("node", f"system:node:{NODE}", group="system:nodes", hosts=(NODE, node_address))
        (self._folder / "kubeconfig").mkdir(mode=0o700)
        for name in (*CLIENTS, "node"):
            self._write_kubeconfig(name)

    def _write_kubeconfig(self, name: str) -> None:
        pki = self._folder / "pki"
        server = f"https://127.0.0.1:{self.ports['apiserver']}"
        user = {"client-certificate": str(pki / f"{name}.crt"), "client-key": str(pki / f"{name}.key")}
        cluster = {"server": server, "certificate-authority": str(pki / "ca.crt")}
        write_kubeconfig(self._folder / "kubeconfig" / name, cluster, user)

    def start_etcd(self) -> None:
        """Start etcd, reachable only with a certificate of the rig's authority."""
        pki, port, peer = self._folder / "pki", self.ports["etcd"], self.ports["etcd-peer"]
        client, peers = f"https://127.0.0.1:{port}", f"https://127.0.0.1:{peer}"
        options = [f"--data-dir={self._folder}/etcd", "--unsafe-no-fsync", "--logger=zap", "--log-level=warn"]
        options += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        options += [f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"]
        options += [f"--initial-cluster=default={peers}"]
        for prefix in ("", "peer-"):
            options += [f"--{prefix}cert-file={pki}/etcd.crt", f"--{prefix}key-file={pki}/etcd.key"]
            options += [f"--{prefix}trusted-ca-file={pki}/ca.crt", f"--{prefix}client-cert-auth"]
        self._daemons.start("etcd", str(etcd().folder / "bin" / "etcd"), *options)

    def start_apiserver(self) -> None:
        """Start the API server; it keeps its port and what etcd holds."""
        pki = self._folder / "pki"
        options = [f"--etcd-servers=https://127.0.0.1:{self.ports['etcd']}", f"--etcd-cafile={pki}/ca.crt"]
        options += [f"--etcd-certfile={pki}/etcd.crt", f"--etcd-keyfile={pki}/etcd.key"]
        options += ["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"]
        options += [f"--secure-port={self.ports['apiserver']}", f"--client-ca-file={pki}/ca.crt"]
        options += [f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key"]
        options += [f"--service-account-issuer={ISSUER}", "--authorization-mode=Node,RBAC"]
        options += [f"--service-account-key-file={pki}/service-accounts.pub"]
        options += [f"--service-account-signing-key-file={pki}/service-accounts.key"]
        options += ["--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true"]
        options += [f"--kubelet-client-certificate={pki}/admin.crt", f"--kubelet-client-key={pki}/admin.key"]
        options += [
            f"--kubelet-certificate-authority={pki}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
        ]
        # Nothing reaches the API server through its Service, and loopback is no address of an endpoint.
        options += ["--endpoint-reconciler-type=none"]
        self._start("kube-apiserver", options)

    def wait_for_apiserver(self) -> None:
        """Return when the API server says that it is ready."""
        url = f"https://127.0.0.1:{self.ports['apiserver']}/readyz"
        self._wait("kube-apiserver", lambda: answers(url, self._folder / "pki"))

    def start_managers(self) -> None:
        """Start the controller manager and the scheduler, both without a port of their own."""
        for name in ("kube-controller-manager", "kube-scheduler"):
            kubeconfig = self._folder / "kubeconfig" / name
            options = [f"--{use}kubeconfig={kubeconfig}" for use in ("", "authentication-", "authorization-")]
            options += ["--leader-elect=false", "--secure-port=0"]
            if name == "kube-controller-manager":
                pki = self._folder / "pki"
                options += [f"--service-account-private-key-file={pki}/service-accounts.key"]
                options += [f"--root-ca-file={pki}/ca.crt", "--use-service-account-credentials=true"]
            self._start(name, options)

    def _start(self, name: str, options: list[str]) -> None:
        self._daemons.start(name, str(kubernetes().folder / "bin" / name), *options)


def write_kubeconfig(path: Path, cluster: dict[str, str], user: dict[str, str]) -> None:
    """Write a kubeconfig file with one cluster and one user, readable by its owner alone."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rig", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "user"}}],
        "current-context": "rig",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
