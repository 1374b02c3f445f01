# SPDX-License-Identifier: Apache-2.0
"""``joblog doctor`` beside a real server and a real Slurm, and what it makes of what it finds."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING

import pytest

from covalent_joblog_plugin import SlurmJobLogExecutor
from covalent_joblog_plugin.cli import doctor_server, doctor_slurm, findings, server_process
from covalent_joblog_plugin.cli.findings import Level
from covalent_joblog_plugin.cli.server_process import ServerProcess
from tests.cli.left_jobs import run
from tests.executors.slurm_tasks import options
from tests.rigs.covalent_server import CovalentServer

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tests.rigs.slurm import SlurmRig


def examined(server: CovalentServer, *argv: str, status: int = 0) -> dict[str, dict[str, str]]:
    """The findings by what was looked at."""
    out, _ = run(server, "doctor", "-o", "json", *argv, status=status)
    return {found["check"]: found for found in map(json.loads, out.decode().splitlines())}


def set_options(rig: SlurmRig, workdir: Path, more: dict[str, Any] | None = None) -> list[str]:
    given = {name: value for name, value in options(rig, workdir).items() if name != "host"} | (more or {})
    return [word for name, value in given.items() for word in ("--set", f"{name}={json.dumps(value)}")]


def test_a_server_and_a_cluster_that_are_well(
    covalent_server: CovalentServer, slurm_rig: SlurmRig, tmp_path: Path
) -> None:
    workdir = tmp_path / "not" / "yet"
    found = examined(covalent_server, "--host", "127.0.0.1", *set_options(slurm_rig, workdir))
    assert {name for name, one in found.items() if one["level"] == "fault"} == set()
    for name in ("versions", "server", "plugin", "process", "ssh", "host key", "sbatch", "controller"):
        assert found[name]["level"] == "ok", found[name]
    assert f"process {covalent_server.pid}" in found["process"]["text"]
    assert found["sbatch"]["text"].startswith("slurm")
    assert socket.gethostname() in found["ssh"]["text"]
    assert "compute nodes may have another" in found["job's python"]["text"]
    assert f"{workdir}, to be made below {tmp_path}," in found["workdir"]["text"]
    assert not workdir.parent.exists()
    out, err = run(covalent_server, "doctor")
    assert out.decode().splitlines()[0].startswith(("ok       python ", "warning  python "))
    assert err == ""


@pytest.mark.parametrize(
    ("wrong", "check", "told", "step"),
    [
        ({"client_keys": "/nowhere/key"}, "ssh", "client_keys: /nowhere/key does not exist", ""),
        ({"slurm_path": "/nowhere", "sbatch_command": ["sbatchx"]}, "sbatchx", "not in PATH", "slurm_path"),
        ({"python": ["python9"]}, "job's python", "none that starts", "set python, modules or conda_env"),
        (
            {"workdir": "/etc/passwd/x"},
            "workdir",
            "cannot be made below /etc/passwd",
            "give the executor a workdir",
        ),
        ({"known_hosts": "/dev/null"}, "ssh", "host key of root@127.0.0.1", ""),
        ({"port": "many"}, "options", "port='many' must be a whole number", ""),
    ],
)
def test_what_is_wrong_with_a_cluster_is_said_with_what_to_do(
    covalent_server: CovalentServer,
    slurm_rig: SlurmRig,
    tmp_path: Path,
    wrong: dict[str, Any],
    check: str,
    told: str,
    step: str,
) -> None:
    status = 0 if check == "job's python" else 1
    argv = ["--host", "127.0.0.1", *set_options(slurm_rig, tmp_path, wrong)]
    found = examined(covalent_server, *argv, status=status)[check]
    assert found["level"] == ("warning" if check == "job's python" else "fault")
    assert told in found["text"]
    assert step in found["step"]


def test_without_a_server_it_says_so_and_looks_on(tmp_path: Path) -> None:
    server = CovalentServer(tmp_path / "server")
    found = examined(server, status=1)
    assert found["server"]["level"] == "fault"
    assert "covalent start --no-cluster" in found["server"]["text"]
    assert found["process"]["level"] == "unknown"
    assert found["versions"]["level"] == "ok"


def test_the_servers_environment_counts_and_not_the_shells(
    fresh_covalent_server: CovalentServer, tmp_path: Path
) -> None:
    server = fresh_covalent_server
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent"))
        agent.listen()
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text("{}")
        server.env |= {"SSH_AUTH_SOCK": str(tmp_path / "agent"), "KUBECONFIG": str(kubeconfig)}
        found = examined(server)
    assert "this shell has one and the server has not" in found["ssh agent"]["text"]
    assert found["KUBECONFIG"]["level"] == "warning"
    assert f"this shell {kubeconfig}" in found["KUBECONFIG"]["text"]
    # That file is the shell's: the server would not find it.
    assert "kubeconfig" not in found


def test_versions_that_do_not_go_together_are_named() -> None:
    known = {"covalent": "0.240.0", "fastapi": "0.132.0", "starlette": "1.0.0", "kubernetes": "37.0.2"}
    needed = ["covalent==0.240.*", "fastapi<0.132", "kubernetes>=28,!=37.0.2", "absent", "fsspec; extra=='s'"]
    found = findings.versions(needed, known.get)
    assert [one.level for one in found] == [Level.FAULT] * 4
    texts = [one.text for one in found]
    assert texts[0].startswith("fastapi 0.132.0 is installed, <0.132 is needed: with 0.132 or later every")
    assert "absent is not installed" in texts[2]
    assert found[1].step.startswith("pip install 'kubernetes!=37.0.2,>=28'")
    assert [
        one.level for one in findings.versions(["covalent==0.240.*"], {**known, "starlette": "0.5"}.get)
    ] == [Level.OK]


@pytest.mark.parametrize(
    ("addresses", "others", "told"),
    [
        (("127.0.0.1",), [], "nobody else is logged in"),
        (("127.0.0.1", "::1"), ["eve"], "eve can log in on this machine"),
        (("0.0.0.0",), [], "it listens on 0.0.0.0"),
        (("::",), [], "it listens on ::"),
    ],
)
def test_who_can_reach_the_server_is_told(addresses: tuple[str, ...], others: list[str], told: str) -> None:
    found = doctor_server.exposure(ServerProcess(1, "python", {}, addresses), others)
    assert told in found.text
    assert (found.level is Level.OK) is told.startswith("nobody")


def test_the_process_of_a_server_elsewhere_cannot_be_seen() -> None:
    assert doctor_server.process("http://elsewhere:48008") == (
        "the server runs on elsewhere, and its process is seen only there"
    )


def test_an_agent_that_is_gone_is_told_from_one_that_answers(tmp_path: Path) -> None:
    path = str(tmp_path / "agent")
    left = ServerProcess(1, "/usr/bin/python3", {"SSH_AUTH_SOCK": path}, ())
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(path)
        agent.listen()
        found = {one.check: one for one in doctor_server.reach(left, {"SSH_AUTH_SOCK": path})}
        assert found["ssh agent"].level is Level.OK
    found = {one.check: one for one in doctor_server.reach(left, {"SSH_AUTH_SOCK": path})}
    assert f"{path}, is gone" in found["ssh agent"].text


def test_the_environment_of_the_server_is_taken_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLY_HERE", "1")
    with server_process.environment_of(ServerProcess(1, "python", {"ONLY_THERE": "2"}, ())):
        assert dict(os.environ) == {"ONLY_THERE": "2"}
    assert os.environ["ONLY_HERE"] == "1"
    assert "ONLY_THERE" not in os.environ


def test_a_folder_of_the_login_node_alone_and_a_full_one_are_warned_of() -> None:
    done = {"exit": 0, "out": "slurm 24.05", "err": ""}
    folder = {"path": "/w", "exists": True, "below": "/w", "writable": True, "free": 1 << 40, "kind": "xfs"}
    seen = {"host": "login", "commands": {"sbatch": done}, "queue": done, "pythons": [], "workdir": folder}
    executor = SlurmJobLogExecutor(host="h", modules=["python"])

    def judged() -> dict[str, findings.Finding]:
        return {one.check: one for one in doctor_slurm.judged(executor, seen)}

    assert judged()["workdir"].level is Level.WARNING
    assert "unless they are login itself" in judged()["workdir"].step
    assert judged()["job's python"].level is Level.UNKNOWN
    folder["kind"] = "nfs4"
    assert judged()["workdir"].level is Level.OK
    folder["free"] = 5 << 20
    assert "5 MiB free" in judged()["workdir"].text
    seen["queue"] = {"exit": 1, "out": "", "err": "slurm_load_jobs error: Unable to contact\n"}
    assert "Unable to contact" in judged()["controller"].text
