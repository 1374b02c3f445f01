# SPDX-License-Identifier: Apache-2.0
"""Submitting jobs to a real Slurm, whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from covalent_joblog_plugin.cluster import far_side, pauses, slurm
from covalent_joblog_plugin.model.errors import SubmissionError, TransportError
from tests.cluster.slurm_jobs import spec, submitted
from tests.rigs.daemons import until
from tests.rigs.ports import free_ports

pytestmark = pytest.mark.slurm


@pytest.fixture(autouse=True)
def short_back_off(monkeypatch):
    monkeypatch.setattr(pauses, "LAST_BACKOFF", 0.5)


@pytest.fixture
def wrapper(tmp_path):
    """Writes a script that stands in for sbatch, as sites have them; ``$REAL`` is the real one."""

    def write(text):
        path = tmp_path / "sbatch-wrapper"
        path.write_text(f"#!/bin/bash\nREAL=sbatch\n{text}\n")
        path.chmod(0o755)
        return (str(path),)

    return write


def modes(*folders):
    """(whether a folder, mode) of everything in some folders, themselves included."""
    found = [path for folder in folders for path in [folder, *folder.rglob("*")]]
    return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in found}


def jobs_named(rig, name):
    return rig.slurm("squeue", "-h", "-t", "all", "--name", name, "-o", "%i").split()


async def test_folder_files_and_job_are_made_in_one_command_for_the_user_alone(slurm_rig, cluster, tmp_path):
    before = slurm_rig.commands()
    job = await submitted(cluster, "print('ran in', __import__('os').getcwd())", tmp_path / "deep" / "down")
    assert slurm_rig.commands() == before + 1
    folder = Path(job.path)
    assert folder.is_relative_to(tmp_path / "deep" / "down" / "dispatch")
    await cluster.ended(job)
    assert modes(folder, tmp_path / "deep") == {(True, 0o700), (False, 0o600)}
    assert (folder / "x000" / "stdout").read_text() == f"ran in {folder}/work\n"
    assert (folder / "bundle").read_bytes() == b"bundle"
    assert (folder / "slurm.log").read_bytes() == b""


async def test_a_workdir_of_any_name_is_taken_as_it_is(slurm_rig, cluster, tmp_path):
    names = [
        "two words",
        "it's",
        '"q"',
        "$(touch pwned)",
        "a;touch pwned",
        "%j 100%",
        "日本",
        "-x",
        "~y",
        "*",
    ]

    async def runs(name):
        job = await submitted(cluster, "print('here')", f"{tmp_path}/{name}")
        end = await cluster.ended(job)
        assert (end.state, job.path.startswith(f"{tmp_path}/{name}/")) == ("COMPLETED", True), name
        assert (Path(job.path) / "x000" / "stdout").read_text() == "here\n"
        assert (Path(job.path) / "slurm.log").read_bytes() == b""

    await asyncio.gather(*map(runs, names))
    assert list(slurm_rig.folder.rglob("pwned")) + list(tmp_path.rglob("pwned")) == []


@pytest.mark.parametrize("label", ["", "λ", "a b;c $(x)", "-x", "../up", "x" * 200, "."])
async def test_an_electron_of_any_name_gives_a_job_name_that_slurm_takes(slurm_rig, cluster, tmp_path, label):
    job = await submitted(cluster, "", tmp_path, label=label)
    assert jobs_named(slurm_rig, job.name) == [str(job.job_id)]
    await cluster.ended(job)


async def test_a_workdir_may_begin_with_home_or_with_a_variable_of_the_login_shell(
    slurm_rig, cluster, tmp_path
):
    (slurm_rig.home / ".bash_profile").write_text(f"echo noise; export SCRATCH='{tmp_path}/scratch of me'\n")
    try:
        in_home = await submitted(cluster, "", "~/runs")
        relative = await submitted(cluster, "", "runs")
        in_scratch = await submitted(cluster, "", "$SCRATCH/runs")
        with pytest.raises(SubmissionError, match=r"\$NOWHERE is not set in the login shell"):
            await submitted(cluster, "", "$NOWHERE/runs")
        with pytest.raises(SubmissionError, match="there is no user nobody-of-that-name"):
            await submitted(cluster, "", "~nobody-of-that-name/runs")
        with pytest.raises(SubmissionError, match="is not the name of an environment variable"):
            await submitted(cluster, "", "$(touch pwned)/runs")
    finally:
        (slurm_rig.home / ".bash_profile").unlink()
    assert in_home.path.startswith(f"{slurm_rig.home}/runs/dispatch/0-")
    assert relative.path.startswith(f"{slurm_rig.home}/runs/dispatch/0-")
    assert in_scratch.path.startswith(f"{tmp_path}/scratch of me/runs/dispatch/0-")


def test_a_folder_that_a_clean_up_takes_away_meanwhile_is_made_again(tmp_path, monkeypatch):
    real, taken = os.mkdir, []
    program = {"__name__": "program"}

    def mkdir(path, mode):
        if path.endswith("node") and not taken:
            taken.append(Path(path).parent.rmdir())
        real(path, mode)

    monkeypatch.setattr(os, "mkdir", mkdir)
    exec(far_side.source(far_side.COMMANDS), program)
    program["make_folder"](f"{tmp_path}/dispatch/node")
    assert (tmp_path / "dispatch/node").is_dir()


async def test_a_workdir_that_cannot_be_made_is_named_and_nothing_is_submitted(slurm_rig, cluster, tmp_path):
    (tmp_path / "file").touch()
    job = cluster.prepare(spec("", tmp_path / "file" / "sub"))
    with pytest.raises(SubmissionError, match=r"Not a directory: '.*/file'"):
        await cluster.submit(job)
    assert jobs_named(slurm_rig, job.name) == []


async def test_what_sbatch_refuses_is_told_in_its_own_words(slurm_rig, cluster, tmp_path):
    job = cluster.prepare(spec("", tmp_path, sbatch_options=("--partition=nope",)))
    with pytest.raises(SubmissionError, match="invalid partition specified: nope"):
        await cluster.submit(job)
    assert jobs_named(slurm_rig, job.name) == []


async def test_a_missing_sbatch_is_told_with_what_to_set(make_cluster, tmp_path):
    cluster = make_cluster(sbatch_command=("no-such-sbatch",))
    with pytest.raises(SubmissionError, match=r"no-such-sbatch is not in PATH .* set slurm_path"):
        await submitted(cluster, "", tmp_path)


async def test_commands_only_the_login_shell_finds_are_found(slurm_rig, make_cluster, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "submit-here").symlink_to("/usr/bin/sbatch")
    (slurm_rig.home / ".bash_profile").write_text(f"export PATH={tools}:$PATH\n")
    try:
        job = await submitted(make_cluster(sbatch_command=("submit-here",)), "", tmp_path)
    finally:
        (slurm_rig.home / ".bash_profile").unlink()
    assert job.job_id in slurm_rig.jobs()


async def test_slurm_path_is_looked_in_first(make_cluster, tmp_path, wrapper):
    wrapper('exec $REAL "$@"')
    (tmp_path / "sbatch-wrapper").rename(tmp_path / "submit-there")
    cluster = make_cluster(sbatch_command=("submit-there",), slurm_path=str(tmp_path))
    assert (await submitted(cluster, "", tmp_path / "w")).job_id


@pytest.mark.parametrize(
    "text",
    [
        'echo "Welcome 2024"; $REAL "$@"; rc=$?; echo "42 credits left"; exit $rc',
        '[ "$1" = --parsable ] && { echo "unrecognized option --parsable" >&2; exit 2; }; $REAL "$@"',
        'id=$($REAL "$@"); echo "$id;cluster1"',
    ],
)
async def test_the_job_id_is_found_in_what_a_sites_wrapper_prints(
    slurm_rig, make_cluster, tmp_path, wrapper, text
):
    job = await submitted(make_cluster(sbatch_command=wrapper(text)), "", tmp_path / "w")
    assert jobs_named(slurm_rig, job.name) == [str(job.job_id)]


async def test_a_job_taken_by_a_controller_that_did_not_say_so_is_adopted(
    slurm_rig, make_cluster, tmp_path, wrapper
):
    text = '$REAL "$@" >/dev/null; echo "error: Batch job submission failed: Socket timed out" >&2; exit 1'
    job = await submitted(make_cluster(sbatch_command=wrapper(text)), "", tmp_path / "w")
    assert jobs_named(slurm_rig, job.name) == [str(job.job_id)]


async def test_a_job_in_a_hidden_partition_is_found_and_followed(slurm_rig, make_cluster, tmp_path, wrapper):
    # The rig's user is root, who sees hidden partitions anyway.
    text = '#!/bin/bash\n[[ " $* " = *" -a "* ]] || exit 0\nexec /usr/bin/squeue "$@"\n'
    (tmp_path / "squeue").write_text(text)
    (tmp_path / "squeue").chmod(0o755)
    sbatch = wrapper(
        '$REAL "$@" >&2; echo "sbatch: error: Socket timed out on send/recv operation" >&2; exit 1'
    )
    cluster = make_cluster(slurm_path=str(tmp_path), sbatch_command=sbatch)
    job = await submitted(cluster, "raise SystemExit(3)", tmp_path / "w")
    end = await asyncio.wait_for(cluster.ended(job), 30)
    assert (end.state, job.row.state) == ("FAILED", "FAILED")
    assert jobs_named(slurm_rig, job.name) == [str(job.job_id)]


async def test_a_job_the_controller_did_not_take_is_submitted_again(
    slurm_rig, make_cluster, tmp_path, wrapper
):
    text = f"""
