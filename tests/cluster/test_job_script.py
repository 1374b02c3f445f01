# SPDX-License-Identifier: Apache-2.0
"""The batch script, run by a real Slurm."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster.job_script import ScriptSpec, job_script
from covalent_joblog_plugin.cluster.slurm_states import ExitStatus
from tests.cluster.slurm_jobs import submitted
from tests.rigs.daemons import until

pytestmark = pytest.mark.slurm

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


async def done(cluster, tmp_path, code="print('ran')", **script):
    """Run a job; its end, and the texts of stdout, stderr and slurm.log."""
    job = await submitted(cluster, code, tmp_path, **script)
    end = await asyncio.wait_for(cluster.ended(job), 60)
    box = Path(job.path)
    names = ("x000/stdout", "x000/stderr", "slurm.log")
    return end, *((box / name).read_text() for name in names)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,5}", fullmatch=True), TEXT), TEXT, st.lists(TEXT, min_size=1))
def test_the_script_is_valid_bash_whatever_the_options_hold(environment, module, python):
    spec = ScriptSpec(
        python=tuple(python), environment=environment, modules=(module,), conda_env=module or "x"
    )
    for use_srun in (False, True):
        text = job_script(ScriptSpec(**{**_fields(spec), "use_srun": use_srun}))
        done = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False)
        assert done.stderr == b""


def texts(job):
    return {(f.rank, f.stream): Path(f.path).read_text() for f in job.output_files() if f.stream}


def _fields(spec):
    return {name: getattr(spec, name) for name in ScriptSpec.__dataclass_fields__}


async def test_setup_and_teardown_commands_run_around_the_function(cluster, tmp_path):
    code = "import os; print(os.environ['FROM_SETUP'])"
    end, out, _, log = await done(
        cluster,
        tmp_path,
        code,
        setup_commands=("export FROM_SETUP='a b'", "echo setting up", "false"),
        teardown_commands=(f"touch '{tmp_path}/torn down'",),
    )
    assert (end.state, out, log) == ("COMPLETED", "a b\n", "setting up\n")
    assert (tmp_path / "torn down").exists()


async def test_modules_are_loaded_and_one_that_cannot_be_ends_the_job_with_its_name(
    slurm_rig, cluster, tmp_path
):
    profile = slurm_rig.home / ".bash_profile"
    profile.write_text(f'module() {{ printf "%s\\n" "$@" >>{tmp_path}/loaded; [ "$2" != "it\'s bad" ]; }}\n')
    try:
        good, out, *_ = await done(cluster, tmp_path, modules=("a/1.0", "b c"))
        bad, _, err, _ = await done(cluster, tmp_path, modules=("a/1.0", "it's bad"))
    finally:
        profile.unlink()
    assert (good.state, out) == ("COMPLETED", "ran\n")
    assert (tmp_path / "loaded").read_text().split("\n")[:4] == ["load", "a/1.0", "load", "b c"]
    assert bad.status == ExitStatus(code=78)
    assert "module load it's bad failed on " in err


async def test_a_conda_environment_that_is_not_there_ends_the_job_with_its_name(cluster, tmp_path):
    end, out, err, _ = await done(cluster, tmp_path, conda_env="no such env")
    assert end.status == ExitStatus(code=78)
    assert "conda activate no such env failed on " in err
    assert out == ""


async def test_the_python_of_the_clients_version_is_found_in_path(cluster, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("python3.11", "python3"):
        (tools / name).write_text(
            f'#!/bin/sh\necho by {name} >>{tmp_path}/used\nexec {sys.executable} "$@"\n'
        )
        (tools / name).chmod(0o755)
    wanted = "{}.{}".format(*sys.version_info)
    path = (f"PATH={tools}:$PATH",)
    end, out, _, _ = await done(cluster, tmp_path, python=(), python_version=wanted, setup_commands=path)
    assert (end.state, out) == ("COMPLETED", "ran\n")
    assert set((tmp_path / "used").read_text().split("\n")) == {"by python3.11", ""}


async def test_without_a_python_of_that_version_another_one_says_so_itself(cluster, tmp_path):
    end, out, _, _ = await done(cluster, tmp_path, python=(), python_version="3.99")
    assert (end.state, out) == ("COMPLETED", "ran\n")


async def test_a_node_without_any_python_is_told_with_what_to_set(cluster, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("hostname", "date", "cat", "mv", "mkdir", "readlink", "grep"):
        (tools / name).symlink_to(shutil.which(name))
    end, _, err, _ = await done(
        cluster, tmp_path, python=(), python_version="3.11", setup_commands=(f"PATH={tools}",)
    )
    assert end.status == ExitStatus(code=127)
    assert "no Python 3.11 in PATH on " in err
    assert "set python, modules or conda_env" in err


async def test_a_python_that_is_not_there_is_told_by_the_shell(cluster, tmp_path):
    end, _, err, _ = await done(cluster, tmp_path, python=("/no/such/python",))
    assert end.status == ExitStatus(code=127)
    assert "/no/such/python" in err


async def test_python_may_be_a_command_of_several_words(cluster, tmp_path):
    end, out, _, _ = await done(
        cluster, tmp_path, "import os; print(os.environ['A'])", python=("env", "A=b c", sys.executable)
    )
    assert (end.state, out) == ("COMPLETED", "b c\n")


async def test_text_is_in_the_file_as_soon_as_it_is_printed(cluster, tmp_path):
    code = "import os; print('now'); os.system('cat ' + os.environ['BOX'] + '/stdout >&2')"
    end, out, err, _ = await done(cluster, tmp_path, code, setup_commands=('export BOX="$jl_box"',))
    assert (end.state, out, err) == ("COMPLETED", "now\n", "now\n")


async def test_a_user_who_wants_buffering_gets_it(cluster, tmp_path):
    code = "import os; print('late'); os.system('cat ' + os.environ['BOX'] + '/stdout >&2')"
    own = {"PYTHONUNBUFFERED": ""}
    _, out, err, _ = await done(
        cluster, tmp_path, code, setup_commands=('export BOX="$jl_box"',), environment=own
    )
    assert (out, err) == ("late\n", "")


async def test_every_rank_has_its_own_files_and_rank_0_gives_the_result(cluster, tmp_path):
    code = """
