# SPDX-License-Identifier: Apache-2.0
"""Slurm options as a dict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.cluster.slurm_options import (
    LETTERS,
    has_output,
    long_name,
    sbatch_argv,
    srun_argv,
)
from covalent_joblog_plugin.model.errors import OptionError


@pytest.mark.parametrize(
    ("options", "argv"),
    [
        ({}, []),
        ({"partition": "gpu"}, ["--partition=gpu"]),
        ({"cpus_per_task": 4}, ["--cpus-per-task=4"]),
        ({"cpus-per-task": 4}, ["--cpus-per-task=4"]),
        ({"--mem": "4G"}, ["--mem=4G"]),
        ({"exclusive": True, "requeue": False, "qos": None}, ["--exclusive"]),
        ({"nice": 0}, ["--nice=0"]),
        ({"t": "1:00", "p": "gpu"}, ["--time=1:00", "--partition=gpu"]),
        ({"comment": "it's $HOME; rm -rf *"}, ["--comment=it's $HOME; rm -rf *"]),
        ({"gres": "gpu:a100:2"}, ["--gres=gpu:a100:2"]),
    ],
)
def test_a_dict_becomes_argv(options, argv):
    assert sbatch_argv(options) == argv
    assert srun_argv(options) == argv


@pytest.mark.parametrize("name", ["parsable", "wrap", "test-only", "test_only", "wait", "array", "hetjob"])
def test_options_that_cannot_work_are_refused_with_the_reason(name):
    with pytest.raises(OptionError, match=rf"sbatch_options: '{name}' cannot be set here: \w+"):
        sbatch_argv({name: True})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"Z": 1}, "'Z' is not a letter known here"),
        ({"a b": 1}, "not an option name"),
        ({"par;tition": 1}, "not an option name"),
        ({"": 1}, "not an option name"),
        ({3: 1}, "not an option name"),
        ({"time": "1:00", "t": "2:00"}, "'t' and 'time' are the same option"),
        ({"time": ["1:00"]}, "must be a string"),
        ({"comment": "two\nlines"}, "one non-empty line"),
        ({"comment": ""}, "one non-empty line"),
        ({"comment": "a\0b"}, "one non-empty line"),
        ({"container-image": "x"}, "srun_options"),
        ({"job-name": "x"}, "unique name"),
    ],
)
def test_wrong_options_are_named(options, words):
    with pytest.raises(OptionError, match="sbatch_options") as caught:
        sbatch_argv(options)
    assert words in str(caught.value)


def test_something_else_than_a_dict_is_named():
    with pytest.raises(OptionError, match="must be a dict"):
        sbatch_argv(["--time=1:00"])


@given(st.sampled_from(sorted(LETTERS)))
def test_letters_stand_for_long_names(letter):
    assert long_name(letter) == long_name(f"-{letter}") == LETTERS[letter]


def test_a_file_for_slurms_own_output_is_seen_under_any_name():
    assert has_output({"o": "x"})
    assert has_output({"error": "x"})
    assert not has_output({"output": None, "time": 1})
