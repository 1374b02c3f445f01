# SPDX-License-Identifier: Apache-2.0
"""JobSet, Trainer and Training Operator as processes beside the cluster, with their kinds and webhooks."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import yaml

from tests.rigs.daemons import until

from . import parts
from .health import answers
from .runtimes import torch_distributed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.rigs.daemons import Daemons

    from .client import Cluster
    from .mounts import Mounts

Json = dict[str, Any]
# These two of JobSet judge every pod of the cluster unless told which: none could be made without JobSet.
POD_WEBHOOKS = {"mpod.kb.io", "vpod.kb.io"}
OF_JOBSETS = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}
# Compiled into Training Operator: where its certificate is, and the webhooks it writes its authority into.
OPERATOR_NAMESPACE, OPERATOR_SECRET = "kubeflow", "training-operator-webhook-cert"
OPERATOR_WEBHOOKS = "validator.training-operator.kubeflow.org"
# The container that has a worker wait until the master's name is known; there is no name server here.
INIT_CONTAINER = """\
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  command: ["true"]
"""


class Controllers:
    """The controllers of one rig; ``ports`` holds a webhook port and a health port of each."""

    def __init__(
        self,
        folder: Path,
        daemons: Daemons,
        wait: Callable[[str, Callable[[], bool]], None],
        mounts: Mounts,
        cluster: Cluster,
    ) -> None:
        self._folder = folder
        self._daemons = daemons
        self._wait = wait
        self._mounts = mounts
        self._cluster = cluster
        self.ports: dict[str, int] = {}

    def start_pair(self, version: str) -> None:
        """Start Trainer of that version with its JobSet, and make them known to the cluster."""
        jobset, trainer = parts.jobset(parts.PAIRS[version]), parts.trainer(version)
        # Trainer exits when it meets a cluster that does not know its kinds.
        self._install_kinds(jobset.folder, trainer.folder)
        certificates = str(self._folder / "serving-certs")
        own = {"internalCertManagement": {"enable": False}}
        self._start_manager(jobset, "config.jobset.x-k8s.io/v1alpha1", own, {"certDir": certificates})
        own = {"certManagement": {"enable": False}}
        self._start_manager(trainer, "config.trainer.kubeflow.org/v1alpha1", own, {})
        for part in (jobset, trainer):
            self._wait_for(part.name)
            self._install_webhooks(part)
        runtime = torch_distributed(self._cluster.image)
        self._cluster.apply(runtime)
        self._cluster.wait_for_runtime(runtime)

    def stop_pair(self) -> None:
        """Stop Trainer and JobSet; their kinds and all objects stay."""
        for name in ("trainer", "jobset"):
            for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
                self._cluster.delete(kind, f"rig-{name}")
            self._daemons.stop(name)

    def start_operator(self) -> None:
        """Start Training Operator for PyTorchJobs."""
        part = parts.training_operator()
        self._install_kinds(part.folder, only="*_pytorchjobs")
        self._cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}}
        )
        pki = self._folder / "pki"
        files = {"ca.crt": pki / "ca.crt", "ca.key": pki / "ca.key"}
        files |= {"tls.crt": pki / "hooks.crt", "tls.key": pki / "hooks.key"}
        data = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
        meta = {"name": OPERATOR_SECRET, "namespace": OPERATOR_NAMESPACE}
        self._cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})
        self._install_webhooks(part, OPERATOR_WEBHOOKS)
        template = self._folder / "init-container.yaml"
        template.write_text(INIT_CONTAINER)
        options = ["--enable-scheme=pytorchjob", "--metrics-bind-address=0"]
        options += [f"--webhook-server-port={self.ports['training-operator']}"]
        options += [f"--health-probe-bind-address=127.0.0.1:{self.ports['training-operator-health']}"]
        options += [f"--pytorch-init-container-image={self._cluster.image}"]
        options += [f"--pytorch-init-container-template-file={template}"]
        self._start(part, options)

    def wait_for_operator(self) -> None:
        """Return when Training Operator takes PyTorchJobs; it needs some seconds, which others can use."""
        self._wait_for("training-operator")

    def _install_kinds(self, *folders: Path, only: str = "*") -> None:
        found = [
            manifest for folder in folders for manifest in manifests(folder / "manifests" / "crds", only)
        ]
        names = [self._cluster.apply(manifest)["metadata"]["name"] for manifest in found]
        until(
            lambda: all(map(self._is_established, names)), f"the cluster knows {', '.join(names)}", timeout=60
        )

    def _is_established(self, name: str) -> bool:
        found = self._cluster.get("CustomResourceDefinition", name) or {}
        conditions = found.get("status", {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    def _install_webhooks(self, part: parts.Part, name: str | None = None) -> None:
        """Make the API server call the part's webhooks on loopback instead of through a Service."""
        authority = base64.b64encode((self._folder / "pki" / "ca.crt").read_bytes()).decode()
        base = f"https://127.0.0.1:{self.ports[part.name]}"
        for manifest in manifests(part.folder / "manifests" / "webhook"):
            manifest["metadata"]["name"] = name or f"rig-{part.name}"
            for hook in manifest["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = {"url": base + path, "caBundle": authority}
                if hook["name"] in POD_WEBHOOKS:
                    hook["objectSelector"] = OF_JOBSETS
            self._cluster.apply(manifest)

    def _start_manager(self, part: parts.Part, api_version: str, own: Json, webhook: Json) -> None:
        config = {
            "apiVersion": api_version,
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.ports[f'{part.name}-health']}"},
            "webhook": {"host": "127.0.0.1", "port": self.ports[part.name], **webhook},
            **own,
        }
        path = self._folder / f"{part.name}.yaml"
        path.write_text(yaml.safe_dump(config))
        self._start(part, [f"--config={path}"])

    def _start(self, part: parts.Part, options: list[str]) -> None:
        # Trainer looks for its certificate below the folder for temporary files.
        environment = ["env", "-u", "TMPDIR", f"KUBECONFIG={self._cluster.kubeconfig}"]
        program = str(part.folder / "bin" / part.name)
        self._daemons.start(part.name, *self._mounts.inside(*environment, program, *options))

    def _wait_for(self, name: str) -> None:
        self._wait(name, lambda: answers(f"http://127.0.0.1:{self.ports[f'{name}-health']}/readyz"))


def manifests(folder: Path, only: str = "*") -> Iterator[Json]:
    """The objects described in a folder; what is there for kustomize describes none."""
    kinds = {"CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
    for path in sorted(folder.glob(f"{only}.yaml")):
        # The loader in Python needs seconds for these.
        for manifest in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader):
            if isinstance(manifest, dict) and manifest.get("kind") in kinds:
                yield manifest
