# SPDX-License-Identifier: Apache-2.0
"""Electrons that need Covalent where they run, and those that do not."""

from __future__ import annotations

import importlib
import sys
from functools import partial

import cloudpickle
import covalent as ct
import pytest
from covalent import DepsBash, DepsCall
from covalent._workflow.transportable_object import TransportableObject
from covalent.executor.utils.wrappers import wrapper_fn

from covalent_joblog_plugin.payload.bundle import take_apart
from tests.payload.calls import call_of, run, triple


@pytest.fixture
def local_module(tmp_path, monkeypatch):
    """Make a module the cluster does not have, from its source."""
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def make(source, name="mine_alone"):
        (tmp_path / f"{name}.py").write_text(source)
        made.append(name)
        return importlib.import_module(name)

    yield make
    for name in made:
        del sys.modules[name]


def electron_call(electron, *args):
    """The call of the first node of a lattice that calls ``electron``, as a server would hand it over."""
    lattice = ct.lattice(lambda: electron(*args))
    lattice.build_graph()
    graph = lattice.transport_graph
    hooks = graph.get_node_value(0, "metadata")["hooks"]
    before, after = (
        [DepsCall().from_dict(dep).apply() for dep in hooks.get(when, [])]
        for when in ("call_before", "call_after")
    )
    function = graph.get_node_value(0, "function")
    return take_apart(
        partial(wrapper_fn, function, before, after), [TransportableObject(arg) for arg in args], {}
    )


def test_covalent_is_neither_imported_nor_readied_for_a_function_that_does_not_use_it(tmp_path):
    def function():
        import os
        import sys

        return [m for m in sys.modules if m.startswith("covalent")], os.environ.get("COVALENT_CONFIG_DIR")

    assert run(tmp_path, function).value == ([], None)


def test_get_context_answers_through_the_name_and_through_an_import(tmp_path):
    def by_name():
        context = ct.get_context()
        return context.dispatch_id, context.task_id

    def by_import():
        import covalent

        context = covalent.get_context()
        return context.dispatch_id, context.task_id

    assert run(tmp_path / "a", by_name).value == ("dispatch", 3)
    assert run(tmp_path / "b", by_import).value == ("dispatch", 3)


def test_covalents_configuration_is_in_a_temporary_folder_that_goes_away(tmp_path):
    def function():
        import os

        import covalent

        covalent.get_config("sdk.config_file")
        return os.environ["COVALENT_CONFIG_DIR"], os.listdir(os.environ["COVALENT_CONFIG_DIR"])  # noqa: PTH208

    folder, files = run(tmp_path, function).value

    assert folder.startswith(str(tmp_path / "covalent-"))
    assert "covalent.conf" in files
    assert not list(tmp_path.glob("covalent-*"))
    assert not (tmp_path / ".config" / "covalent" / "covalent.conf").exists()


def test_a_configuration_chosen_by_the_job_stays(tmp_path):
    def function():
        return ct.get_config("sdk.config_file")

    outcome = run(tmp_path, function, COVALENT_CONFIG_DIR=str(tmp_path / "mine"))

    assert outcome.value == str(tmp_path / "mine" / "covalent.conf")


def test_dependencies_run_in_order_and_hand_their_values_over(tmp_path):
    def note(word):
        print(word)
        return word

    def function(x, one=None, many=None, files=None):
        print("function")
        return x, one, many, files

    call = call_of(
        function,
        1,
        before=[
            triple(note, "a", retval_keyword="one"),
            triple(note, "b", retval_keyword="many"),
            triple(note, word="c", retval_keyword="many"),
            triple(note, "d", retval_keyword="files"),
            triple(note, "e"),
        ],
        after=[triple(note, "f")],
    )

    outcome = run(tmp_path, call)

    assert outcome.value == (1, "a", ["b", "c"], ["d"])
    assert outcome.stdout.split() == ["a", "b", "c", "d", "e", "function", "f"]


def test_shell_commands_of_covalent_run_before_the_function(tmp_path):
    def function():
        import pathlib

        return pathlib.Path("made").read_text()

    call = call_of(function, before=[DepsBash(["echo there > made"]).apply()])

    assert run(tmp_path, call).value == "there\n"


