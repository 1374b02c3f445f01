# SPDX-License-Identifier: Apache-2.0
"""The batch script of a job; pure.

Each execution of the job (a requeue is another one) has a folder ``x<NNN>`` of its own, so nothing is ever
truncated: ``stdout`` and ``stderr`` of the function, and the markers ``started`` and ``exit``, which appear
whole or not at all. The function runs in ``work``. The script's own variables and functions begin with
``jl_``: setup commands and ``environment`` share its names.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .slurm_options import srun_argv

if TYPE_CHECKING:
    from collections.abc import Mapping

SETUP_FAILED = 78
"""Exit status of the script where a module or conda environment cannot be had."""


@dataclass(frozen=True, slots=True)
class ScriptSpec:
    """What goes into the script.

    Attributes:
        python: Command that starts Python; empty looks for one of ``python_version`` in PATH.
        python_version: ``3.11``; which Python the function wants.
        login_shell: Whether the script's bash is a login shell.
        setup_commands: Shell lines to run first.
        teardown_commands: Shell lines to run last.
        environment: Environment variables.
        modules: Modules to load.
        conda_env: Conda environment to activate; empty for none.
        use_srun: Whether every task of the job runs the function, as one job step.
        srun_options: Options of that step.
    """

    python: tuple[str, ...] = ()
    python_version: str = ""
    login_shell: bool = True
    setup_commands: tuple[str, ...] = ()
    teardown_commands: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    conda_env: str = ""
    use_srun: bool = False
    srun_options: Mapping[str, object] = field(default_factory=dict)


def job_script(spec: ScriptSpec) -> str:
    """The script; its one argument is the job's folder."""
    parts = [
        "#!/bin/bash -l" if spec.login_shell else "#!/bin/bash",
        _BEGIN,
        *_environment(spec),
        *_setup(spec),
        _python(spec),
        _step(spec),
        *spec.teardown_commands,
        'jl_finish "$jl_rc"',
    ]
    return "\n".join(parts) + "\n"


_BEGIN = r"""
jl_dir=$1
jl_n=${SLURM_RESTART_COUNT:-0}
jl_box=$jl_dir/x$(printf %03d "$jl_n")
# Slurm sends SIGTERM to every process of the job; this shell outlives it, to say how the others ended.
# SIGUSR1 and SIGUSR2 come to this shell alone (sbatch --signal=B:…); the function gets them.
jl_function= jl_cancelled=
trap 'jl_signalled=1 jl_cancelled=1' TERM
for jl_name in USR1 USR2; do
  trap "jl_signalled=1; [ -z \"\$jl_function\" ] || kill -$jl_name \$jl_function" "$jl_name"
done
jl_record() { ( umask 077; cat >"$jl_box/$1.tmp" ) && mv -f "$jl_box/$1.tmp" "$jl_box/$1"; }
jl_finish() {
  { printf '%s\n' "rc=$1" "time=$(date +%s)"; grep -s '^tasks=' "$jl_box/ranks"; echo end; } | jl_record exit
  exit "$1"
}
mkdir -p -m 700 "$jl_box"
if [ -e "$jl_box/started" ] && ! grep -qx "job=$SLURM_JOB_ID" "$jl_box/started"; then
  echo "another job runs in $jl_dir already" >&2
  exit 75
fi
( umask 077; : >>"$jl_box/stdout"; : >>"$jl_box/stderr" )
printf '%s\n' "job=$SLURM_JOB_ID" "execution=$jl_n" "host=$(hostname)" "time=$(date +%s)" \
  "output=$(readlink /proc/$$/fd/1)" "error=$(readlink /proc/$$/fd/2)" end |
  jl_record started ||
  { echo "cannot write to $jl_box: it must be on a file system the nodes share" >&2; exit 73; }
cd "$jl_dir/work" || jl_finish 73
# An environment that was not inherited whole keeps srun from finding anything, unless it is told so.
export SLURM_EXPORT_ENV=ALL SLURM_UNBUFFEREDIO=1
"""


def _environment(spec: ScriptSpec) -> list[str]:
    # Python holds text back when it writes to a file; who sets the variable knows why.
    lines = ["export PYTHONUNBUFFERED=${PYTHONUNBUFFERED-1}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in spec.environment.items()]
    return lines


def _setup(spec: ScriptSpec) -> list[str]:
    lines = []
    for module in spec.modules:
        command = f"module load {shlex.quote(module)}"
        lines.append(f"{command} || {_give_up(SETUP_FAILED, f'module load {module} failed')}")
    lines += spec.setup_commands
    if spec.conda_env:
        lines.append('command -v conda >/dev/null && eval "$(conda shell.bash hook)"')
        command = f"conda activate {shlex.quote(spec.conda_env)}"
        lines.append(f"{command} || {_give_up(SETUP_FAILED, f'conda activate {spec.conda_env} failed')}")
    return lines


def _give_up(status: int, why: str) -> str:
    return f'{{ echo {shlex.quote(why)} "on $(hostname)" >>"$jl_box/stderr"; jl_finish {status}; }}'


_FIND_PYTHON = r"""
for jl_python in "python$jl_wanted" python3 python; do
  command -v "$jl_python" >/dev/null || continue
  jl_found=$("$jl_python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || continue
  [ -z "$jl_wanted" ] || [ "$jl_found" = "$jl_wanted" ] && break
  jl_found=
done
# Without a fitting one the first there is says what it is and what was wanted.
[ -n "$jl_found" ] || jl_python=$(command -v python3 || command -v python)
if [ -z "$jl_python" ]; then
  echo "no Python $jl_wanted in PATH on $(hostname) ($PATH); set python, modules or conda_env" \
    >>"$jl_box/stderr"
  jl_finish 127
fi
jl_python=("$jl_python")"""


def _python(spec: ScriptSpec) -> str:
    # What the setup switched on (set -e, set -u) is for its own lines.
    if spec.python:
        return f"set +eu\njl_python=({shlex.join(spec.python)})"
    return f"set +eu\njl_wanted={shlex.quote(spec.python_version)} jl_found={_FIND_PYTHON}"


# In the background, because a shell that waits in the foreground handles no signal; what runs there would
# ignore SIGINT. A wait that a signal interrupted is begun again.
_RUN = r"""
[ -z "$jl_cancelled" ] || jl_finish 143
( trap - INT QUIT; exec COMMAND ) &
jl_function=$!
while :; do jl_signalled=; wait "$jl_function"; jl_rc=$?; [ -n "$jl_signalled" ] || break; done
jl_function="""


def _step(spec: ScriptSpec) -> str:
    if not spec.use_srun:
        run = '"${jl_python[@]}" "$jl_dir/runner.py" "$jl_dir/bundle" "$jl_box"'
        return _RUN.replace("COMMAND", f'{run} >>"$jl_box/stdout" 2>>"$jl_box/stderr"')
    # Each rank opens its own files: what goes through srun is held back until the end of a line. How many
    # there are only the step itself knows.
    rank = (
        "jl_box=$1 jl_dir=$2; shift 2; jl_umask=$(umask); umask 077; jl_r=$SLURM_PROCID\n"
        'if [ "$jl_r" = 0 ]; then jl_own=$jl_box; exec >>"$jl_box/stdout" 2>>"$jl_box/stderr"\n'
        'printf "tasks=%s\\nend\\n" "$SLURM_STEP_NUM_TASKS" >"$jl_box/ranks.tmp"\n'
        'mv -f "$jl_box/ranks.tmp" "$jl_box/ranks"\n'
        'else jl_own=$(mktemp -d); exec >>"$jl_box/rank$jl_r.stdout" 2>>"$jl_box/rank$jl_r.stderr"; fi\n'
        'umask "$jl_umask"; "$@" "$jl_dir/runner.py" "$jl_dir/bundle" "$jl_own"; jl_rc=$?\n'
        '[ "$jl_r" = 0 ] || rm -rf -- "$jl_own"; exit "$jl_rc"'
    )
    options = shlex.join(srun_argv(dict(spec.srun_options)))
    step = f"srun --unbuffered --kill-on-bad-exit=1 {options} bash -c {shlex.quote(rank)}"
    return _RUN.replace("COMMAND", f'{step} rank "$jl_box" "$jl_dir" "${{jl_python[@]}}"')
