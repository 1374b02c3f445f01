# SPDX-License-Identifier: Apache-2.0
"""The pods' network: one bridge, whose address is the node's; nothing leads out of it."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from .errors import RigError

if TYPE_CHECKING:
    from pathlib import Path

# The kubelet refuses a loopback address for its node, and not every kernel has dummy links: a bridge serves.
PREFIX = "joblog-rig"
CNI_PLUGINS = "/usr/lib/cni"


class Network:
    """A bridge ``joblog-rigN`` with 10.213.N.0/24, N being the first that nobody uses."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._record = folder / "network"

    @property
    def number(self) -> int:
        """N of this rig; 0 when there is no network."""
        try:
            return int(self._record.read_text())
        except FileNotFoundError:
            return 0

    @property
    def bridge(self) -> str:
        """Name of the bridge."""
        return f"{PREFIX}{self.number}"

    @property
    def node_address(self) -> str:
        """The node's address, which is the bridge's."""
        return f"10.213.{self.number}.1"

    def start(self) -> None:
        """Make the bridge and the configuration the container runtime reads."""
        for number in range(1, 255):
            if _ip("-o", "addr", "show", "to", f"10.213.{number}.0/24").stdout:
                continue
            # Two rigs that start together cannot both make the same link.
            done = _ip("link", "add", f"{PREFIX}{number}", "type", "bridge")
            if done.returncode == 0:
                self._record.write_text(str(number))
                break
            if "File exists" not in done.stderr:
                raise RigError(f"no bridge for the pods: ip link add: {done.stderr.strip()}")
        else:
            raise RigError(f"all of 10.213.1-254.0/24 are in use: remove links {PREFIX}* that no rig owns")
        for argv in (
            ("addr", "add", f"{self.node_address}/24", "dev", self.bridge),
            ("link", "set", self.bridge, "up"),
        ):
            done = _ip(*argv)
            if done.returncode:
                raise RigError(f"ip {' '.join(argv)}: {done.stderr.strip()}")
        self._write_plugins()

    def _write_plugins(self) -> None:
        # isGateway would switch on forwarding for the whole machine; pods need each other and the node only.
        ranges = [[{"subnet": f"10.213.{self.number}.0/24", "gateway": self.node_address}]]
        ipam = {"type": "host-local", "dataDir": str(self._folder / "ipam"), "ranges": ranges}
        bridge = {"type": "bridge", "bridge": self.bridge, "isGateway": False, "ipMasq": False, "ipam": ipam}
        plugins = {"cniVersion": "0.4.0", "name": self.bridge, "plugins": [bridge, {"type": "loopback"}]}
        (self._folder / "cni").mkdir()
        (self._folder / "cni" / "10-rig.conflist").write_text(json.dumps(plugins))

    def stop(self) -> None:
        """Remove the bridge; the pods' ends of it went with their network namespaces."""
        if self.number:
            _ip("link", "del", self.bridge)


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    # iproute2's program may lie in /sbin, which is not in every root's PATH.
    return subprocess.run(
        ["ip", *arguments],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
