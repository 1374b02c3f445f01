# SPDX-License-Identifier: Apache-2.0
"""What ``logs()`` returns is like a string, of one moment, whatever is being written meanwhile."""

import pickle
import re
from datetime import datetime, timezone
from html.parser import HTMLParser

import pytest

from covalent_joblog_plugin import logs
from covalent_joblog_plugin.model.errors import BadSelection, OutputNotFound, OutputNotYet
from covalent_joblog_plugin.model.log_line import Severity
from tests.executors.dispatches import dispatch as dispatch_flow
from tests.reading.tasks import Following
from tests.rigs.covalent_server import SUBLATTICES_RUN, eventually
from tests.store.scripts import dispatch

SAYS = r"""
async def run(output, say):
    await say(b"INFO one\n  0%|\r100%|done\nERROR two\nhalf \xe2\x82")
    await say(b"err\n", "stderr")
    await say(b"other rank\n", "rank1.stdout")
    await say(b"1,2\n", "train.csv")
    await output.remember({"capabilities": {"read": {"answer": "yes", "reason": "x"}}})
"""
TEXT = "INFO one\n100%|done\nERROR two\nhalf �"
MARKUP = [
    "<img src=x onerror=alert(1)>",
    "</pre></div><script>alert(2)</script>",
    "a && b <t> \"q\" 'r' &amp; &#60;",
    "\x1b[31m<b>red</b>\x1b[0m",
    "\x1b]0;<i>title</i>\x07",
    "]]> <!-- -->",
]


@pytest.fixture(scope="module")
def finished(covalent_server):
    dispatch_id = dispatch(covalent_server, SAYS)
    covalent_server.completed(dispatch_id)
    return dispatch_id


def test_every_text_is_the_beginning_of_the_next_while_it_is_written(covalent_server, tmp_path):
    """Pieces of 1 KB that end inside characters, with an invalid byte on the way."""
    stop = tmp_path / "stop"
    script = f"""
import pathlib
source = ("line é€😀 " * 9 + "\\n").encode() * 7
source = source[:300] + b"\\xff" + source
async def run(output, say):
    for n in range(400):
        at = 997 * n % len(source)
        await say((source * 5)[at : at + 997])
        await asyncio.sleep(0.02)
        if pathlib.Path({str(stop)!r}).exists():
            break
"""
    dispatch_id = dispatch(covalent_server, script)
    eventually(lambda: covalent_server.status(dispatch_id) == "RUNNING", 30, "the node")
    before, sizes = "", set()
    while len(sizes) < 40 and covalent_server.status(dispatch_id) == "RUNNING":
        try:
            text = logs(dispatch_id, 0)
        except OutputNotYet:
            continue
        assert str(text).startswith(before)
        assert len(text) == len(str(text)) == len("".join(text.splitlines(keepends=True)))
        before = str(text)
        sizes.add(len(text))
    assert len(sizes) > 5
    stop.touch()
    covalent_server.completed(dispatch_id)
    assert str(logs(dispatch_id, 0)).startswith(before)


def test_it_is_like_a_string(finished):
    text = logs(finished, 0)
    assert str(text) == TEXT
    assert (len(text), bool(text), hash(text)) == (len(TEXT), True, hash(TEXT))
    assert text == TEXT
    assert text == text()
    assert text != TEXT + "x"
    assert text != 5
    assert "two" in text
    assert "0%|\r" not in text
    assert (text[0], text[-1], text[:4], text[::-1]) == ("I", "�", "INFO", TEXT[::-1])
    assert list(text) == text.splitlines() == TEXT.split("\n")
    assert text.splitlines(keepends=True) == TEXT.splitlines(keepends=True)
    assert str(text(query="two")) == "ERROR two\n"
    assert str(text(stream="stderr")) == "err\n"
    assert list(text(follow=True)) == list(text)
    again = pickle.loads(pickle.dumps(text))
    assert again == text
    assert again(tail=1) == "half �"
    assert repr(text) == f"<Logs of node 0 (task) of {finished}, COMPLETED: 42 bytes of stdout>"


def test_what_is_known_of_a_node_and_of_its_lines(finished):
    text = logs(finished, 0)
    assert [(file.name, file.size) for file in text.files] == [
        ("stdout", 42),
        ("stderr", 4),
        ("rank1.stdout", 11),
        ("train.csv", 4),
    ]
    assert text.capabilities.read.answer.value == "yes"
    assert [node.status for node in text.nodes] == ["COMPLETED"]
    lines = list(text.lines())
    assert [(line.text, line.cursor, line.severity, line.ended) for line in lines] == [
        ("INFO one", 0, Severity.INFO, True),
        ("100%|done", 9, None, True),
        ("ERROR two", 25, Severity.ERROR, True),
        ("half �", 35, None, False),
    ]
    assert {(line.stream, line.rank, line.execution) for line in lines} == {("stdout", 0, 0)}
    assert all(line.time > 1e9 for line in lines)
    assert text.raw() == b"INFO one\n  0%|\r100%|done\nERROR two\nhalf \xe2\x82"
    assert logs(finished, 0, file="train.csv").raw() == b"1,2\n"
    assert re.fullmatch(
        r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S.*\n){3}.*half �", str(text(timestamps=True))
    )