[ -e {tmp_path}/once ] && exec $REAL "$@"
touch {tmp_path}/once; echo "sbatch: error: Unable to contact slurm controller" >&2; exit 1
"""
    job = await submitted(make_cluster(sbatch_command=wrapper(text)), "", tmp_path / "w")
    assert jobs_named(slurm_rig, job.name) == [str(job.job_id)]


async def test_a_controller_that_is_away_for_a_while_gets_the_job_once(slurm_rig, cluster, tmp_path):
    await asyncio.to_thread(slurm_rig.stop_slurmctld)
    submitting = asyncio.create_task(submitted(cluster, "print('ran')", tmp_path))
    await asyncio.sleep(3)
    assert not submitting.done()
    await asyncio.to_thread(slurm_rig.start_slurmctld)
    job = await asyncio.wait_for(submitting, 60)
    assert (await cluster.ended(job)).state == "COMPLETED"
    assert jobs_named(slurm_rig, job.name) == [str(job.job_id)]


async def test_a_connection_cut_during_the_submission_leaves_one_job(
    slurm_rig, make_cluster, tmp_path, wrapper
):
    text = f'touch {tmp_path}/begun; sleep 2; exec $REAL "$@"'
    cluster = make_cluster(sbatch_command=wrapper(text))
    submitting = asyncio.create_task(submitted(cluster, "", tmp_path / "w"))
    await asyncio.to_thread(until, (tmp_path / "begun").exists, "sbatch is called")
    for pid in slurm_rig.ssh_sessions():
        os.kill(pid, 9)  # only the connection: what it had started goes on
    job = await asyncio.wait_for(submitting, 60)
    assert jobs_named(slurm_rig, job.name) == [str(job.job_id)]


async def test_a_submission_given_up_after_its_connection_was_cut_leaves_no_job_that_nobody_knows(
    slurm_rig, make_cluster, tmp_path, wrapper
):
    cluster = make_cluster(sbatch_command=wrapper(f'touch {tmp_path}/begun; sleep 3; exec $REAL "$@"'))
    job = cluster.prepare(spec("", tmp_path / "w", sbatch_options=("--hold",)))
    given_up = asyncio.Event()
    submitting = asyncio.create_task(cluster.submit(job, given_up.is_set))
    await asyncio.to_thread(until, (tmp_path / "begun").exists, "sbatch is called")
    given_up.set()
    for pid in slurm_rig.ssh_sessions():
        os.kill(pid, 9)
    await asyncio.wait_for(submitting, 60)
    assert jobs_named(slurm_rig, job.name) == [str(job.job_id)]
    await cluster.cancel(job.handle())


async def test_a_submission_given_up_while_it_is_tried_again_submits_nothing(
    slurm_rig, make_cluster, tmp_path, wrapper
):
    cluster = make_cluster(sbatch_command=wrapper("echo 'error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1"))
    job = cluster.prepare(spec("", tmp_path / "w"))
    asked = []

    def abandoned():
        asked.append(1)
        return len(asked) > 2

    slurm.LIMIT_PAUSE, kept = 0.1, slurm.LIMIT_PAUSE
    await cluster.submit(job, abandoned)
    slurm.LIMIT_PAUSE = kept
    assert job.job_id is None
    assert jobs_named(slurm_rig, job.name) == []


async def test_a_login_node_that_was_never_reached_is_told_soon(make_cluster, make_shell, tmp_path):
    cluster = make_cluster(make_shell(port=free_ports(1)[0]))
    with pytest.raises(TransportError, match="cannot connect to"):
        await asyncio.wait_for(submitted(cluster, "", tmp_path), 10)


async def test_options_reach_slurm_and_the_environment_of_the_session_does_not(cluster, tmp_path):
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    more = {
        "sbatch_options": ("--comment=x y", "--cpus-per-task=2"),
        "environment": {"MINE": "it's $HOME\n2"},
    }
    job = await submitted(cluster, code, tmp_path, **more)
    await cluster.ended(job)
    seen = json.loads((Path(job.path) / "x000" / "stdout").read_text())
    assert seen["MINE"] == "it's $HOME\n2"
    assert seen["PYTHONUNBUFFERED"] == "1"
    assert seen["SLURM_CPUS_PER_TASK"] == "2"
    assert "SSH_CONNECTION" not in seen
    inherited = await submitted(cluster, code, tmp_path, export_environment=True)
    await cluster.ended(inherited)
    assert "SSH_CONNECTION" in json.loads((Path(inherited.path) / "x000" / "stdout").read_text())
