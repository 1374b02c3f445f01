# SPDX-License-Identifier: Apache-2.0
"""A view of the file system for the rig's node: what it mounts and writes at fixed places ends with it.

containerd, the kubelet and the controllers write below ``/run``, ``/var`` and ``/tmp`` whatever their options
say, and the kubelet sets kernel options of the whole machine. In a mount namespace of their own they touch
nobody else, and two rigs do not meet.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.rigs.daemons import alive, until

from .errors import RigError

if TYPE_CHECKING:
    from tests.rigs.daemons import Daemons

HOLDER = "mounts"
# Kernel options of the machine which the kubelet would set, with the values it wants to see.
KERNEL_OPTIONS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# $1 the rig's folder, $2 the cache, $3 the Python whose packages tests mount into pods: all stay visible,
# wherever they are. Descriptors outlive the covering of their names, which mount would else look up
# (--no-canonicalize). Training Operator looks for its certificate at one fixed place.
SCRIPT = """\
set -eu
exec 7<"$3" 8<"$1" 9<"$2"
for place in /run /tmp /var/lib /var/log; do mount -t tmpfs rig "$place"; done
mkdir -p "$1" "$2" "$3"
mount --no-canonicalize --bind /proc/self/fd/7 "$3"
mount --no-canonicalize --bind /proc/self/fd/8 "$1"
mount --no-canonicalize --bind /proc/self/fd/9 "$2"
mkdir -p /tmp/k8s-webhook-server
ln -s "$1/serving-certs" /tmp/k8s-webhook-server/serving-certs
cd "$1/kernel"
find . -type f | while read -r option; do mount --bind "$option" "/proc/sys/$option"; done
touch "$1/mounts.ready"
exec sleep infinity
"""


class Mounts:
    """The mount namespace of one rig, held by a process that sleeps."""

    def __init__(self, folder: Path, cache: Path, daemons: Daemons) -> None:
        self._folder = folder
        self._cache = cache
        self._daemons = daemons

    def start(self) -> None:
        """Make the namespace."""
        for option, value in KERNEL_OPTIONS.items():
            if Path("/proc/sys", option).exists():
                path = self._folder / "kernel" / option
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{value}\n")
        script = ["sh", "-c", SCRIPT, "sh", str(self._folder), str(self._cache), sys.prefix]
        self._daemons.start(HOLDER, "unshare", "--mount", "--propagation", "private", "--", *script)
        ready = self._folder / "mounts.ready"
        until(lambda: ready.exists() or self._daemons.pid(HOLDER) is None, "the mount namespace is made")
        if not ready.exists():
            said = (self._folder / "log" / f"{HOLDER}.out").read_text().strip()
            raise RigError(f"no mount namespace, which the rig needs the rights of root for: {said}")

    def inside(self, *argv: str) -> list[str]:
        """The command line that runs ``argv`` in the namespace, as the same process."""
        return ["nsenter", f"--mount=/proc/{self._daemons.pid(HOLDER)}/ns/mnt", "--", *argv]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the namespace and return what it said."""
        return subprocess.run(self.inside(*argv), capture_output=True, text=True, check=False)

    def processes(self) -> list[int]:
        """Ids of all processes that see this namespace, without the one that holds it."""
        holder = self._daemons.pid(HOLDER)
        if holder is None:
            return []
        own = Path(f"/proc/{holder}/ns/mnt").stat().st_ino
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (path / "ns" / "mnt").stat().st_ino == own:
                    found.append(int(path.name))
        return [pid for pid in found if pid != holder]

    def stop(self) -> None:
        """Kill every process in the namespace; with the last one all that was mounted is gone."""
        while pids := [pid for pid in self.processes() if alive(pid)]:
            kill(pids)
        if holder := self._daemons.pid(HOLDER):
            kill([holder])


def kill(pids: list[int]) -> None:
    """End processes by force and wait until they are gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in pids), f"{pids} are gone")