def test_a_failing_shell_command_fails_the_node_before_the_function(tmp_path):
    call = call_of(lambda: print("ran"), before=[DepsBash("exit 7").apply()])

    outcome = run(tmp_path, call)

    assert (outcome.status, outcome.verdict.type) == (1, "subprocess.CalledProcessError")
    assert "exit status 7" in outcome.error
    assert outcome.stdout == ""


def test_a_failing_call_after_fails_the_node_as_it_does_in_covalent(tmp_path):
    def fail():
        raise OSError("no room")

    outcome = run(tmp_path, call_of(lambda: 1, after=[triple(fail)]))

    assert outcome.verdict.type == "OSError"
    assert not (tmp_path / "result").exists()


def test_a_dependency_of_plain_functions_needs_no_covalent(tmp_path, bare_python):
    call = call_of(lambda x=None: x, before=[DepsCall(lambda: 5, retval_keyword="x").apply()])

    assert run(tmp_path, call, python=bare_python).value == 5


def test_a_local_module_travels_with_deps_module(tmp_path, bare_python, local_module):
    module = local_module("FACTOR = 3\ndef times(x):\n    return x * FACTOR\n")

    @ct.electron(deps_module="mine_alone")
    def train(x):
        return module.times(x)

    outcome = run(tmp_path / "node", electron_call(train, 5), python=bare_python)

    assert outcome.value == 15


def test_a_local_module_that_does_not_travel_is_named(tmp_path, bare_python, local_module):
    module = local_module("def times(x):\n    return x * 3\n")

    outcome = run(tmp_path / "node", call_of(module.times, 5), python=bare_python)

    assert outcome.verdict.module == "mine_alone"
    assert "deps_module=" in outcome.error


def missing_covalent(folder, call, python):
    """Run where Covalent is missing; what the user reads."""
    outcome = run(folder, call, python=python)
    assert (outcome.status, outcome.verdict.kind) == (72, "covalent")
    assert outcome.verdict.before_user_code
    for word in ("Covalent is needed", f"install covalent=={ct.__version__}", python):
        assert word in outcome.error
    return outcome.error


def test_missing_covalent_is_named_for_shell_commands(tmp_path, bare_python):
    call = call_of(lambda: 1, before=[DepsBash("true").apply()])

    assert "apply_bash_commands" in missing_covalent(tmp_path, call, bare_python)


def test_missing_covalent_is_named_for_get_context(tmp_path, bare_python):
    error = missing_covalent(tmp_path, call_of(lambda: ct.get_context().task_id), bare_python)

    assert "ct.get_context()" in error


def test_missing_covalent_is_named_for_the_call_of_another_electron(tmp_path, bare_python):
    @ct.electron
    def other():
        return 1

    error = missing_covalent(tmp_path, call_of(lambda: other() + 1), bare_python)

    assert "calls another electron" in error


def test_missing_covalent_is_named_for_a_module_carried_by_value(tmp_path, bare_python, local_module):
    module = local_module("import covalent as ct\ndef where():\n    return ct.get_context()\n")
    cloudpickle.register_pickle_by_value(module)
    where = module.where

    for number, function in enumerate([lambda: [module.where()], lambda: [where()]]):
        error = missing_covalent(tmp_path / f"node{number}", call_of(function), bare_python)
        assert "module mine_alone, which travels with the function, imports covalent" in error
    assert "the function uses the module covalent" in missing_covalent(tmp_path, call_of(where), bare_python)


def test_missing_covalent_is_named_for_an_import_inside_the_function(tmp_path, bare_python):
    def function():
        import covalent

        return covalent

    outcome = run(tmp_path, function, python=bare_python)

    assert outcome.verdict.kind == "exception"
    assert f"the function imports covalent; install covalent=={ct.__version__}" in outcome.error


def test_electrons_that_need_covalent_work_where_it_is(tmp_path, local_module):
    module = local_module("import covalent as ct\ndef where():\n    return ct.get_context().task_id\n")
    cloudpickle.register_pickle_by_value(module)

    @ct.electron
    def other(x):
        return x + 1

    assert run(tmp_path / "electron", call_of(lambda: other(1))).value == 2
    assert run(tmp_path / "module", call_of(module.where)).value == 3
