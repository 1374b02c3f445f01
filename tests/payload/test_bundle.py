# SPDX-License-Identifier: Apache-2.0
"""What Covalent hands over is taken apart and packed without unpickling anything."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from functools import partial

import covalent as ct
import pytest
from covalent._workflow.transportable_object import TransportableObject
from covalent.executor.utils.wrappers import wrapper_fn
from hypothesis import given
from hypothesis import strategies as st

from covalent_joblog_plugin.model.errors import PayloadError
from covalent_joblog_plugin.payload import bundle
from covalent_joblog_plugin.payload.job import call as job
from covalent_joblog_plugin.payload.verdict import Verdict, sha256_of
from tests.payload.calls import assembled, call_of, packed, run, triple


class Bomb:
    """Unpickling it is noticed."""

    def __reduce__(self):
        return pytest.fail, ("it was unpickled",)


def train(x):
    return x


def test_nothing_is_unpickled_on_the_way():
    call = call_of(Bomb(), Bomb(), key=Bomb(), before=[triple(Bomb())], after=[triple(Bomb())])

    assert packed(call)


def test_a_result_is_not_unpickled():
    archive = TransportableObject(Bomb()).serialize()
    verdict = Verdict("ok", size=len(archive), sha256=sha256_of(archive))

    assert bundle.load_result(archive, verdict).serialize() == archive


def test_name_and_python_are_those_of_the_pickles_header():
    function = TransportableObject(train)
    function._header["py_version"] = "3.9.17"

    call = bundle.take_apart(partial(wrapper_fn, function, [], []), [], {})

    assert (call.name, call.python_version) == ("train", "3.9.17")


def test_the_nodes_covalent_makes_are_helpers_and_the_users_are_not():
    @ct.electron
    def produce():
        return {"a": [1, 2]}

    @ct.electron
    def consume(items, table, one, attribute):
        return items, table, one, attribute

    @ct.lattice
    def flow():
        made = produce()
        first, second = made
        return consume([made, first], {"x": made, "y": second}, made["a"], made.a)

    flow.build_graph()
    graph = flow.transport_graph._graph
    nodes = {
        data["name"]: bundle.take_apart(partial(wrapper_fn, data["function"], [], []), [], {})
        for _, data in graph.nodes(data=True)
        if data["function"] is not None and data["function"].attrs["name"]
    }

    helpers = {name for name, call in nodes.items() if call.is_helper_candidate}
    assert {"produce", "consume"} & helpers == set()
    assert {":electron_list:", ":electron_dict:", ":produce.__getitem__", ":produce.__getattr__"} <= helpers
    assert {":produce()[0]", ":produce()[1]"} <= helpers


def test_helpers_can_be_run_without_the_dependencies_they_inherit():
    call = call_of(train, 1, before=[triple(train)], after=[triple(train)])

    assert call.without_hooks() == call_of(train, 1)


@pytest.mark.parametrize(
    ("function", "args"),
    [(train, []), (partial(train, 1), []), (partial(wrapper_fn, 1), []), (assembled(train)[0], [1])],
)
def test_anything_but_covalents_own_wrapping_is_refused(function, args):
    with pytest.raises(PayloadError, match=r"Covalent 0\.240"):
        bundle.take_apart(function, args, {})


def test_damaged_base64_is_refused():
    call = call_of(train)

    with pytest.raises(PayloadError, match="pickle of train is damaged"):
        packed(replace(call, function=replace(call.function, text="?" * 5)))


def test_a_bundle_holds_no_path_of_this_machine_and_one_date_only():
    with zipfile.ZipFile(io.BytesIO(packed(call_of(train, 1)))) as archive:
        assert {info.date_time for info in archive.infolist()} == {bundle.EPOCH}
        manifest = json.loads(archive.read("manifest.json"))
    assert set(manifest) == {
        *("args", "call_after", "call_before", "cloudpickle", "dispatch_id", "function"),
        *("kwargs", "node_id", "python"),
    }


@pytest.mark.parametrize(
    "change", [lambda a: a[:-1], lambda a: a + b" ", lambda a: b"\1" + a[1:], lambda _: b""]
)
def test_a_result_that_changed_on_the_way_is_refused(tmp_path, change):
    outcome = run(tmp_path, lambda: [1, 2, 3])
    archive = (tmp_path / "result").read_bytes()

    with pytest.raises(PayloadError, match="the result is damaged"):
        bundle.load_result(change(archive), outcome.verdict)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_archive_are_refused(data):
    with pytest.raises(PayloadError, match="archive form"):
        bundle.load_result(data, Verdict("ok", size=len(data), sha256=sha256_of(data)))


HOOKS = st.lists(st.tuples(st.integers(), st.sampled_from(["", "a", "b", "files"])))


@given(HOOKS, HOOKS, st.lists(st.integers()), st.dictionaries(st.text(), st.integers()))
def test_every_call_gives_what_covalents_own_wrapper_gives(before, after, args, kwargs):
    seen = []

    def note(*told, **named):
        seen.append((told, named))
        return told

    def hooks(pairs):
        return [(*_transportable(note, [value], {"n": value}), key) for value, key in pairs]

    function, args, kwargs = assembled(note, args, kwargs, hooks(before), hooks(after))
    expected, expected_seen = function(*args, **kwargs).get_deserialized(), list(seen)
    seen.clear()
    file = io.BytesIO(packed(bundle.take_apart(function, args, kwargs)))
    with zipfile.ZipFile(file) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    value = job.call(manifest, file)

    assert (value, len(seen)) == (expected, len(expected_seen))


def _transportable(*values):
    return [TransportableObject(value) for value in values]