def test_what_has_no_meaning_is_an_error_and_never_nothing(finished):
    for options, says in (
        ({"stream": "nosuch"}, "'nosuch' is none"),
        ({"tial": 1}, "no such option"),
        ({"file": "train.csv", "rank": 1}, "leave out stream and rank"),
        ({"since": "yesterday"}, "since"),
    ):
        with pytest.raises(BadSelection, match=says):
            logs(finished, 0, **options)
    with pytest.raises(OutputNotFound, match=r"no output 'losses\.csv'; it has stdout, stderr"):
        logs(finished, 0, file="losses.csv")
    with pytest.raises(BadSelection, match="only tail goes with it"):
        logs(finished, 0, query="two").raw()
    with pytest.raises(BadSelection, match="there are several outputs"):
        logs(finished, 0, stream="all").raw()


def test_nothing_says_why(covalent_server, finished):
    assert logs(finished, 0).why == ""
    assert logs(finished, 0, query="three").why == "none of 4 lines passes: query leaves out 4"
    assert logs(finished, 0, severity="critical").why == "none of 4 lines passes: severity leaves out 4"
    silent = dispatch(covalent_server, "async def run(output, say): await say(b'here', 'stderr')")
    covalent_server.completed(silent)
    assert logs(silent, 0).why.endswith(
        " is COMPLETED: nothing was written there; stderr has 4 bytes (ask for the file 'stderr')"
    )


class Cell(HTMLParser):
    """The tags of a cell, and what is read in it."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, [name for name, _ in attributes]))

    def handle_data(self, data):
        self.text += data


def test_markup_of_a_job_is_text_in_a_notebook(covalent_server):
    script = f"""
async def run(output, say):
    await say({chr(10).join(MARKUP)!r}.encode(), "<script>.log")
    await say(b"x\\n" * 600, "many.log")
"""
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)
    cell = Cell(logs(dispatch_id, 0, file="<script>.log")._repr_html_())
    assert cell.tags == [("div", []), ("small", []), ("pre", ["style"])]
    assert "of <script>.log" in cell.text
    for line in [*MARKUP[:3], "<b>red</b>", "\\x1b]0;<i>title</i>\\x07", MARKUP[5]]:
        assert line in cell.text
    nothing = Cell(logs(dispatch_id, 0)._repr_html_())
    assert nothing.tags == [("div", []), ("small", []), ("div", []), ("em", [])]
    assert "the file '<script>.log'" in nothing.text
    many = Cell(logs(dispatch_id, 0, file="many.log")._repr_html_())
    assert "100 earlier lines; str() has them all" in many.text
    assert many.text.count("x\n") == 499


_TREE = """
import covalent as ct
local = ct.executor.LocalJobLogExecutor()

@ct.electron(executor=local)
def train(n): print(f"c{n}")

@ct.electron(executor=local)
@ct.lattice
def inner():
    train(0)
    train(1)

@ct.electron(executor=local)
def alone(): print("alone")

@ct.lattice
def flow():
    inner()
    alone()
"""


def test_what_is_in_a_sublattice_is_shown_once_and_labelled(covalent_server):
    dispatch_id = dispatch_flow(covalent_server, _TREE)
    follower = Following(dispatch_id)
    assert covalent_server.finished(dispatch_id) == ("COMPLETED" if SUBLATTICES_RUN else "FAILED")
    if not SUBLATTICES_RUN:
        return
    expected = ["[alone] alone", "[inner/train#0] c0", "[inner/train#2] c1"]
    assert sorted(logs(dispatch_id)) == expected
    assert sorted(follower.end()) == expected
    assert sorted(logs(dispatch_id, "train*")) == expected[1:]
    assert sorted(logs(dispatch_id, "inner")) == expected[1:]
    (child,) = [node for node in logs(dispatch_id, "inner").nodes if node.name == ":sublattice:inner"]
    assert logs(dispatch_id, child.node_id).nodes[0].sub_dispatch_id == child.sub_dispatch_id
    assert sorted(logs(child.sub_dispatch_id)) == ["[train#0] c0", "[train#2] c1"]


def test_a_window_of_much_that_is_idle_then_finished(covalent_server, tmp_path):
    script = f"""
import pathlib
async def run(output, say):
    await say(b"".join(b"line %05d\\n" % n for n in range(15_000)))
    await asyncio.sleep(2.5)
    await say(b"late\\n")
    while not pathlib.Path({str(tmp_path / "end")!r}).exists():
        await asyncio.sleep(0.02)
"""
    lines = [*(f"line {n:05}" for n in range(15_000)), "late"]
    dispatch_id = dispatch(covalent_server, script)
    eventually(lambda: covalent_server.status(dispatch_id) == "RUNNING", 30, "the node")
    everything, window = Following(dispatch_id, 0), Following(dispatch_id, 0, tail=10)
    eventually(lambda: len(everything.lines) == 15_001 and window.lines[-1:] == ["late"], 60, "all lines")
    late = list(logs(dispatch_id, 0).lines())[-1]

    def check():
        assert list(logs(dispatch_id, 0, tail=10_000)) == lines[-10_000:]
        since = logs(dispatch_id, 0, since=datetime.fromtimestamp(late.time - 0.001, timezone.utc))
        assert list(since) == ["late"]

    check()
    (tmp_path / "end").touch()
    covalent_server.completed(dispatch_id)
    check()
    assert everything.end() == lines
    assert window.end()[-1] == "late"
    assert list(logs(dispatch_id, 0, follow=True, tail=10_000)) == lines[-10_000:]
    with pytest.raises(OutputNotFound, match="knows no dispatch"):
        logs("0" * 8 + "-0000-0000-0000-" + "0" * 12, 0, follow=True).__iter__().__next__()
