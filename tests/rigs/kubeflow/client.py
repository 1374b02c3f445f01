# SPDX-License-Identifier: Apache-2.0
"""What a test does to a cluster as its administrator, and the accounts it makes for the code under test."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import kubernetes
import kubernetes.dynamic
import yaml
from kubernetes.dynamic.exceptions import ForbiddenError, NotFoundError

from tests.rigs.daemons import until

from .control_plane import write_kubeconfig
from .runtimes import training_runtimes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Json = dict[str, Any]
# Where a namespace has the certificate that its pods trust.
AUTHORITY = "kube-root-ca.crt"
API_VERSIONS = {
    "ClusterTrainingRuntime": "trainer.kubeflow.org/v1alpha1",
    "Event": "v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PyTorchJob": "kubeflow.org/v1",
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
    "TrainingRuntime": "trainer.kubeflow.org/v1alpha1",
}


class Cluster:
    """A cluster of which ``kubeconfig`` is the administrator's; objects go in and come out as plain JSON.

    ``image`` is one that holds this process's Python.
    """

    def __init__(self, folder: Path, kubeconfig: Path, image: str) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.image = image
        self._numbers = itertools.count()

    @functools.cached_property
    def _client(self) -> kubernetes.dynamic.DynamicClient:
        client = kubernetes.config.new_client_from_config(str(self.kubeconfig))
        # Its list of kinds would else be left in the common folder of temporary files.
        return kubernetes.dynamic.DynamicClient(client, cache_file=str(self.folder / "kinds.json"))

    def _resource(self, kind: str, api_version: str | None = None) -> Any:
        version = api_version or API_VERSIONS.get(kind)
        return self._client.resources.get(kind=kind, **({"api_version": version} if version else {}))

    def apply(self, manifest: Json) -> Json:
        """Create or change an object (server-side apply) and return it as the cluster has it now."""
        meta = manifest["metadata"]
        resource = self._resource(manifest["kind"], manifest["apiVersion"])
        options = {"name": meta["name"], "namespace": meta.get("namespace"), "field_manager": "joblog-rig"}
        return as_json(resource.server_side_apply(body=manifest, force_conflicts=True, **options))

    def get(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        """The object, or None when there is none of that name."""
        try:
            return as_json(self._resource(kind).get(name=name, namespace=namespace))
        except NotFoundError:
            return None

    def list(self, kind: str, namespace: str | None = None, selector: str | None = None) -> list[Json]:
        """All objects of a kind, of one namespace or of all, by label selector."""
        return list(as_json(self._resource(kind).get(namespace=namespace, label_selector=selector))["items"])

    def delete(
        self,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        grace: int | None = None,
        propagation: str = "Background",
    ) -> None:
        """Delete an object; nothing happens when it is gone already. ``grace`` in seconds."""
        body: Json = {"propagationPolicy": propagation}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self._resource(kind).delete(name=name, namespace=namespace, body=body)
        except NotFoundError:
            return

    def namespace(self, name: str, pod_security: str | None = None) -> str:
        """Make a namespace with the runtimes of ``runtimes.py``; ``pod_security`` is a level it enforces."""
        labels = {"pod-security.kubernetes.io/enforce": pod_security} if pod_security else {}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        # Pods are refused until the controller manager has made these two.
        until(
            lambda: bool(
                self.get("ServiceAccount", "default", name) and self.get("ConfigMap", AUTHORITY, name)
            ),
            f"{name} is ready for pods",
        )
        for runtime in training_runtimes(self.image):
            runtime["metadata"]["namespace"] = name
            self.apply(runtime)
        self.wait_for_runtime(runtime)
        return name

    def wait_for_runtime(self, runtime: Json) -> None:
        """Return when Trainer lets a TrainJob use it: it hears of a new runtime a moment later."""
        meta = runtime["metadata"]
        job = {"apiVersion": runtime["apiVersion"], "kind": "TrainJob", "metadata": {"name": "asks"}}
        job["spec"] = {"runtimeRef": {"kind": runtime["kind"], "name": meta["name"]}}
        jobs, namespace = self._resource("TrainJob"), meta.get("namespace", "default")

        def is_known() -> bool:
            try:
                jobs.create(body=job, namespace=namespace, dry_run="All")
            except ForbiddenError:
                return False
            return True

        until(is_known, f"Trainer knows the runtime {meta['name']}")

    def service_account(self, namespace: str, name: str, rules: Sequence[Json]) -> Path:
        """Make an account with exactly these rules of a Role in its namespace.

        The kubeconfig returned holds a token that lasts an hour.
        """
        meta = {"name": name, "namespace": namespace}
        rbac = "rbac.authorization.k8s.io"
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        self.apply({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": rules})
        role = {"apiGroup": rbac, "kind": "Role", "name": name}
        subjects = [{"kind": "ServiceAccount", **meta}]
        binding = {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": meta}
        self.apply({**binding, "roleRef": role, "subjects": subjects})
        return self.kubeconfig_for({"token": self.token(namespace, name)})

    def token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        """A token of an account; a cluster gives none that lasts less than 600 seconds."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        accounts = kubernetes.client.CoreV1Api(self._client.client)
        return str(accounts.create_namespaced_service_account_token(name, namespace, request).status.token)

    def kubeconfig_for(self, user: Json | None = None, *, port: int | None = None) -> Path:
        """A new kubeconfig file: the administrator's with another ``user`` entry or port of 127.0.0.1.

        The API server's certificate is valid for it, so a proxy may stand at that port.
        """
        cluster, mine = self._current()
        if port is not None:
            cluster["server"] = f"https://127.0.0.1:{port}"
        path = self.folder / f"user-{next(self._numbers)}.kubeconfig"
        write_kubeconfig(path, cluster, user or mine)
        return path

    @property
    def api_port(self) -> int:
        """Port of the API server."""
        return urlsplit(self._current()[0]["server"]).port or 443

    def _current(self) -> tuple[Json, Json]:
        """The cluster and the user that the administrator's kubeconfig selects."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        named = {
            kind: {one["name"]: one for one in config[kind]} for kind in ("contexts", "clusters", "users")
        }
        context = named["contexts"][config["current-context"]]["context"]
        return named["clusters"][context["cluster"]]["cluster"], named["users"][context["user"]]["user"]


def as_json(answer: Any) -> Json:
    """An answer of the client as what the API server sent."""
    return dict(answer.to_dict())