import os, sys
print("rank", os.environ["SLURM_PROCID"], "prompt", end="")
print("error of", os.environ["SLURM_PROCID"], file=sys.stderr)
open(sys.argv[2] + "/result", "w").write(os.environ["SLURM_PROCID"])
"""
    job = await submitted(cluster, code, tmp_path, use_srun=True, sbatch_options=("--ntasks=3",))
    end = await asyncio.wait_for(cluster.ended(job), 60)
    assert end.state == "COMPLETED"
    assert texts(job) == {
        **{(rank, "stdout"): f"rank {rank} prompt" for rank in range(3)},
        **{(rank, "stderr"): f"error of {rank}\n" for rank in range(3)},
    }
    assert await cluster.fetch(f"{job.path}/x000/result") == b"0"


@pytest.mark.parametrize(
    ("sbatch", "srun"),
    [(("--ntasks=1", "--cpus-per-task=3"), {"ntasks": 3}), ((), {"ntasks-per-node": 3, "overcommit": True})],
)
async def test_ranks_the_step_alone_asks_for_have_their_files_too(cluster, tmp_path, sbatch, srun):
    code = "import os; print('rank', os.environ['SLURM_PROCID'])"
    job = await submitted(cluster, code, tmp_path, use_srun=True, srun_options=srun, sbatch_options=sbatch)
    end = await asyncio.wait_for(cluster.ended(job), 60)
    assert end.state == "COMPLETED"
    found = {rank: text for (rank, stream), text in texts(job).items() if stream == "stdout"}
    assert found == {rank: f"rank {rank}\n" for rank in range(3)}


@pytest.mark.parametrize("use_srun", [False, True])
async def test_any_name_may_be_a_variable_of_the_users(cluster, tmp_path, use_srun):
    names = ("dir", "n", "box", "name", "function", "rc", "python", "found", "wanted", "umask", "own", "r")
    code = f"import os; print(*(os.environ[name] for name in {names!r}))"
    end, out, err, _ = await done(
        cluster,
        tmp_path,
        code,
        environment={name: f"my_{name}" for name in names[:6]},
        setup_commands=tuple(f"export {name}=my_{name}" for name in names[6:]),
        use_srun=use_srun,
    )
    assert (end.state, out, err) == ("COMPLETED", " ".join(f"my_{name}" for name in names) + "\n", "")


async def test_a_setup_that_is_strict_with_itself_is_not_so_with_the_rest(cluster, tmp_path):
    end, out, *_ = await done(
        cluster, tmp_path, "print('ran'); raise SystemExit(3)", setup_commands=("set -euo pipefail",)
    )
    assert (end.status, end.recorded, out) == (ExitStatus(code=3), True, "ran\n")


async def test_one_failing_rank_ends_the_job(cluster, tmp_path):
    code = "import os, time\nif os.environ['SLURM_PROCID'] == '1': os._exit(9)\ntime.sleep(100)"
    job = await submitted(cluster, code, tmp_path, use_srun=True, sbatch_options=("--ntasks=2",))
    end = await asyncio.wait_for(cluster.ended(job), 60)
    assert end.state == "FAILED"
    assert end.status


async def test_a_second_job_in_the_same_folder_writes_nothing_there(slurm_rig, cluster, tmp_path):
    job = await submitted(cluster, "print('first')", tmp_path)
    await cluster.ended(job)
    argv = ["sbatch", "--parsable", "-W", "-o", f"{tmp_path}/second.log", f"{job.path}/job.sh", job.path]
    with pytest.raises(RuntimeError, match="exited 75"):
        await asyncio.to_thread(slurm_rig.slurm, *argv)
    assert "another job runs in" in (tmp_path / "second.log").read_text()
    assert (Path(job.path) / "x000" / "stdout").read_text() == "first\n"


async def test_a_folder_the_node_cannot_see_is_told_in_slurms_log(slurm_rig, cluster, tmp_path):
    job = await submitted(cluster, "", tmp_path)
    await cluster.ended(job)
    argv = ["sbatch", "--parsable", "-W", "-o", f"{tmp_path}/log", f"{job.path}/job.sh", "/proc/nowhere"]
    with pytest.raises(RuntimeError, match="exited 73"):
        await asyncio.to_thread(slurm_rig.slurm, *argv)
    assert "must be on a file system the nodes share" in (tmp_path / "log").read_text()


async def test_signals_meant_for_the_function_reach_it_and_its_own_end_is_told(slurm_rig, cluster, tmp_path):
    code = """
