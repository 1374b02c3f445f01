# SPDX-License-Identifier: Apache-2.0
"""What a real API server answers to our requests, and which credentials they bear."""

from __future__ import annotations

import asyncio
import base64
import logging
import sys
import time
from pathlib import Path

import pytest
import yaml

from covalent_joblog_plugin.cluster import kubernetes_config
from covalent_joblog_plugin.cluster.kubernetes import Kubernetes, KubernetesSettings
from covalent_joblog_plugin.cluster.kubernetes_errors import (
    ApiError,
    Forbidden,
    NotFound,
    NotStarted,
    Refused,
    Unauthorized,
)
from covalent_joblog_plugin.model.errors import AuthenticationError
from tests.cluster.pod_logs import CONTAINER

LOGS = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}
TOKEN = "not-a-token-of-this-cluster"
EXEC = """
import json, pathlib, sys
runs = pathlib.Path({runs!r})
runs.write_text(str(int(runs.read_text()) + 1) if runs.exists() else "1")
token = {tokens!r}[min(int(runs.read_text()), len({tokens!r})) - 1]
if token is None:
    sys.exit("not logged in")
kind = {{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}}
print(json.dumps({{**kind, "status": {{"token": token}}}}))
"""


@pytest.fixture
async def client():
    """Makes clients, and closes them."""
    made = []

    def make(kubeconfig, **settings):
        made.append(Kubernetes(KubernetesSettings(str(kubeconfig), **settings)))
        return made[-1]

    yield make
    for api in made:
        await api.close()


@pytest.fixture(scope="module")
def namespace(kubeflow_rig):
    return kubeflow_rig.namespace("requests")


@pytest.fixture(scope="module")
def reader(kubeflow_rig, namespace):
    """The kubeconfig of an account that may read logs."""
    return kubeflow_rig.service_account(namespace, "reader", [LOGS])


def program(path, tokens):
    """A kubeconfig's user whose program gives these tokens in turn, None where it fails."""
    script = path / "login.py"
    script.write_text(EXEC.format(runs=str(path / "runs"), tokens=tokens))
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)]}}


def token_of(kubeconfig):
    return yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]


