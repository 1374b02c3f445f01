# SPDX-License-Identifier: Apache-2.0
"""Which cluster a configuration leads to, and what is told of one that leads nowhere."""

from __future__ import annotations

import json

import pytest
import yaml

from covalent_joblog_plugin.cluster import kubernetes_config
from covalent_joblog_plugin.cluster.kubernetes import Kubernetes, KubernetesSettings
from covalent_joblog_plugin.cluster.kubernetes_errors import ApiError
from covalent_joblog_plugin.model.errors import OptionError

TOKEN = "not-a-token-of-any-cluster"


def kubeconfig(path, **changes):
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://cluster.test:6443"}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [
            {"name": "day", "context": {"cluster": "c", "user": "u", "namespace": "ml"}},
            {"name": "night", "context": {"cluster": "c", "user": "u"}},
        ],
        "current-context": "day",
        **changes,
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_the_namespace_is_the_given_one_or_the_contexts(tmp_path):
    path = kubeconfig(tmp_path / "config")
    load = kubernetes_config.load
    assert load(KubernetesSettings(path)).namespace == "ml"
    assert load(KubernetesSettings(path, "night")).namespace == "default"
    assert load(KubernetesSettings(path, namespace="mine")).namespace == "mine"
    assert load(KubernetesSettings(path)).service_account is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("clusters: [", "not YAML"),
        ("", "cannot be used"),
        (json.dumps({"contexts": [{"name": "c", "context": {}}], "users": [{"name": TOKEN}]}), "no context"),
        (json.dumps({"contexts": 5, "users": [{"token": TOKEN}]}), "cannot be used"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_told_without_showing_it(tmp_path, text, says):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(OptionError, match=says) as caught:
        kubernetes_config.load(KubernetesSettings(str(path)))
    assert TOKEN not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_context_that_does_not_exist_is_told_with_those_that_do(tmp_path):
    path = kubeconfig(tmp_path / "config")
    with pytest.raises(OptionError, match=r"no context 'noon'; it has: day, night"):
        kubernetes_config.load(KubernetesSettings(path, "noon"))


def test_without_any_configuration_it_is_told_where_to_give_one(tmp_path):
    with pytest.raises(OptionError, match=r"there is no file .*give the executor kubeconfig="):
        kubernetes_config.load(KubernetesSettings(str(tmp_path / "none")))


@pytest.mark.parametrize(
    ("named", "words"), [(True, "as Covalent's server has it"), (False, "has no KUBECONFIG")]
)
async def test_whose_environment_named_the_configuration_is_told(tmp_path, monkeypatch, named, words):
    monkeypatch.setattr(kubernetes_config, "USUAL", str(tmp_path / "config"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    if named:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(OptionError, match=words):
        kubernetes_config.load(KubernetesSettings())
    cluster = {"server": "https://127.0.0.1:1"}
    path = kubeconfig(tmp_path / "config", clusters=[{"name": "c", "cluster": cluster}])
    api = Kubernetes(KubernetesSettings())
    with pytest.raises(ApiError, match=rf"127.0.0.1:1 of kubeconfig {path} .*{words}.* does not answer: "):
        await api.request("GET", "/api")
    await api.close()


@pytest.mark.parametrize(
    ("given", "no_proxy", "proxy"),
    [
        (None, "", "http://proxy.test:3128"),
        (None, "cluster.test", None),
        (None, "10.0.0.0/8", "http://proxy.test:3128"),
        ("http://other.test:1", "cluster.test", "http://other.test:1"),
    ],
)
def test_the_proxy_is_the_kubeconfigs_or_the_environments(tmp_path, monkeypatch, given, no_proxy, proxy):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "NO_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")
    monkeypatch.setenv("no_proxy", no_proxy)
    cluster = {"server": "https://cluster.test:6443"} | ({"proxy-url": given} if given else {})
    path = kubeconfig(tmp_path / "config", clusters=[{"name": "c", "cluster": cluster}])
    assert kubernetes_config.load(KubernetesSettings(path)).proxy == proxy


def test_networks_need_no_proxy(tmp_path, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")
    monkeypatch.setenv("no_proxy", "10.0.0.0/8")
    cluster = {"server": "https://10.96.0.1:443"}
    path = kubeconfig(tmp_path / "config", clusters=[{"name": "c", "cluster": cluster}])
    assert kubernetes_config.load(KubernetesSettings(path)).proxy is None
