# SPDX-License-Identifier: Apache-2.0
"""Options on their way: numbers that are none, dispatches and configuration files of other versions."""

import math
from typing import Any

import pytest
from covalent._shared_files.config import get_config

from covalent_joblog_plugin import LocalJobLogExecutor
from covalent_joblog_plugin.model.errors import OptionError


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -2, "5", None, True, [5]])
@pytest.mark.parametrize(
    "option", ["log_interval", "final_read_timeout", "max_log_bytes", "max_node_bytes", "time_limit"]
)
def test_what_is_no_finite_number_is_refused(option: str, value: Any) -> None:
    executor = LocalJobLogExecutor(**{option: value})
    with pytest.raises(OptionError, match=option):
        executor.to_dict()


@pytest.mark.parametrize("option", ["max_log_bytes", "max_node_bytes"])
def test_a_number_of_bytes_is_whole(option: str) -> None:
    LocalJobLogExecutor(**{option: 1e9}).check_options()
    with pytest.raises(OptionError, match="whole number"):
        LocalJobLogExecutor(**{option: 0.5}).check_options()


def test_whatever_options_an_old_dispatch_lacks_it_runs_with_what_a_new_executor_has() -> None:
    travelled = LocalJobLogExecutor().to_dict()
    for name in travelled["attributes"]:
        fewer = {k: v for k, v in travelled["attributes"].items() if k != name}
        arrived = LocalJobLogExecutor().from_dict({**travelled, "attributes": fewer})
        if not name.startswith(("log_std", "cache_dir", "retries")):  # Covalent's own
            assert getattr(arrived, name) == travelled["attributes"][name]
            arrived.check_options()


def test_an_option_left_in_the_configuration_by_another_version_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    configured = {**get_config("executors.joblog_local"), "watcher": "kernel"}
    monkeypatch.setitem(get_config("executors"), "joblog_local", configured)
    LocalJobLogExecutor(**configured).check_options()
    assert "'kernel' in [executors.joblog_local]" in caplog.text
    with pytest.raises(OptionError, match="watcher"):
        LocalJobLogExecutor(watcher="hand")
