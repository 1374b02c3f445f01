# SPDX-License-Identifier: Apache-2.0
"""The programs the rig consists of, built from their Go modules into a folder of the user's cache.

``~/.cache/joblog-rig/<name>-<version>/`` (or below ``$XDG_CACHE_HOME``) holds ``bin/`` and ``manifests/`` of
one part; it appears under that name only when it is complete. The first build takes about fifteen minutes on
two cores.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import RigError, say

if TYPE_CHECKING:
    from collections.abc import Iterator

KUBERNETES = "1.34.4"
# Kubeflow Trainer with the JobSet it was released with: the oldest and the newest pair the tests run on.
PAIRS = {"2.1.0": "0.10.1", "2.3.0": "0.12.0"}
GO = "1.26.0"
GO_HINT = (
    "install Go 1.26 or later, as https://go.dev/doc/install says, so that it is in PATH or in /usr/local/go"
)
# Kubernetes' own go.mod asks for version 0.0.0 of the modules it is released together with.
STAGING = [
    "api",
    "apiextensions-apiserver",
    "apimachinery",
    "apiserver",
    "cli-runtime",
    "client-go",
    "cloud-provider",
    "cluster-bootstrap",
    "code-generator",
    "component-base",
    "component-helpers",
    "controller-manager",
    "cri-api",
    "cri-client",
    "csi-translation-lib",
    "dynamic-resource-allocation",
    "endpointslice",
    "externaljwt",
    "kms",
    "kube-aggregator",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "metrics",
    "mount-utils",
    "pod-security-admission",
    "sample-apiserver",
    "sample-cli-plugin",
    "sample-controller",
]


@dataclass(frozen=True)
class Part:
    """One Go module: ``programs`` maps names to packages, ``manifests`` are folders in the module."""

    name: str
    version: str
    module: str
    programs: dict[str, str]
    manifests: tuple[str, ...] = ()
    go_mod: str = ""
    linker_flags: str = "-s -w"

    @property
    def folder(self) -> Path:
        """Where it is once it is built."""
        return cache() / f"{self.name}-{self.version}"


def kubernetes() -> Part:
    """The four programs of Kubernetes the rig starts."""
    minor = KUBERNETES.split(".")[1]
    replaced = "\n".join(f"replace k8s.io/{m} => k8s.io/{m} v0.{KUBERNETES[2:]}" for m in STAGING)
    version = "k8s.io/component-base/version"
    stamp = f"-X {version}.gitVersion=v{KUBERNETES} -X {version}.gitMajor=1 -X {version}.gitMinor={minor}"
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
    programs = {name: f"k8s.io/kubernetes/cmd/{name}" for name in names}
    flags = f"-s -w {stamp}"
    return Part("kubernetes", KUBERNETES, "k8s.io/kubernetes", programs, (), replaced, flags)


def etcd() -> Part:
    """The store of Kubernetes."""
    module = "go.etcd.io/etcd/server/v3"
    return Part("etcd", "3.6.16", module, {"etcd": module})


def jobset(version: str) -> Part:
    """JobSet, which Trainer starts its jobs with."""
    module, components = "sigs.k8s.io/jobset", "config/components"
    return Part(
        "jobset", version, module, {"jobset": module}, (f"{components}/crd/bases", f"{components}/webhook")
    )


def trainer(version: str) -> Part:
    """Kubeflow Trainer: TrainJobs."""
    module = "github.com/kubeflow/trainer/v2"
    programs = {"trainer": f"{module}/cmd/trainer-controller-manager"}
    return Part("trainer", version, module, programs, ("manifests/base/crds", "manifests/base/webhook"))


def training_operator() -> Part:
    """Training Operator v1: PyTorchJobs."""
    module = "github.com/kubeflow/training-operator"
    programs = {"training-operator": f"{module}/cmd/training-operator.v1"}
    folders = ("manifests/base/crds", "manifests/base/webhook")
    return Part("training-operator", "1.9.0", module, programs, folders)


def all_parts() -> list[Part]:
    """Everything the tests start."""
    pairs = [part for version, jobs in PAIRS.items() for part in (jobset(jobs), trainer(version))]
    return [kubernetes(), etcd(), *pairs, training_operator()]


def cache() -> Path:
    """The folder of what is built once."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "joblog-rig"


@contextlib.contextmanager
def cache_lock() -> Iterator[None]:
    """Let one process at a time write to the cache; the others wait and find it full."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is filling {cache()}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(parts: list[Part]) -> None:
    """Build what is missing.

    Raises:
        RigError: there is no usable Go, or a build failed.
    """
    if all(part.folder.exists() for part in parts):
        return
    with cache_lock():
        for part in parts:
            if not part.folder.exists():
                _build(part)


def _build(part: Part) -> None:
    work = part.folder.with_name(part.folder.name + ".partial")
    shutil.rmtree(work, ignore_errors=True)
    (work / "bin").mkdir(parents=True)
    requirement = f"module rig.test/{part.name}\ngo {GO}\nrequire {part.module} v{part.version}\n"
    (work / "go.mod").write_text(requirement + part.go_mod + "\n")
    for name, package in part.programs.items():
        began = time.monotonic()
        say(f"building {name} {part.version} from Go modules")
        # -mod=mod: requirements and checksums of what is imported are added to go.mod as they are met.
        options = ["-mod=mod", "-trimpath", "-buildvcs=false", "-ldflags", part.linker_flags]
        run_go(work, "build", *options, "-o", f"bin/{name}", package)
        say(f"built {name} {part.version} in {time.monotonic() - began:.0f} s")
    source = Path(run_go(work, "list", "-mod=mod", "-m", "-f", "{{.Dir}}", part.module).strip())
    for folder in part.manifests:
        # The module cache is read-only: copied without its modes, so that the copy can be removed again.
        target = work / "manifests" / ("crds" if "crd" in folder else "webhook")
        shutil.copytree(source / folder, target, copy_function=shutil.copyfile)
        for path in (target, *target.rglob("*/")):
            path.chmod(0o755)
    work.rename(part.folder)


def run_go(folder: Path, *arguments: str) -> str:
    """Run the go command in a folder and return what it said.

    Raises:
        RigError: there is no usable Go, or it failed.
    """
    # GOTOOLCHAIN: an older Go fetches the one that go.mod asks for, also where Debian has set that off.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "auto", "GOWORK": "off"}
    done = subprocess.run(
        [_go(), *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise RigError(f"go {' '.join(arguments)} in {folder} exited {done.returncode}:\n{tail}")
    return done.stdout


def _go() -> str:
    found = shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin")
    if found is None:
        raise RigError(f"the Kubeflow rig is built from Go modules and there is no go here: {GO_HINT}")
    said = subprocess.run([found, "version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"go(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < (1, 21):
        raise RigError(
            f"{found} is {said.strip()!r}; 1.21 is the first that fetches what is asked for: {GO_HINT}"
        )
    return found
