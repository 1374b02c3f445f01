# SPDX-License-Identifier: Apache-2.0
"""What the routes answer, for nodes of every executor, and what they refuse."""

import json
import random
import time

import pytest

from tests.rigs.covalent_server import SUBLATTICES_RUN, eventually
from tests.store.scripts import dispatch
from tests.store.test_reading import STOCK, SUBLATTICE
from tests.web.events import ROOT, ask, path_of, piece

SOURCE = bytes(range(256)) * 40 + "é€😀".encode() * 100

SAYS = f"""
async def run(output, say):
    source = {SOURCE!r}
    for at in range(0, len(source), 999):
        await say(source[at:at + 999], execution=at // 5000)
    await say(b"rank one", "rank1.stdout")
    await say(b"extra", "../losses.csv")
    await output.remember({{"job": {{"id": 7}}}})
    await output.remember({{"capabilities": {{"read": {{"answer": "yes", "reason": ""}}}}}})
"""
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def finished(covalent_server):
    """A dispatch with one node that said ``SAYS``."""
    dispatch_id = dispatch(covalent_server, SAYS, max_node_bytes=3000)
    covalent_server.completed(dispatch_id)
    return dispatch_id


@pytest.fixture(scope="module")
def stock(covalent_server):
    """A dispatch with one node of Covalent's own local executor."""
    dispatch_id = covalent_server.client(STOCK)
    covalent_server.completed(dispatch_id)
    return dispatch_id


def test_health_tells_who_serves(covalent_server):
    health = ask(covalent_server, f"{ROOT}/health")
    assert health["version"]
    assert health["covalent"].startswith("0.240")
    assert health["started"] < time.time()
    assert ask(covalent_server, f"{ROOT}/health")["instance"] == health["instance"]


def test_a_node_tells_all_that_is_known_of_it(covalent_server, finished):
    node = ask(covalent_server, path_of(finished))
    files = node.pop("files")
    assert node == {
        "dispatch_id": finished,
        "node_id": 0,
        "name": "task",
        "status": "COMPLETED",
        "executor": "store_script",
        "sub_dispatch_id": None,
        "state": "closed",
        "growing": False,
        "note": "",
        "trouble": "",
        "job": {"id": 7},
        "capabilities": {"read": {"answer": "yes", "reason": ""}},
        "reading": None,
    }
    assert [(file["name"], file["stream"], file["rank"], file["size"]) for file in files] == [
        ("stdout", "stdout", 0, len(SOURCE)),
        ("stderr", "stderr", 0, 0),
        ("../losses.csv", None, None, 5),
        ("rank1.stdout", "stdout", 1, 8),
    ]


def test_a_node_of_another_executor_is_served_as_well(covalent_server, stock):
    node = ask(covalent_server, path_of(stock))
    assert (node["state"], node["growing"], node["executor"]) == ("absent", False, "local")
    assert [(file["name"], file["size"]) for file in node["files"]] == [("stdout", 5), ("stderr", 11)]
    assert {name: c["answer"] for name, c in node["capabilities"].items()} == {
        "read": "yes",
        "follow": "no",
        "retained": "yes",
        "split_streams": "yes",
        "truncation": "unknown",
        "complete": "unknown",
    }
    assert "hands its output over at the end" in node["capabilities"]["follow"]["reason"]
    assert piece(covalent_server, stock)[1] == b"said\n"
    assert piece(covalent_server, stock, file="stderr", cursor=-5)[1] == b"ined\n"
    error = ask(covalent_server, path_of(stock, what="output", since=1), 409)["error"]
    assert error["code"] == "unsupported"


def test_a_dispatch_names_its_nodes(covalent_server):
    dispatch_id = covalent_server.client(SUBLATTICE)
    covalent_server.finished(dispatch_id)
    answer = ask(covalent_server, f"{ROOT}/{dispatch_id}")
    assert (answer["dispatch_id"], answer["name"]) == (dispatch_id, "flow")
    assert answer["nodes"][0]["name"].endswith("inner")
    sub = answer["nodes"][0]["sub_dispatch_id"]
    assert bool(sub) == SUBLATTICES_RUN
    if sub:
        assert ask(covalent_server, f"{ROOT}/{sub}")["nodes"][0]["name"] == "task"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000, 1 << 20])
def test_pieces_of_any_size_follow_each_other_to_the_end(covalent_server, finished, size):
    cursor = 0 if size > 100 else len(SOURCE) - 60
    start, got, total = cursor, b"", None
    while cursor != total:
        answer, data = piece(covalent_server, finished, cursor=cursor, size=size)
        assert (answer["file"], answer["cursor"], answer["total"]) == ("stdout", cursor, len(SOURCE))
        assert 0 < len(data) <= size
        cursor, total, got = answer["next"], answer["total"], got + data
    assert got == SOURCE[start:]
    assert piece(covalent_server, finished, cursor=cursor)[1] == b""


