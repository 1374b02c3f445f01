# SPDX-License-Identifier: Apache-2.0
"""A task whose text proves itself, and what is done to its job: for tests of jobs that do not simply run."""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.executors.kubeflow_tasks import Task
from tests.rigs.covalent_server import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.rigs.covalent_server import CovalentServer
    from tests.rigs.kubeflow import KubeflowRig

LINES = 200
VERSIONS = {"TrainJob": "trainer.kubeflow.org/v1alpha1", "PyTorchJob": "kubeflow.org/v1"}
# Each execution ends with the hash of what it had written, so that its text proves itself. Told to go, it
# writes on for a while, and then fails or returns as if it had done its work.
COUNTING = """
import hashlib, signal, sys, time
digest, told = hashlib.sha256(), []
signal.signal(signal.SIGTERM, lambda *_: told.append(time.monotonic()))
n = 0
while n < lines and not (told and time.monotonic() - told[0] > lingers):
    text = f"line {n}\\n"
    digest.update(text.encode())
    print(text, end="", flush=True)
    n += 1
    time.sleep(0.02)
print("sha256", digest.hexdigest(), flush=True)
if told and leave == "exit":
    sys.exit(3)
value = ["told to go" if told else "whole", n]
"""


def counting(
    server: CovalentServer,
    rig: KubeflowRig,
    *,
    leave: str = "exit",
    lines: int = LINES,
    lingers: float = 0,
    **options: Any,
) -> Task:
    """A task of that many lines, fifty a second, which goes on for ``lingers`` seconds when told to go."""
    return Task(server, rig, COUNTING, {"lines": lines, "leave": leave, "lingers": lingers}, **options)


def writes(task: Task, line: int = 60) -> None:
    """Wait until it has come so far."""
    task.seen(lambda text: b"line %d\n" % line in text, "it writes")


def executions(task: Task, stream: str = "stdout") -> list[bytes]:
    """The text of each execution, cut at the seams.

    Of a pod that is gone at once nothing may prove that its end was read: that may be said, and nothing else.
    """
    text, start, parts = task.text(stream), 0, []
    for seam in (seam for seam in task.seams() if seam["file"] == stream):
        if seam["seam"] == "incomplete":
            continue
        assert seam["seam"] == "restart", seam
        parts.append(text[start : seam["cursor"]])
        start = seam["cursor"]
    return [*parts, text[start:]]


def is_whole(text: bytes) -> bool:
    """Whether it is lines 0, 1, … and the hash of them."""
    lines, _, digest = text.rpartition(b"sha256 ")
    return lines == numbered(lines.count(b"\n")) and digest.decode() == f"{_sha256(lines)}\n"


def numbered(lines: int) -> bytes:
    """The first lines."""
    return b"".join(b"line %d\n" % n for n in range(lines))


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def suspend(task: Task, kind: str, *, value: bool) -> None:
    """What ``kubectl patch`` would do."""
    meta = {"name": task.job, "namespace": task.namespace}
    spec = {"runPolicy": {"suspend": value}} if kind == "PyTorchJob" else {"suspend": value}
    task.rig.apply({"apiVersion": VERSIONS[kind], "kind": kind, "metadata": meta, "spec": spec})


def is_suspended(job: dict[str, Any]) -> bool:
    """Whether it is to be suspended."""
    spec = job.get("spec") or {}
    return bool((spec.get("runPolicy") or spec).get("suspend"))


@contextlib.contextmanager
def admission(
    rig: KubeflowRig, namespace: str, change: Callable[[dict[str, Any]], None]
) -> Iterator[list[dict[str, Any]]]:
    """A mutating webhook for the jobs of a namespace, as queues and sites' policies have them.

    Args:
        rig: The cluster.
        namespace: Of the jobs.
        change: Changes the ``spec`` of a job that is being created.

    Yields:
        The requests so far, as the API server put them.
    """
    requests: list[dict[str, Any]] = []
    pki = rig.control_plane.authority.folder
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(requests, change))
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "hooks.crt", pki / "hooks.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever, name="admission")
    serving.start()
    name = f"admission-{namespace}"
    try:
        rig.apply(_configuration(name, namespace, server.server_port, (pki / "ca.crt").read_bytes()))
        _wait_until_asked(rig, namespace, requests)
        yield requests
    finally:
        rig.delete("MutatingWebhookConfiguration", name)
        server.shutdown()
        server.server_close()
        serving.join()


def _configuration(name: str, namespace: str, port: int, authority: bytes) -> dict[str, Any]:
    rule = {
        "operations": ["CREATE", "UPDATE"],
        "apiVersions": ["*"],
        "resources": ["trainjobs", "pytorchjobs"],
    }
    webhook = {
        "name": "admission.rig.test",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {
            "url": f"https://127.0.0.1:{port}/",
            "caBundle": base64.b64encode(authority).decode(),
        },
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{"apiGroups": ["trainer.kubeflow.org", "kubeflow.org"], **rule}],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }


def _wait_until_asked(rig: KubeflowRig, namespace: str, requests: list[dict[str, Any]]) -> None:
    """The API server hears of a new webhook a moment later."""
    runtime = rig.get("TrainingRuntime", "never", namespace)

    def asked() -> bool:
        rig.wait_for_runtime(runtime)  # by a dry run of a job
        return bool(requests)

    eventually(asked, 20, "the API server asks the webhook")
    requests.clear()


def _handler(
    requests: list[dict[str, Any]], change: Callable[[dict[str, Any]], None]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            requests.append(request)
            response = {"uid": request["uid"], "allowed": True}
            if request["operation"] == "CREATE":
                spec = copy.deepcopy(request["object"]["spec"])
                change(spec)
                patch = json.dumps([{"op": "replace", "path": "/spec", "value": spec}])
                response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch.encode()).decode()}
            body = json.dumps({**review, "request": None, "response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler
