# SPDX-License-Identifier: Apache-2.0
"""The batch script of a job; pure.

Each execution of the job (a requeue is another one) has a folder ``x<NNN>`` of its own, so nothing is ever
truncated: ``stdout`` and ``stderr`` of the function, and the markers ``started`` and ``exit``, which appear
whole or not at all. The function runs in ``work``.
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
        'finish "$rc"',
    ]
    return "\n".join(parts) + "\n"


_BEGIN = r"""
dir=$1
n=${SLURM_RESTART_COUNT:-0}
box=$dir/x$(printf %03d "$n")
# Slurm sends SIGTERM to every process of the job; this shell outlives it, to say how the others ended.
# SIGUSR1 and SIGUSR2 come to this shell alone (sbatch --signal=B:…); the function gets them.
function=
trap 'signalled=1 cancelled=1' TERM
for name in USR1 USR2; do trap "signalled=1; [ -z \"\$function\" ] || kill -$name \$function" "$name"; done
record() { ( umask 077; cat >"$box/$1.tmp" ) && mv -f "$box/$1.tmp" "$box/$1"; }
finish() { printf '%s\n' "rc=$1" "time=$(date +%s)" end | record exit; exit "$1"; }
mkdir -p -m 700 "$box"
if [ -e "$box/started" ] && ! grep -qx "job=$SLURM_JOB_ID" "$box/started"; then
  echo "another job runs in $dir already" >&2
  exit 75
fi
( umask 077; : >>"$box/stdout"; : >>"$box/stderr" )
printf '%s\n' "job=$SLURM_JOB_ID" "execution=$n" "host=$(hostname)" "time=$(date +%s)" \
  "tasks=${SLURM_NTASKS:-1}" "output=$(readlink /proc/$$/fd/1)" "error=$(readlink /proc/$$/fd/2)" end |
  record started || { echo "cannot write to $box: it must be on a file system the nodes share" >&2; exit 73; }
cd "$dir/work" || finish 73
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
    return f'{{ echo {shlex.quote(why)} "on $(hostname)" >>"$box/stderr"; finish {status}; }}'


_FIND_PYTHON = r"""
for python in "python$wanted" python3 python; do
  command -v "$python" >/dev/null || continue
  found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || continue
  [ -z "$wanted" ] || [ "$found" = "$wanted" ] && break
  found=
done
# Without a fitting one the first there is says what it is and what was wanted.
[ -n "$found" ] || python=$(command -v python3 || command -v python)
if [ -z "$python" ]; then
  echo "no Python $wanted in PATH on $(hostname) ($PATH); set python, modules or conda_env" >>"$box/stderr"
  finish 127
fi
python=("$python")"""


def _python(spec: ScriptSpec) -> str:
    if spec.python:
        return f"python=({shlex.join(spec.python)})"
    return f"wanted={shlex.quote(spec.python_version)} found={_FIND_PYTHON}"


# In the background, because a shell that waits in the foreground handles no signal; what runs there would
# ignore SIGINT. A wait that a signal interrupted is begun again.
_RUN = r"""
[ -z "$cancelled" ] || finish 143
( trap - INT QUIT; exec COMMAND ) &
function=$!
while :; do signalled=; wait "$function"; rc=$?; [ -n "$signalled" ] || break; done
function="""


def _step(spec: ScriptSpec) -> str:
    if not spec.use_srun:
        run = '"${python[@]}" "$dir/runner.py" "$dir/bundle" "$box"'
        return _RUN.replace("COMMAND", f'{run} >>"$box/stdout" 2>>"$box/stderr"')
    # Each rank opens its own files: what goes through srun is held back until the end of a line.
    rank = (
        "box=$1 dir=$2; shift 2; umask=$(umask); umask 077; r=$SLURM_PROCID\n"
        'if [ "$r" = 0 ]; then own=$box; exec >>"$box/stdout" 2>>"$box/stderr"\n'
        'else own=$(mktemp -d); exec >>"$box/rank$r.stdout" 2>>"$box/rank$r.stderr"; fi\n'
        'umask "$umask"; "$@" "$dir/runner.py" "$dir/bundle" "$own"; rc=$?\n'
        '[ "$r" = 0 ] || rm -rf -- "$own"; exit "$rc"'
    )
    options = shlex.join(srun_argv(dict(spec.srun_options)))
    step = f"srun --unbuffered --kill-on-bad-exit=1 {options} bash -c {shlex.quote(rank)}"
    return _RUN.replace("COMMAND", f'{step} rank "$box" "$dir" "${{python[@]}}"')