@pytest.mark.parametrize("cursor", [0, 5, len(SOURCE) - 1, len(SOURCE), len(SOURCE) + 1])
def test_a_piece_in_bytes_is_the_same_without_base64(covalent_server, finished, cursor):
    path = path_of(finished, what="output", cursor=cursor, size=4000)
    answer = covalent_server.get(path, {"Accept": "application/octet-stream"})
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Vary"] == "Accept"
    head, data = answer.body.split(b"\n", 1)
    assert data == SOURCE[cursor : cursor + 4000]
    assert json.loads(head) == {**ask(covalent_server, path), "data": ""}


def test_any_range_is_exact_and_told_when_it_arrived(covalent_server, finished):
    rng = random.Random(3)
    for _ in range(40):
        cursor, size = rng.randrange(len(SOURCE)), rng.randrange(1, 4000)
        answer, data = piece(covalent_server, finished, cursor=cursor, size=size)
        assert data == SOURCE[cursor : cursor + size]
        arrivals = [entry for entry in answer["entries"] if "arrival" in entry]
        assert arrivals[0]["cursor"] <= cursor
        assert all(entry["cursor"] <= answer["next"] for entry in answer["entries"])
        executions = {entry["execution"] for entry in arrivals}
        assert {at // 999 * 999 // 5000 for at in (cursor, answer["next"] - 1)} <= executions


def test_a_place_can_be_told_from_the_end_or_by_time(covalent_server, finished):
    answer, data = piece(covalent_server, finished, cursor=-10)
    assert (answer["cursor"], data) == (len(SOURCE) - 10, SOURCE[-10:])
    assert piece(covalent_server, finished, cursor=-(10**9))[0]["cursor"] == 0
    answer, data = piece(covalent_server, finished, cursor=10**9)
    assert (answer["next"], answer["total"], data) == (10**9, len(SOURCE), b"")
    assert piece(covalent_server, finished, since=0)[0]["cursor"] == 0
    assert piece(covalent_server, finished, since=time.time() + 9)[0]["cursor"] == len(SOURCE)
    assert piece(covalent_server, finished, file="stderr", since=time.time())[0]["cursor"] == 0


def test_the_next_error_is_found_and_so_is_the_one_before(covalent_server):
    script = """
async def run(output, say):
    for n in range(1000):
        worse = b"ERROR no room\\n" if n in (500, 700) else b""
        await say(b"INFO step %d\\n" % n + worse, execution=n // 600)
"""
    dispatch_id = dispatch(covalent_server, script)
    covalent_server.completed(dispatch_id)

    def search(**asked):
        return ask(covalent_server, path_of(dispatch_id, what="search", **asked))

    first = search(severity="error", most=1)
    (line,) = first["lines"]
    assert (line["text"], line["severity"], line["execution"]) == ("ERROR no room", "ERROR", 0)
    assert first["next"] == line["cursor"] + line["size"]
    second = search(severity="ERROR", most=1, cursor=first["next"])["lines"][0]
    assert (second["execution"], second["cursor"] > line["cursor"]) == (1, True)
    assert search(severity="ERROR", most=1, before=second["cursor"])["lines"] == [line]
    rest = search(severity="ERROR", cursor=second["cursor"] + second["size"])
    assert (rest["lines"], rest["next"]) == ([], rest["total"])
    assert [found["text"] for found in search(query=["step 99", "room"], exclude="step 99")["lines"]] == [
        "ERROR no room"
    ] * 2
    assert len(search(query="step 1[0-9]$", regex=True)["lines"]) == 10
    assert search(query="step 1[0-9]$")["lines"] == []


def test_head_tells_the_length_of_what_get_answers(covalent_server, finished):
    for path in (f"{ROOT}/health", f"{ROOT}/{finished}", path_of(finished), path_of(finished, what="output")):
        whole, head = covalent_server.get(path), covalent_server.get(path, method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == str(len(whole.body))
        assert whole.headers["cache-control"] == head.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "status", "code", "says"),
    [
        (f"{ROOT}/{UNKNOWN}/0", 404, "not_found", "no dispatch"),
        (f"{ROOT}/{UNKNOWN}", 404, "not_found", "no dispatch"),
        (f"{ROOT}/{UNKNOWN}/0/events", 404, "not_found", "no dispatch"),
        (f"{ROOT}/{UNKNOWN}/0/download", 404, "not_found", "no dispatch"),
        ("{node}9", 404, "not_found", "no node 9"),
        (f"{ROOT}/nonsense/0", 400, "bad_request", "dispatch_id"),
        (f"{ROOT}/{UNKNOWN.upper()}x/0", 400, "bad_request", "dispatch_id"),
        (f"{ROOT}/%2e%2e/0/output", 400, "bad_request", "dispatch_id"),
        ("{node}-1", 400, "bad_request", "node_id"),
        ("{node}x", 400, "bad_request", "node_id"),
        ("{node}99999999999999999999", 400, "bad_request", "node_id"),
        ("{node}0/output?size=0", 400, "bad_request", "size"),
        ("{node}0/output?size=1048577", 400, "bad_request", "size"),
        ("{node}0/output?cursor=9223372036854775807", 400, "bad_request", "cursor"),
        ("{node}0/output?since=inf", 400, "bad_request", "since"),
        ("{node}0/search", 400, "bad_request", "query or severity"),
        ("{node}0/search?query=a&cursor=1&before=2", 400, "bad_request", "leave one out"),
        ("{node}0/search?query=[&regex=true", 400, "bad_request", "no regular expression"),
        ("{node}0/search?severity=loud", 400, "bad_request", "severity"),
        ("{node}0/output?cursor=1&since=1", 400, "bad_request", "leave one out"),
        ("{node}0/output?file=rank2.stdout", 404, "not_found", "no output 'rank2.stdout'"),
        ("{node}0/download?file=%00", 404, "not_found", "no output"),
        ("{node}0/output?file=../stdout.log", 404, "not_found", "no output"),
        ("{node}0/output?file=%2Fetc%2Fpasswd", 404, "not_found", "no output"),
        ("{node}0/download?file=../../index.jsonl", 404, "not_found", "no output"),
        ("{node}0/output?file=" + "x" * 5000, 400, "bad_request", "file"),
    ],
)
def test_what_cannot_be_answered_is_said_with_a_code_and_a_next_step(
    covalent_server, finished, path, status, code, says
):
    error = ask(covalent_server, path.format(node=f"{ROOT}/{finished}/"), status)["error"]
    assert error["code"] == code
    assert says in error["message"]
    assert error["next_step"]
    assert bool(error["exists"]) == (code == "not_found")


