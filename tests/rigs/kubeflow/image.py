# SPDX-License-Identifier: Apache-2.0
"""The two images of the rig's pods, packed without a registry: Debian's Python, and a pause image."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from .errors import RigError, say
from .parts import cache, cache_lock, run_go

SUITE, PYTHON = "bookworm", (3, 11)
# Named on a host that cannot exist, so that nothing is ever asked of a registry.
PAUSE_IMAGE = "rig.test/pause:1"
PYTHON_IMAGE = f"rig.test/python:{PYTHON[0]}.{PYTHON[1]}"
# Debian's own folders that no Python needs.
LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists")
# Holds a pod's namespaces and does nothing else.
PAUSE = """\
package main

import "time"

func main() { time.Sleep(1 << 62) }
"""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def images() -> list[Path]:
    """The image archives, in the order they are to be imported."""
    return [cache() / "images" / f"{name}.tar" for name in ("pause", f"{SUITE}-python")]


def build_images() -> None:
    """Make the images that are missing; about a minute, 120 MB.

    Raises:
        RigError: the Python of this process is not that of the image, or a tool is missing or failed.
    """
    if sys.version_info[:2] != PYTHON:
        mine, theirs = (".".join(map(str, version)) for version in (sys.version_info[:2], PYTHON))
        raise RigError(
            f"this process is Python {mine}, the pods of the rig have Python {theirs} of Debian {SUITE!r}:"
            f" what one pickles the other may not read. Make the virtual environment with python{theirs}"
        )
    if all(path.exists() for path in images()):
        return
    with cache_lock():
        (cache() / "images").mkdir(exist_ok=True)
        pause, python = images()
        if not pause.exists():
            _build_pause(pause)
        if not python.exists():
            _build_python(python)


def _build_pause(archive: Path) -> None:
    root = archive.with_name("pause.root")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    (root / "pause.go").write_text(PAUSE)
    run_go(root, "build", "-ldflags", "-s -w", "-o", "pause", "pause.go")
    pack(root, PAUSE_IMAGE, archive, ["/pause"])
    shutil.rmtree(root)


def _build_python(archive: Path) -> None:
    debootstrap = shutil.which("debootstrap", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if debootstrap is None:
        raise RigError("the Python image is made by it: apt-get install --no-install-recommends debootstrap")
    root = archive.with_name("python.root")
    shutil.rmtree(root, ignore_errors=True)
    began = time.monotonic()
    say(f"fetching Debian {SUITE!r} with its Python for the pods")
    argv = [debootstrap, "--variant=minbase", "--include=python3", SUITE, str(root), _mirror()]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-10:])
        raise RigError(f"debootstrap exited {done.returncode}; its log is below {root}:\n{tail}")
    for folder in LEFT_OUT:
        shutil.rmtree(root / folder, ignore_errors=True)
    pack(root, PYTHON_IMAGE, archive, ["/usr/bin/python3"])
    shutil.rmtree(root)
    say(f"made {PYTHON_IMAGE} in {time.monotonic() - began:.0f} s")


def _mirror() -> str:
    """The Debian mirror this machine uses itself."""
    for path in [*sorted(Path("/etc/apt/sources.list.d").glob("*.sources")), Path("/etc/apt/sources.list")]:
        text = path.read_text() if path.exists() else ""
        found = re.search(r"^(?:URIs:|deb(?: \[.*\])?)\s+(http\S+/debian/?)(?:\s|$)", text, re.MULTILINE)
        if found:
            return found[1]
    raise RigError("no Debian mirror is named in /etc/apt: the Python image can be made on Debian only")


def pack(root: Path, name: str, archive: Path, command: list[str]) -> None:
    """Pack a root file system as the kind of archive that ``ctr images import`` takes."""
    layer_path = archive.with_suffix(".layer")
    with tarfile.open(layer_path, "w") as layer_file:
        layer_file.add(root, arcname=".")
    with layer_path.open("rb") as stream:
        layer = hashlib.file_digest(stream, "sha256").hexdigest()
    path = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Cmd": command, "Env": [path]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
        "history": [{"created_by": "joblog rig"}],
    }
    text = json.dumps(config).encode()
    digest = hashlib.sha256(text).hexdigest()
    manifest = [{"Config": f"{digest}.json", "RepoTags": [name], "Layers": [f"{layer}/layer.tar"]}]
    partial = archive.with_suffix(".partial")
    with tarfile.open(partial, "w") as out:
        for member, data in ((f"{digest}.json", text), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
        out.add(layer_path, arcname=f"{layer}/layer.tar")
    layer_path.unlink()
    partial.rename(archive)
