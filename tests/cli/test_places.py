# SPDX-License-Identifier: Apache-2.0
"""Commands to look by hand: a shell takes the words as they are, and no terminal acts on them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalent_joblog_plugin.cli.places import joined, place_of
from covalent_joblog_plugin.model.capabilities import Capabilities
from covalent_joblog_plugin.reading.answers import NodeInfo, SourceState
from covalent_joblog_plugin.text.terminal import safe

NODE = NodeInfo(
    "d", 0, "train", "RUNNING", "joblog_slurm", None, "live", True, "", "", None, Capabilities(), [], None
)
JOB = {"name": "train-1f", "dir": "/scratch/a b", "id": 7, "host": "n1"}
ECHO = (
    "import json, os, sys; print(json.dumps([os.fsencode(word).decode('latin-1') for word in sys.argv[1:]]))"
)
words = st.lists(
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)
    | st.sampled_from(
        ["a'; touch pwned; '", "$(id)", "two words", "-rf", "new\nline", "~x", "日本", "\x1b[2J'\\n"]
    ),
    min_size=1,
    max_size=4,
)


def taken(command: str) -> list[bytes]:
    """The words that bash makes of a command's."""
    argv = ["bash", "-c", f'"{sys.executable}" -S -c "$0" {command}', ECHO]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return [word.encode("latin-1") for word in json.loads(done.stdout)]


@settings(max_examples=40)
@given(words)
def test_a_shell_takes_the_words_as_they_are_and_a_terminal_shows_them(argv: list[str]) -> None:
    command = joined(argv)
    assert safe(command) == command
    assert taken(command) == [word.encode() for word in argv]


@settings(max_examples=40)
@given(words)
def test_so_does_the_shell_that_ssh_starts(argv: list[str]) -> None:
    """ssh joins its arguments with spaces and hands them to the login shell there."""
    command = joined(["ssh", "host", joined(argv)])
    assert safe(command) == command
    (inner,) = taken(command.removeprefix("ssh host "))
    assert taken(inner.decode()) == [word.encode() for word in argv]


def place(node: NodeInfo, **options: Any) -> Any:
    return place_of(node, options)


def test_a_slurm_job_is_looked_for_by_the_way_its_executor_takes() -> None:
    options: dict[str, Any] = {"host": "login", "port": 2222, "username": "me", "client_keys": ["/k y"]}
    options |= {
        "ssh_config": False,
        "known_hosts": ["/known"],
        "jump_host": "gate",
        "slurm_path": "/opt/slurm/bin/",
    }
    reading = SourceState(1.0, "", {"stdout": "/scratch/a b/x000/stdout"})
    there = place(replace(NODE, job=JOB, reading=reading), **options)
    ssh = "ssh -F none -o UserKnownHostsFile=/known -p 2222 -i '/k y' -J gate me@login "
    assert (there.host, there.job, there.folder) == ("n1 via login", "Slurm job 7 (train-1f)", "/scratch/a b")
    assert there.commands["end it"] == f"{ssh}'/opt/slurm/bin/scancel 7'"
    tail = there.commands["follow stdout"].removeprefix(ssh)
    assert taken(taken(tail)[0].decode()) == [b"tail", b"-F", b"/scratch/a b/x000/stdout"]


def test_before_a_slurm_job_is_submitted_only_its_name_is_known() -> None:
    waits = replace(NODE, job={"name": "train-1f", "dir": "~/covalent-joblog/d/0-1f", "id": None})
    there = place(waits, host="login")
    assert (there.host, there.job, dict(there.commands)) == ("login", "train-1f", {})


@pytest.mark.parametrize(
    ("kind", "pods"),
    [
        ("TrainJob", "jobset.sigs.k8s.io/jobset-name=train-1f"),
        ("PyTorchJob", "training.kubeflow.org/job-name=train-1f"),
    ],
)
def test_a_kubeflow_job_is_looked_for_with_kubectl(kind: str, pods: str) -> None:
    job = {"kind": kind, "namespace": "team", "name": "train-1f", "num_nodes": 2}
    there = place(replace(NODE, executor="joblog_kubeflow", job=job), context="big one")
    kubectl = "kubectl --context 'big one' --namespace team"
    assert there.commands["its pods"] == f"{kubectl} get pods -o wide -l {pods}"
    assert there.commands["end it"].startswith(f"{kubectl} delete {kind.lower()}s.")
    assert (there.host, there.job) == ("namespace team", f"{kind} train-1f")


def test_what_has_ended_is_not_to_be_ended() -> None:
    """A process id may be somebody else's by then."""
    local = replace(NODE, executor="joblog_local", job={"pid": 7, "folder": "/tmp/x"})
    assert "end it" in place(local).commands
    assert place(replace(local, status="COMPLETED")).commands == {}


def test_of_an_unknown_executor_the_host_is_shown_if_it_has_one() -> None:
    assert place(replace(NODE, executor="ssh"), host="far").host == "far"