def test_an_output_that_may_come_is_not_there_yet(covalent_server, tmp_path):
    script = f"""
import pathlib
async def run(output, say):
    while not pathlib.Path({str(tmp_path / "gate")!r}).exists():
        await asyncio.sleep(0.01)
"""
    dispatch_id = dispatch(covalent_server, script)
    eventually(lambda: ask(covalent_server, path_of(dispatch_id))["state"] == "live", 20, "its begin")
    assert piece(covalent_server, dispatch_id) == (
        {**piece(covalent_server, dispatch_id)[0], "total": 0},
        b"",
    )
    error = ask(covalent_server, path_of(dispatch_id, what="output", file="rank1.stdout"), 404)["error"]
    assert (error["code"], "it has ['stdout', 'stderr']" in error["message"]) == ("not_yet", True)
    (tmp_path / "gate").touch()
    covalent_server.completed(dispatch_id)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(covalent_server, finished, method):
    for what in ("", "output", "events", "download"):
        assert covalent_server.get(path_of(finished, what=what), method=method).status >= 400
    assert piece(covalent_server, finished)[1] == SOURCE


def test_a_link_in_the_nodes_folder_leads_nowhere(covalent_server, tmp_path):
    dispatch_id = dispatch(covalent_server, "async def run(output, say): await say(b'x', 'rank1.stdout')")
    covalent_server.completed(dispatch_id)
    (tmp_path / "secret").write_bytes(b"secret")
    node = covalent_server.results_dir / dispatch_id / "node_0"
    for path, file in (
        (node / "stdout.log", "stdout"),
        (node / "joblog" / "files" / "rank1.stdout", "rank1.stdout"),
    ):
        path.unlink()
        path.symlink_to(tmp_path / "secret")
        for what in ("output", "download"):
            assert b"secret" not in covalent_server.get(path_of(dispatch_id, what=what, file=file)).body


def test_the_documentation_names_every_route_with_get_and_head_alone(covalent_server):
    document = json.loads(covalent_server.get("/openapi.json").body)
    paths = document["paths"]
    ours = {path: set(methods) for path, methods in paths.items() if path.startswith(ROOT)}
    node = ROOT + "/{dispatch_id}/{node_id}"
    assert set(ours) == {
        f"{ROOT}/health",
        ROOT + "/{dispatch_id}",
        node,
        f"{node}/output",
        f"{node}/events",
        f"{node}/search",
        f"{node}/download",
    }
    assert all(methods == {"get", "head"} for methods in ours.values())
    data = document["components"]["schemas"]["PieceAnswer"]["properties"]["data"]
    assert (data["type"], data["format"], data["contentEncoding"]) == ("string", "byte", "base64")
    for what, media in (
        ("output", {"application/json", "application/octet-stream"}),
        ("events", {"text/event-stream"}),
        ("download", {"application/octet-stream"}),
    ):
        assert set(paths[f"{node}/{what}"]["get"]["responses"]["200"]["content"]) == media
