# SPDX-License-Identifier: Apache-2.0
"""README's code runs as it stands, and its tables say what there is."""

import asyncio
import inspect
import itertools
import json
import re
import textwrap

import pytest

from covalent_joblog_plugin import SlurmJobLogExecutor
from tests.executors.slurm_tasks import Tasks, options
from tests.project.tracked import ROOT, tracked
from tests.rigs.covalent_server import CovalentServer, eventually

README = (ROOT / "README.md").read_text()
WORKFLOW, LOOK, READ, ON_KUBEFLOW, DIRECT, EXECUTOR = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def server(covalent_database, tmp_path):
    """A Covalent server that has README's executor in its ``executor_dir``."""
    server = CovalentServer(tmp_path / "server", covalent_database)
    (server.executor_dir / "scratch.py").write_text(EXECUTOR)
    yield server.start()
    server.close()


def test_the_workflow_runs_on_slurm_and_its_output_can_be_looked_at(server, slurm_rig):
    ssh = server.root / "home" / ".ssh"
    ssh.mkdir(mode=0o700)
    (ssh / "config").write_text(slurm_rig.ssh_config.read_text().replace("Host login", "Host mycluster"))
    dispatch_id, seen = server.client(
        f"{WORKFLOW}\nimport time\nseen, deadline = [''], time.time() + 60\n"
        "while seen[-1] != expected and time.time() < deadline:\n"
        f"    seen.append(({LOOK.strip()}) or '')\n    time.sleep(0.1)\nanswer = dispatch_id, seen",
        expected="epoch 0\nepoch 1\nepoch 2\n",
    )
    assert seen[-1] == "epoch 0\nepoch 1\nepoch 2\n"
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(seen))
    assert server.finished(dispatch_id) == "COMPLETED"
    read = server.client(
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as said:\n"
        f"{textwrap.indent(READ, '    ')}\nanswer = said.getvalue()",
        dispatch_id=dispatch_id,
    )
    labelled = "".join(f"[train] epoch {n}\n" for n in range(3))
    assert read == f"{labelled}\n{seen[-1]}"
    kept = server.results_dir / dispatch_id / "node_0" / "joblog" / "files" / "losses.csv"
    assert kept.read_text() == "0,1.0\n1,0.5\n2,0.3333333333333333\n"


def test_the_kubeflow_executor_takes_these_options():
    scope = {}
    exec(ON_KUBEFLOW, scope)
    scope["kubeflow"].check_options()


def test_a_job_is_shown_straight_from_the_cluster(covalent_server, slurm_rig, tmp_path, capsys):
    tasks = Tasks(covalent_server, slurm_rig, tmp_path, "print('from the cluster')", cleanup="never")
    tasks.completed()
    handle = json.loads(covalent_server.get(f"/api/v1/joblog/{tasks.id}/0").body)["job"]
    scope = {}
    exec(DIRECT, scope)
    executor = SlurmJobLogExecutor(**options(slurm_rig, tmp_path))
    asyncio.run(scope["show"](executor, handle, stream="stdout"))
    assert capsys.readouterr().out.endswith("from the cluster\n")


def test_the_executor_of_your_own_shows_what_its_task_writes(server, tmp_path):
    dispatch_id = server.client(
        """
import covalent as ct

@ct.electron(executor=ct.executor.ScratchExecutor(folder=folder, log_interval=0.1))
def task(folder):
    import os, time
    with open(f"{folder}/stdout.log", "w", buffering=1) as out:
        out.write("hello\\n")
        while not os.path.exists(f"{folder}/go"):
            time.sleep(0.02)
        out.write("good-bye\\n")

answer = ct.dispatch(ct.lattice(lambda folder: task(folder)))(folder)
""",
        folder=str(tmp_path),
    )

    def text():
        answer = server.get(f"/api/v0/files/{dispatch_id}/node_0/stdout.log")
        return answer.body if answer.status == 200 else b""

    eventually(lambda: text() == b"hello\n", 60, "the first line is read while the task runs")
    (tmp_path / "go").touch()
    assert server.finished(dispatch_id) == "COMPLETED"
    assert text() == b"hello\ngood-bye\n"


def listed(heading, until):
    """Options in the tables between two lines of the README."""
    part = README[README.index(heading) : README.index(until, README.index(heading))]
    rows = re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def taken(executor):
    parameters = inspect.signature(executor.__init__).parameters.values()
    return [p.name for p in parameters if p.name != "self" and p.kind is not p.VAR_KEYWORD]


@pytest.mark.parametrize(
    ("heading", "until", "executor"),
    [
        ("Every executor:", "`LocalJobLogExecutor`:", "JobLogExecutor"),
        ("`LocalJobLogExecutor`:", "`SlurmJobLogExecutor`, the way", "LocalJobLogExecutor"),
        ("`SlurmJobLogExecutor`, the way", "`KubeflowJobLogExecutor`, the way", "SlurmJobLogExecutor"),
        ("`KubeflowJobLogExecutor`, the way", "## Helper nodes", "KubeflowJobLogExecutor"),
    ],
)
def test_the_tables_list_every_option_once(heading, until, executor):
    import covalent_joblog_plugin

    there = taken(getattr(covalent_joblog_plugin, executor))
    assert sorted(listed(heading, until)) == sorted(there)


def test_the_make_targets_that_documents_name_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    spans = [
        span
        for path in tracked("*.md")
        for span in re.findall(r"`make ([a-z-]+)`|\$ make ([a-z-]+)", path.read_text())
    ]
    named = {name for span in spans for name in span if name}
    assert {"demo", "test"} <= named <= targets
