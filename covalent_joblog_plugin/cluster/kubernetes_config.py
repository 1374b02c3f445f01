# SPDX-License-Identifier: Apache-2.0
"""Which cluster, and as whom: a kubeconfig or the pod we run in, read by the ``kubernetes`` package.

Nothing here is for the event loop: files are read, and programs run that give credentials.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import logging
import os
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from covalent_joblog_plugin.model.errors import AuthenticationError, OptionError

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where every pod finds who it is."""
USUAL = "~/.kube/config"


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """Which cluster, and as whom.

    Attributes:
        kubeconfig: Its file; empty for ``KUBECONFIG``, the usual file, or the pod we run in.
        context: Context of that file; empty for the current one.
        namespace: Empty for the context's, or the pod's own.
    """

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """A way into a cluster.

    Attributes:
        host: URL of the API server.
        tls: How its certificate is verified, and ours.
        server_name: The name its certificate has to bear; None for that of the URL.
        proxy: URL; None where there is none.
        namespace: Where we work.
        service_account: Of the pod we run in; None outside of a cluster.
        source: Where this was found, in words.
    """

    host: str
    tls: ssl.SSLContext
    server_name: str | None
    proxy: str | None
    namespace: str
    service_account: str | None
    source: str
    _configuration: Any = field(repr=False)

    def headers(self) -> dict[str, str]:
        """Who we are; the package renews a token here that it knows to have expired, so not in the loop.

        Raises:
            AuthenticationError: It could not.
        """
        try:
            return _credentials(self._configuration)
        except Exception as error:  # noqa: BLE001 - of files, programs and web services, with secrets in it
            raise AuthenticationError(
                f"the credentials for {self.host} cannot be renewed: {_harmless(error)}; kubectl get pods "
                "tells whether they work"
            ) from None


def load(settings: KubernetesSettings) -> Access:
    """Read configuration and credentials.

    Raises:
        OptionError: There is no configuration, it cannot be read, or has no such context.
        AuthenticationError: It gives no credentials.
    """
    # Half a second, and only for those who use Kubernetes.
    from kubernetes import client, config  # noqa: PLC0415

    path = settings.kubeconfig or os.environ.get("KUBECONFIG") or USUAL
    if not settings.kubeconfig and not settings.context and _in_cluster() and not _exists(path):
        return _from_pod(settings, client.Configuration(), config)
    if not _exists(path):
        raise OptionError(
            f"kubeconfig: there is no file {_source(settings, path)}, and this is no pod of a cluster: give "
            "the executor kubeconfig=, or restart Covalent's server with KUBECONFIG in its environment"
        )
    try:
        return _from_file(settings, path, client.Configuration(), config)
    except (OptionError, AuthenticationError):
        raise
    except Exception as error:  # noqa: BLE001 - see below
        # Whatever a YAML file can hold: the package and its parser raise a dozen kinds of errors. Their texts
        # may show any part of the file, and so the chain is cut too.
        raise OptionError(
            f"kubeconfig {path}: {_harmless(error)}; look with: kubectl config get-contexts"
        ) from None


def _from_pod(settings: KubernetesSettings, configuration: Any, config: Any) -> Access:
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException as error:
        raise OptionError(
            f"{error} (looked for in {SERVICE_ACCOUNT}); give the executor kubeconfig="
        ) from error
    return _access(settings, configuration, _read("namespace"), None, "the pod's own account")


