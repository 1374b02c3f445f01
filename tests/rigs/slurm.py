# SPDX-License-Identifier: Apache-2.0
"""A real one-node Slurm and an sshd, "the login node", on 127.0.0.1, all of it below one folder.

By hand: ``python -m tests.rigs.slurm up`` prints what to export, ``python -m tests.rigs.slurm down`` ends it.
Debian, as root: slurmd starts jobs and sshd logs users in.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .daemons import Daemons, descendants, until
from .ports import free_ports
from .slurm_config import SLURM_CONF, SSH_CONFIG, SSHD_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

BY_HAND = Path(tempfile.gettempdir()) / "joblog-rig-slurm"
INSTALL = (
    "apt-get install --no-install-recommends "
    "slurmctld slurmd slurm-client munge openssh-server openssh-client"
)


class SlurmRig:
    """munged, slurmctld, slurmd and sshd with all their files below ``folder``.

    Several may run side by side. ``home`` is the home of ssh sessions: a ``.bashrc`` there makes login noise.
    """

    def __init__(self, folder: Path, *, cpus: int = 64) -> None:
        self.folder = folder
        self.cpus = cpus
        self.daemons = Daemons(folder)
        self.conf = folder / "etc" / "slurm.conf"
        self.home = folder / "home"
        self.client_key = folder / "ssh" / "client_key"
        self.known_hosts = folder / "ssh" / "known_hosts"
        self.ssh_config = folder / "ssh" / "config"
        self.ssh_port = 0

    def start(self) -> SlurmRig:
        """Start everything; returns when a first job has ended and ssh answers."""
        if os.getuid() != 0:
            raise RuntimeError("the Slurm rig must run as root: slurmd starts jobs and sshd logs users in")
        for tool in ("munged", "slurmctld", "slurmd", "sbatch", "sshd", "ssh", "ssh-keygen"):
            self._tool(tool)
        for name in ("etc", "log", "munge", "state", "spool", "ssh", "home"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "ssh").chmod(0o700)
        try:
            self._start_all()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End what was started, the jobs and sessions with it, and remove the folder.

        The daemons go first: scancel would take up to 10 s, and for ever with the controller gone.
        """
        self.daemons.stop("slurmctld")
        self.daemons.stop("slurmd")
        self.daemons.kill(self._steps())
        self.stop_sshd()
        self.daemons.stop("munged")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_all(self) -> None:
        ctld_port, slurmd_port, self.ssh_port = free_ports(3)
        host = socket.gethostname().split(".")[0]
        fields = {"folder": self.folder, "host": host, "cpus": self.cpus, "ssh_port": self.ssh_port}
        fields |= {"ctld_port": ctld_port, "slurmd_port": slurmd_port}
        self.conf.write_text(SLURM_CONF.format(**fields))
        self._start_munged()
        self.start_slurmctld()
        self.daemons.start("slurmd", self._tool("slurmd"), "-D", "-N", "node1", "-f", str(self.conf))
        until(lambda: self._node_state() == "idle", "slurmd is idle")
        self._make_keys(fields)
        self.start_sshd()
        # The first scheduler round comes 3 s after the controller started, whatever its settings.
        self.slurm("sbatch", "-Q", "-o", "/dev/null", "--wrap", "true")
        until(lambda: not self.slurm("squeue", "-h").strip(), "the first job ended")

    def _start_munged(self) -> None:
        munge = self.folder / "munge"
        (munge / "key").touch(mode=0o600)
        (munge / "key").write_bytes(secrets.token_bytes(1024))
        # --force: munged else refuses a socket that not every user can reach.
        options = ["--foreground", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket"]
        options += [f"--pid-file={munge}/pid", f"--seed-file={munge}/seed"]
        options += [f"--log-file={self.folder}/log/munged.log"]
        self.daemons.start("munged", self._tool("munged"), *options)
        until(lambda: self._succeeds("munge", "-n", "-S", f"{munge}/socket"), "munged answers")

    def _make_keys(self, fields: dict[str, object]) -> None:
        ssh = self.folder / "ssh"
        for name in ("host_key", "client_key"):
            make_key(ssh / name)
        shutil.copy(ssh / "client_key.pub", ssh / "authorized_keys")
        # Written from the host key itself, so that nobody needs to switch checking off.
        host_key = (ssh / "host_key.pub").read_text().split()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.ssh_port} {host_key[0]} {host_key[1]}\n")
        (ssh / "sshd_config").write_text(SSHD_CONFIG.format(**fields))
        self.ssh_config.write_text(SSH_CONFIG.format(**fields))

    @property
    def environment(self) -> dict[str, str]:
        """Environment for Slurm's commands."""
        own = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SQUEUE_"))}
        return own | {"SLURM_CONF": str(self.conf)}

    def slurm(self, *argv: str) -> str:
        """Run one of Slurm's commands and return its stdout; a failure raises with its stderr."""
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv)} exited {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def jobs(self) -> dict[int, str]:
        """Every job the controller still knows, with its state."""
        lines = self.slurm("squeue", "-h", "-t", "all", "-o", "%i %T").splitlines()
        return {int(line.split()[0]): line.split()[1] for line in lines}

    def requeue(self, job: int) -> None:
        """Requeue a running job and start it again without Slurm's two minutes of waiting."""
        self.slurm("scontrol", "requeue", str(job))
        until(lambda: self.jobs()[job] == "PENDING", f"job {job} is pending again")
        # In the second in which slurmd killed the job it refuses to start it again, and the job FAILED.
        self.slurm("scontrol", "update", f"JobId={job}", "StartTime=now+2")

    def start_slurmctld(self) -> None:
        """Start the controller; it goes on with the jobs it knew."""
        self.daemons.start("slurmctld", self._tool("slurmctld"), "-D", "-f", str(self.conf))
        until(lambda: self._succeeds("scontrol", "ping"), "slurmctld answers")
        if self.daemons.pid("slurmd"):
            # Until slurmd has told a restarted controller that it is there, jobs wait for the node.
            until(lambda: self._node_state() in {"idle", "mixed", "allocated"}, "the node is back")

    def _node_state(self) -> str:
        return self.slurm("sinfo", "-h", "-o", "%T").strip()

    def stop_slurmctld(self) -> None:
        """Stop the controller; jobs go on."""
        self.daemons.stop("slurmctld")

    def _steps(self) -> list[int]:
        # slurmstepd daemonizes, so no id of it is recorded: ours name our configuration in their environment.
        mark = f"SLURM_CONF={self.conf}".encode()
        return [p for p in self.daemons.running("slurmstepd") if mark in self.daemons.environ_of(p)]

    def start_sshd(self) -> None:
        """Start sshd on the rig's port."""
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd insists on it, whatever its configuration
        log = self.folder / "log" / "sshd.log"
        config = self.folder / "ssh" / "sshd_config"
        self.daemons.start("sshd", self._tool("sshd"), "-D", "-f", str(config), "-E", str(log))
        until(lambda: self._succeeds("ssh", "-F", str(self.ssh_config), "login", "true"), "sshd answers")

    def stop_sshd(self) -> None:
        """Stop sshd and end all open sessions with their commands; they would survive it."""
        sessions = self.ssh_sessions()
        self.daemons.stop("sshd")
        self.daemons.kill(sessions)

    def ssh_sessions(self) -> list[int]:
        """Process ids of the open connections' server processes; their commands are below them."""
        return self.daemons.children("sshd")

    def cut_connections(self) -> None:
        """Kill the server process of every open connection, then its commands; sshd itself lives on."""
        self.daemons.kill(self.ssh_sessions())

    def find_command(self, word: str) -> list[int]:
        """Process ids of commands of ssh sessions whose command line holds ``word``."""
        below = [p for session in self.ssh_sessions() for p in descendants(session) if p != session]
        return [p for p in below if word.encode() in self.daemons.cmdline_of(p)]

    def connections(self) -> int:
        """How many connections sshd has accepted so far."""
        return self._sshd_log().count(b"Accepted publickey")

    def commands(self) -> int:
        """How many remote commands sshd has started so far."""
        return self._sshd_log().count(b"Starting session: command")

    def _sshd_log(self) -> bytes:
        return (self.folder / "log" / "sshd.log").read_bytes()

    def _tool(self, name: str) -> str:
        # /usr/sbin is not in every root's PATH, and sshd must be called by its absolute name anyway.
        found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if found is None:
            raise RuntimeError(f"the Slurm rig needs {name}: {INSTALL}")
        return found

    def _succeeds(self, *argv: str) -> bool:
        done = subprocess.run(argv, env=self.environment, capture_output=True, check=False)
        return done.returncode == 0


def make_key(path: Path) -> None:
    """Write an ed25519 key pair without passphrase."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(argv, check=True)


@pytest.fixture(scope="session")
def slurm_rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmRig]:
    """One Slurm for the whole test run."""
    rig = SlurmRig(tmp_path_factory.mktemp("slurm-rig"))
    rig.start()
    yield rig
    rig.stop()


def main(argv: list[str]) -> int:
    """Start or stop the rig for work by hand."""
    rig = SlurmRig(BY_HAND)
    if argv == ["up"]:
        if BY_HAND.exists():
            sys.stderr.write(f"{BY_HAND} is there already; end it with: python -m tests.rigs.slurm down\n")
            return 1
        began = time.monotonic()
        rig.start()
        sys.stdout.write(
            f"# up in {time.monotonic() - began:.1f} s; down: python -m tests.rigs.slurm down\n"
            f"export SLURM_CONF={rig.conf}\n"
            f"# ssh -F {rig.ssh_config} login   (127.0.0.1:{rig.ssh_port})\n"
        )
        return 0
    if argv == ["down"]:
        rig.stop()
        return 0
    sys.stderr.write("use: python -m tests.rigs.slurm up|down\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