import os, signal, sys, time
got = []
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda n, _: print("got", n))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
while True: time.sleep(0.02)
"""
    job = await submitted(cluster, code, tmp_path)
    out = Path(job.path) / "x000" / "stdout"
    for n, name in enumerate(("USR1", "USR2", "USR1", "USR2")):
        await asyncio.to_thread(until, lambda n=n: len(out.read_text().splitlines()) > n, "it answers")
        await asyncio.to_thread(slurm_rig.slurm, "scancel", "--batch", f"--signal={name}", str(job.job_id))
    await asyncio.to_thread(until, lambda: len(out.read_text().splitlines()) == 5, "all arrived")
    assert out.read_text() == "ready True\ngot 10\ngot 12\ngot 10\ngot 12\n"
    await cluster.cancel(job.handle())
    end = await asyncio.wait_for(cluster.ended(job), 30)
    assert (end.state, end.status) == ("CANCELLED", ExitStatus(code=7))


async def test_a_job_cancelled_while_it_sets_up_does_not_begin_the_function(cluster, tmp_path):
    job = await submitted(cluster, "print('ran')", tmp_path, setup_commands=("echo up", "sleep 20"))
    log = Path(job.path) / "slurm.log"
    await asyncio.to_thread(until, lambda: "up" in log.read_text(), "it sets up")
    await cluster.cancel(job.handle())
    end = await asyncio.wait_for(cluster.ended(job), 30)
    assert end.state == "CANCELLED"
    assert (Path(job.path) / "x000" / "stdout").read_text() == ""