def _from_file(settings: KubernetesSettings, path: str, configuration: Any, config: Any) -> Access:
    merged = config.kube_config.KubeConfigMerger(path).config.value
    name = settings.context or merged.get("current-context") or ""
    contexts = {item.value["name"]: item.value["context"] for item in merged["contexts"]}
    if name not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        wanted = f"there is no context {name!r}" if name else "no context is current"
        raise OptionError(f"kubeconfig {path}: {wanted}; it has: {known}; give the executor context=")
    context = contexts[name]
    clusters = {item.value["name"]: item.value["cluster"] for item in merged["clusters"]}
    # Not persisted: the file is the user's.
    config.load_kube_config(path, context=name, client_configuration=configuration, persist_config=False)
    if context.get("user") and not configuration.cert_file and not _credentials(configuration):
        raise AuthenticationError(
            f"context {name} of kubeconfig {path} gave no credentials: if it runs a command for them (exec), "
            "try that command where Covalent's server runs"
        )
    if not configuration.verify_ssl:
        log.warning("kubeconfig %s, context %s: the cluster's certificate is not verified", path, name)
    proxy, source = clusters[context["cluster"]].get("proxy-url"), f"kubeconfig {_source(settings, path)}"
    return _access(settings, configuration, context.get("namespace") or "", proxy, source)


def _source(settings: KubernetesSettings, path: str) -> str:
    """A kubeconfig, and who named it: what counts is the environment of the server, not of the client."""
    if settings.kubeconfig:
        return path
    if os.environ.get("KUBECONFIG"):
        return f"{path} (KUBECONFIG as Covalent's server has it, not the client)"
    return f"{path} (Covalent's server has no KUBECONFIG in its environment)"


def _access(
    settings: KubernetesSettings, configuration: Any, namespace: str, proxy: str | None, source: str
) -> Access:
    host = configuration.host.rstrip("/")
    return Access(
        host=host,
        tls=_tls(configuration),
        server_name=getattr(configuration, "tls_server_name", None) or None,
        proxy=_proxy(host, proxy),
        namespace=settings.namespace or namespace or _read("namespace") or "default",
        service_account=_own_account(),
        source=source,
        _configuration=configuration,
    )


def _credentials(configuration: Any) -> dict[str, str]:
    settings = configuration.auth_settings().values()
    return {s["key"]: s["value"] for s in settings if s["in"] == "header" and s["value"]}


def _tls(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    # Authorities of clusters are often older than what Python 3.13 asks of their form.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.assert_hostname is False or not configuration.verify_ssl:
        context.check_hostname = False
    if not configuration.verify_ssl:
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    return context


def _proxy(host: str, given: str | None) -> str | None:
    """The kubeconfig's proxy, else the environment's.

    Not left to the ``kubernetes`` package, whose older versions know none, nor to aiohttp, which does not
    know networks in ``NO_PROXY``, as clusters have them.
    """
    proxies = getproxies_environment()
    url = urlsplit(host)
    proxy = given or (None if _bypassed(url.hostname or "", proxies) else proxies.get(url.scheme))
    if proxy and not proxy.startswith(("http://", "https://")):
        raise OptionError(f"the proxy of {host} is {urlsplit(proxy).scheme}: only HTTP proxies are supported")
    return proxy


def _bypassed(host: str, proxies: dict[str, str]) -> bool:
    if proxy_bypass(host):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for entry in proxies.get("no", "").split(","):
        try:
            if address in ipaddress.ip_network(entry.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False


def _exists(paths: str) -> bool:
    return any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path)


def _in_cluster() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").exists()


def _read(name: str) -> str:
    try:
        return (SERVICE_ACCOUNT / name).read_text().strip()
    except OSError:
        return ""


def _own_account() -> str | None:
    """Name of the pod's service account: its token is for ``system:serviceaccount:<namespace>:<name>``."""
    try:
        payload = _read("token").split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return str(claims["sub"]).rpartition(":")[2] or None
    except (IndexError, ValueError, KeyError):
        return None


def _harmless(error: Exception) -> str:
    """What can be told of an error whose text may show any part of the file."""
    if found := re.match(
        r"Invalid kube-config file\. Expected (?:key|object with name) ([\w-]+) ", str(error)
    ):
        return f"{found[1]} is missing in it"
    if isinstance(error, OSError):
        return f"{error.filename or 'a certificate in it'}: {error.strerror or error}"
    if mark := getattr(error, "problem_mark", None):
        return f"it is not YAML, see line {mark.line + 1}"
    return f"it cannot be used ({type(error).__name__})"
