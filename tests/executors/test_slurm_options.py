# SPDX-License-Identifier: Apache-2.0
"""Options of ``SlurmJobLogExecutor``, as they are refused in the client before anything is dispatched."""

from __future__ import annotations

import json
from typing import Any

import pytest

from covalent_joblog_plugin.executors import slurm_checks
from covalent_joblog_plugin.executors.joblog_slurm import SlurmJobLogExecutor
from covalent_joblog_plugin.model.errors import OptionError


@pytest.mark.parametrize("name", sorted(slurm_checks.RENAMED))
def test_an_option_of_the_official_plugin_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(OptionError, match=f"has no option '{name}': "):
        SlurmJobLogExecutor(host="cluster", **{name: "x"})


def test_an_unknown_option_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(OptionError, match="did you mean 'sbatch_options'"):
        SlurmJobLogExecutor(host="cluster", sbatch_option={})


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": ""},
        {"host": "-oProxyCommand=x"},
        {"host": "a\nb"},
        {"port": "22"},
        {"port": True},
        {"port": 22.5},
        {"port": 65536},
        {"max_sessions": 2.5},
        {"username": ""},
        {"client_keys": [""]},
        {"client_keys": 7},
        {"known_hosts": 7},
        {"ssh_config": 7},
        {"max_sessions": 1},
        {"connect_timeout": 0},
        {"workdir": ""},
        {"workdir": "a\\b"},
        {"workdir": "a\nb"},
        {"sbatch_command": []},
        {"environment": {"A B": "x"}},
        {"environment": {"A": 3}},
        {"modules": 7},
        {"login_shell": "yes"},
        {"cleanup": "sometimes"},
        {"reader": "tail"},
        {"state_interval": 0},
        {"sbatch_options": {"array": "1-4"}},
        {"sbatch_options": ["--time=1"]},
        {"srun_options": {"cpu-bind": "none"}},
        {"use_srun": True, "srun_options": {"output": "x"}},
        {"log_files": ["a\0b"]},
        {"conda_env": "a\nb"},
    ],
    ids=str,
)
def test_a_value_that_cannot_work_is_refused_by_name(wrong: dict[str, Any]) -> None:
    executor = SlurmJobLogExecutor(**{"host": "cluster", **wrong})
    with pytest.raises(OptionError, match=list(wrong)[-1]):
        executor.to_dict()


def test_defaults_travel_as_json_and_come_back_the_same() -> None:
    executor = SlurmJobLogExecutor(host="cluster", client_keys="~/.ssh/id", known_hosts=None)
    attributes = json.loads(json.dumps(executor.to_dict()))["attributes"]
    again = SlurmJobLogExecutor()
    again.__dict__ = attributes
    again.check_options()
    assert again.to_dict() == executor.to_dict()


def test_an_option_an_older_dispatch_does_not_have_has_its_default() -> None:
    executor = SlurmJobLogExecutor()
    executor.__dict__ = {"host": "cluster", "log_files": []}
    executor.check_options()
    assert executor.reader == "auto"
    assert "cluster" in executor.endpoint_key()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", 2222),
        ("username", "me"),
        ("jump_host", "gate"),
        ("known_hosts", None),
        ("client_keys", ["k"]),
    ],
)
def test_every_option_that_changes_the_connection_makes_another_endpoint(name: str, value: object) -> None:
    plain = SlurmJobLogExecutor(host="cluster")
    other = SlurmJobLogExecutor(host="cluster", **{name: value})
    assert plain.endpoint_key() != other.endpoint_key()
    same = SlurmJobLogExecutor(host="cluster", workdir="/elsewhere", sbatch_options={"time": 1})
    assert plain.endpoint_key() == same.endpoint_key()