async def read(api, pod, container=CONTAINER, **how):
    async with api.open_log(pod, container, follow=False, **how) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def read_of_kubelet(api, pod):
    """The same, once the kubelet has heard of a pod that was given to it a moment ago."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return await read(api, pod)
        except ApiError as error:
            if error.status != 404 or time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.1)


async def test_a_wrong_token_is_told_without_showing_it(kubeflow_rig, client):
    api = client(kubeflow_rig.kubeconfig_for({"token": TOKEN}))
    with pytest.raises(Unauthorized, match="renew them") as caught:
        await api.request("GET", "/api/v1/namespaces/default/pods")
    assert TOKEN not in f"{caught.value!r} {caught.value.__cause__!r} {vars(api)} {api._access!r}"


async def test_no_credentials_at_all_are_told(kubeflow_rig, client):
    api = client(kubeflow_rig.kubeconfig_for({"as-uid": "1"}))
    with pytest.raises(AuthenticationError, match="gave no credentials"):
        await api.request("GET", "/api/v1/namespaces/default/pods")


async def test_a_token_that_has_expired_is_renewed(kubeflow_rig, namespace, reader, client, tmp_path):
    api = client(kubeflow_rig.kubeconfig_for(program(tmp_path, [TOKEN, token_of(reader)])))
    answer = await api.request("GET", f"/api/v1/namespaces/{namespace}/pods")
    assert answer["kind"] == "PodList"
    assert (tmp_path / "runs").read_text() == "2"


async def test_a_program_that_gives_no_credentials_is_told(kubeflow_rig, client, tmp_path):
    api = client(kubeflow_rig.kubeconfig_for(program(tmp_path, [None])))
    with pytest.raises(AuthenticationError, match=r"\(exec\), try that command"):
        await api.connect()


async def test_a_missing_right_is_named(namespace, reader, client):
    api = client(reader, namespace=namespace)
    path = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs"
    with pytest.raises(
        Forbidden, match=f"needs list trainjobs.trainer.kubeflow.org in namespace {namespace}"
    ):
        await api.request("GET", path)
    assert await api.can_i("get", "", "pods", "log")
    assert not await api.can_i("create", "trainer.kubeflow.org", "trainjobs")
    assert not await api.can_i("get", "", "pods", "log", namespace="default")


async def test_each_reason_why_there_is_no_log_is_told(kubeflow_rig, namespace, client):
    api = client(kubeflow_rig.kubeconfig, namespace=namespace)
    pods = f"/api/v1/namespaces/{namespace}/pods"

    async def make(name, image, **more):
        container = {"name": CONTAINER, "image": image, "command": ["python3", "-c", "print('said')"], **more}
        spec = {"restartPolicy": "Never", "containers": [container]}
        meta = {"name": name}
        await api.request(
            "POST", pods, body={"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        )

    await make("greedy", kubeflow_rig.image, resources={"requests": {"cpu": "1000"}})
    await make("imageless", "127.0.0.1:1/none:1")
    with pytest.raises(NotStarted, match="no node"):
        await read(api, "greedy")
    with pytest.raises(NotStarted):
        await read_of_kubelet(api, "imageless")
    with pytest.raises(NotFound, match='"nope" not found'):
        await read(api, "nope")
    with pytest.raises(Refused, match="container zz is not valid"):
        await read(api, "imageless", "zz")
    with pytest.raises((NotFound, NotStarted)):
        await read(api, "imageless", previous=True)
    with pytest.raises(Refused):
        await api.request("POST", pods, body={"apiVersion": "v1", "kind": "Pod"})


async def test_a_server_that_is_not_there_is_told(kubeflow_rig, client):
    api = client(kubeflow_rig.kubeconfig_for(port=1))
    with pytest.raises(ApiError, match=r"127\.0\.0\.1:1 of .* does not answer: .*refused"):
        await api.request("GET", "/version")


async def test_a_certificate_of_another_authority_is_refused(kubeflow_rig, client, tmp_path):
    config = yaml.safe_load(kubeflow_rig.kubeconfig.read_text())
    for cluster in config["clusters"]:
        for name in ("certificate-authority", "certificate-authority-data"):
            cluster["cluster"].pop(name, None)
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ApiError, match="its certificate is not accepted"):
        await client(path).request("GET", "/version")


async def test_verification_is_left_out_only_where_the_kubeconfig_says_so(
    kubeflow_rig, client, tmp_path, caplog
):
    config = yaml.safe_load(kubeflow_rig.kubeconfig.read_text())
    for cluster in config["clusters"]:
        server = cluster["cluster"]["server"]
        cluster["cluster"] = {"server": server, "insecure-skip-tls-verify": True}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    with caplog.at_level(logging.WARNING):
        assert "major" in await client(path).request("GET", "/version")
    assert "certificate is not verified" in caplog.text


def authority(cluster):
    """Certificate of the authority that a kubeconfig names or holds."""
    data = cluster.get("certificate-authority-data")
    return base64.b64decode(data) if data else Path(cluster["certificate-authority"]).read_bytes()


async def test_in_a_pod_its_own_account_is_used(
    kubeflow_rig, namespace, reader, client, tmp_path, monkeypatch
):
    cluster = yaml.safe_load(kubeflow_rig.kubeconfig.read_text())["clusters"][0]["cluster"]
    (tmp_path / "ca.crt").write_bytes(authority(cluster))
    (tmp_path / "token").write_text(token_of(reader))
    (tmp_path / "namespace").write_text(namespace)
    monkeypatch.setattr(kubernetes_config, "SERVICE_ACCOUNT", tmp_path)
    package = sys.modules["kubernetes.config.incluster_config"]
    monkeypatch.setattr(package, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(package, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(kubeflow_rig.api_port))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    api = client("")
    assert await api.can_i("get", "", "pods", "log")
    assert (api.namespace, api.service_account) == (namespace, "reader")
