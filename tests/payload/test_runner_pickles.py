# SPDX-License-Identifier: Apache-2.0
"""What can be unpickled and pickled where the job runs, by which interpreter, and what is said if not."""

from __future__ import annotations

import ast
import platform
import subprocess
import sys

import pytest

from covalent_joblog_plugin.payload import bundle
from tests.payload import pythons
from tests.payload.calls import call_of, packed, run


def test_a_bare_interpreter_runs_closures_and_returns_functions(tmp_path, bare_python):
    factor = 3

    def function(values, *, plus):
        return [lambda x: x * factor + plus, values]

    outcome = run(tmp_path, call_of(function, (1, 2), plus=4), python=bare_python)

    assert outcome.value[0](10) == 34
    assert outcome.value[1] == (1, 2)


def test_every_interpreter_on_this_machine_runs_what_it_pickled(tmp_path):
    source = "def f():\n    print('hi')\n    return lambda: __import__('sys').version_info[:2]\n"
    for minor, python in pythons.installed().items():
        if minor < (3, 8):
            continue
        call = pythons.call_pickled_by(python, source)
        outcome = run(tmp_path / str(minor[1]), call, python=python)

        assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "hi\n", "")
        archive = (outcome.folder / "result").read_bytes()
        assert bundle.load_result(archive, outcome.verdict).python_version == call.python_version


def test_another_minor_version_is_refused_before_anything_is_unpickled(tmp_path):
    def function():
        raise AssertionError("it ran")

    for minor, python in pythons.installed().items():
        if minor == sys.version_info[:2]:
            continue
        outcome = run(tmp_path / str(minor[1]), function, python=python)

        assert (outcome.status, outcome.verdict.kind, outcome.stderr) == (70, "python", "")
        assert platform.python_version() in outcome.error
        assert outcome.verdict.python.startswith(f"{minor[0]}.{minor[1]}.")
        assert outcome.verdict.python in outcome.error
        assert outcome.verdict.before_user_code


def test_the_version_that_counts_is_the_one_in_the_pickles_header(tmp_path):
    call = pythons.call_pickled_by(pythons.SYSTEM, "f = len")
    foreign = bundle.Call(bundle.Part(call.function.text, "f", "3.7.1"), (), {})

    outcome = run(tmp_path, foreign)

    assert "3.7.1" in outcome.error
    assert outcome.status == 70


def test_what_runs_on_the_cluster_keeps_to_old_syntax():
    ast.parse(bundle.runner_source(), feature_version=(3, 6))
    with_job = pythons.Path(bundle.__file__).with_name("job")
    for path in with_job.glob("*.py"):
        ast.parse(path.read_bytes(), feature_version=(3, 8))


def test_cloudpickle_of_another_version_does_not_disturb(tmp_path, bare_python):
    other = tmp_path / "site"
    (other / "cloudpickle").mkdir(parents=True)
    (other / "cloudpickle" / "__init__.py").write_text("raise ImportError('too old')\n")

    outcome = run(tmp_path / "node", lambda: 7, python=bare_python, PYTHONPATH=str(other))

    assert outcome.value == 7


def test_an_installed_cloudpickle_of_the_same_version_is_used(tmp_path):
    def function():
        import sys

        import cloudpickle

        return cloudpickle.__file__, [entry for entry in sys.path if entry.endswith("bundle/lib")]

    file, ours = run(tmp_path, function).value

    assert "bundle" not in file
    assert ours == []


def test_a_module_that_is_missing_is_named_with_the_interpreter(tmp_path, bare_python):
    import hypothesis

    outcome = run(tmp_path, call_of(type, hypothesis.settings), python=bare_python)

    assert (outcome.status, outcome.verdict.kind) == (71, "unloadable")
    assert outcome.verdict.what == "argument 0"
    assert outcome.verdict.module.split(".")[0] == "hypothesis"
    assert outcome.verdict.before_user_code
    for word in ("hypothesis", bare_python, platform.node(), platform.python_version(), "deps_module="):
        assert word in outcome.error
    assert outcome.stderr.startswith("ModuleNotFoundError: ")


def test_a_module_the_function_itself_imports_is_named_too(tmp_path, bare_python):
    def function():
        import hypothesis

        return hypothesis

    outcome = run(tmp_path, function, python=bare_python)

    assert (outcome.status, outcome.verdict.kind) == (1, "exception")
    assert f"module hypothesis cannot be imported by {bare_python}" in outcome.error


@pytest.mark.parametrize("raised", ["ValueError", "SystemExit"])
def test_an_argument_whose_unpickling_raises_is_named(tmp_path, raised):
    class Trap:
        def __reduce__(self):
            def fail():
                import builtins

                raise getattr(builtins, raised)("trapped")

            return fail, ()

    outcome = run(tmp_path, call_of(dict, {}, key=Trap()))

    assert (outcome.status, outcome.verdict.kind, outcome.verdict.type) == (71, "unloadable", raised)
    assert outcome.error.startswith("argument 'key' cannot be unpickled")


def test_an_argument_pickled_by_another_python_says_so_when_it_fails(tmp_path):
    class Trap:
        def __reduce__(self):
            return int, ("x",)

    call = call_of(type, Trap())
    foreign = bundle.Part(call.args[0].text, "", "3.9.1")

    outcome = run(tmp_path, bundle.Call(call.function, (foreign,), {}))

    assert "it was pickled by Python 3.9.1" in outcome.error


@pytest.fixture(scope="session")
def numpy_1(tmp_path_factory):
    """A folder with the last numpy that cannot read the pickles of numpy 2."""
    folder = tmp_path_factory.mktemp("numpy")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "numpy<1.26"], check=True
    )
    return folder


def test_an_array_of_a_newer_numpy_names_both_versions(tmp_path, bare_python, numpy_1):
    import numpy as np

    call = call_of(lambda array: array.sum(), np.arange(6).reshape(2, 3))

    outcome = run(tmp_path, call, python=bare_python, PYTHONPATH=str(numpy_1))

    assert outcome.verdict.kind == "unloadable"
    assert f"numpy there is {outcome.verdict.versions['numpy']}" in outcome.error
    assert np.__version__ in outcome.error
    assert "deps_module" not in outcome.error


def test_arrays_of_every_layout_come_back_equal(tmp_path):
    import numpy as np

    arrays = [
        np.arange(24.0).reshape(2, 3, 4),
        np.asfortranarray(np.arange(200_000).reshape(2, -1)),
        np.arange(200_000)[::7],
        np.zeros(0),
        np.array("text"),
        np.array([{"a": 1}, None], dtype=object),
    ]

    for returned, sent in zip(run(tmp_path, call_of(lambda x: x, arrays)).value, arrays, strict=True):
        assert returned.dtype == sent.dtype
        np.testing.assert_array_equal(returned, sent)


def test_a_result_that_cannot_be_pickled_is_named_with_its_text_kept(tmp_path):
    def function():
        print("worked for hours")
        return {"rows": (row for row in [1, 2])}

    outcome = run(tmp_path, function)

    assert (outcome.status, outcome.verdict.kind) == (73, "unpicklable")
    assert outcome.verdict.result == "dict"
    assert "generator" in outcome.error
    assert outcome.stdout == "worked for hours\n"
    assert "generator" in outcome.stderr
    assert not list(tmp_path.glob("result*"))


@pytest.mark.parametrize("raised", ["SystemExit", "OSError", "MemoryError"])
def test_a_result_whose_pickling_raises_anything_is_unpicklable(tmp_path, raised):
    def function():
        class Trap:
            def __reduce__(self):
                import builtins

                raise getattr(builtins, raised)("trapped")

        return Trap()

    outcome = run(tmp_path, function)

    assert (outcome.status, outcome.verdict.kind, outcome.verdict.type) == (73, "unpicklable", raised)


def test_a_result_that_does_not_fit_on_the_disk_is_named(tmp_path):
    def function():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        return bytes(1_000_000)

    outcome = run(tmp_path, function)

    assert (outcome.status, outcome.verdict.kind) == (75, "unwritable")
    assert str(tmp_path / "result") in outcome.error
    assert not list(tmp_path.glob("result*"))


def test_a_result_that_cannot_be_shown_travels_all_the_same(tmp_path):
    def function():
        class Odd:
            value = 5

            def __str__(self):
                raise RuntimeError("no words")

            def __getattr__(self, name):
                if name == "__name__":
                    raise OSError("no name")
                raise AttributeError(name)

        return Odd()

    assert run(tmp_path, function).value.value == 5


def test_text_that_is_no_unicode_travels(tmp_path):
    outcome = run(tmp_path, lambda: "lone \udc80 surrogate")

    assert outcome.value == "lone \udc80 surrogate"


def test_the_same_call_packs_to_the_same_bytes():
    call = call_of(lambda x: x, [1, 2])

    assert packed(call) == packed(call)
