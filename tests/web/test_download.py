# SPDX-License-Identifier: Apache-2.0
"""Downloads: the true bytes as a stream, and a clean beginning of them while the output grows."""

import http.client
import os
from contextlib import closing

import pytest

from tests.rigs.covalent_server import eventually
from tests.store.scripts import dispatch
from tests.store.test_server_end import UNIT, starts_the_text
from tests.web.events import downloaded, path_of

SOURCE = bytes(range(256)) * 1000

GROWING = f"""
import pathlib
async def run(output, say):
    n = 0
    while not pathlib.Path({{gate!r}}).exists():
        await say({UNIT!r} * (1 + n * 7919 % 3000 if n < 200 else 1))
        n += 1
        await asyncio.sleep(0.002)
"""


@pytest.fixture(scope="module")
def finished(covalent_server):
    dispatch_id = dispatch(
        covalent_server, f"async def run(output, say): await say({SOURCE!r})", max_node_bytes=999
    )
    covalent_server.completed(dispatch_id)
    return dispatch_id


def test_it_is_the_jobs_own_bytes_as_a_file_to_be_saved(covalent_server, finished):
    response = covalent_server.get(path_of(finished, what="download"))
    assert (response.status, response.body) == (200, SOURCE)
    headers = response.headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"] == f'attachment; filename="{finished[:8]}-0-stdout"'
    assert headers["content-length"] == str(len(SOURCE))
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["joblog-state"] == "closed"
    head = covalent_server.get(path_of(finished, what="download"), method="HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(SOURCE)))


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        ("bytes=0-9", 0, 10),
        ("bytes=990-1010", 990, 1011),
        ("bytes=250000-", 250_000, 256_000),
        ("bytes=-7", -7, None),
    ],
)
def test_a_range_is_served(covalent_server, finished, asked, first, end):
    response = covalent_server.get(path_of(finished, what="download"), {"Range": asked})
    start, stop, _ = slice(first, end).indices(len(SOURCE))
    assert (response.status, response.body) == (206, SOURCE[start:stop])
    assert response.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(SOURCE)}"


def test_a_range_beyond_the_end_is_refused_with_the_length(covalent_server, finished):
    response = covalent_server.get(path_of(finished, what="download"), {"Range": "bytes=256000-"})
    assert (response.status, response.body) == (416, b"")
    assert response.headers["content-range"] == "bytes */256000"


def test_while_the_output_grows_it_is_a_clean_beginning(covalent_server, tmp_path):
    gate = tmp_path / "gate"
    dispatch_id = dispatch(covalent_server, GROWING.format(gate=str(gate)), min_free=0)
    path = path_of(dispatch_id, what="download")
    eventually(lambda: covalent_server.get(path).status == 200, 20, "the node")
    eventually(lambda: len(covalent_server.get(path).body) > 500_000, 20, "some of it")
    lengths = []
    for _ in range(20):
        response = covalent_server.get(path)
        assert response.headers["joblog-state"] == "live"
        assert len(response.body) == int(response.headers["content-length"])
        assert starts_the_text(response.body)
        response.body.decode()
        lengths.append(len(response.body))
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]
    gate.touch()
    covalent_server.completed(dispatch_id)
    assert starts_the_text(downloaded(covalent_server, dispatch_id))


def test_a_file_cut_by_somebody_else_ends_the_connection_and_invents_nothing(covalent_server):
    dispatch_id = dispatch(
        covalent_server, f"async def run(output, say): await say({SOURCE!r}, 'rank1.stdout')"
    )
    covalent_server.completed(dispatch_id)
    file = covalent_server.results_dir / dispatch_id / "node_0" / "joblog" / "files" / "rank1.stdout"
    os.truncate(file, 100)
    assert downloaded(covalent_server, dispatch_id, file="rank1.stdout") == SOURCE[:100]


def test_a_server_that_stops_does_not_wait_for_a_client_that_does_not_read(fresh_covalent_server):
    server = fresh_covalent_server
    script = """
async def run(output, say):
    for n in range(30):
        await say(b"x" * 1_000_000)
"""
    dispatch_id = dispatch(server, script, min_free=0)
    server.completed(dispatch_id)
    with closing(http.client.HTTPConnection("localhost", server.port, timeout=30)) as connection:
        connection.request("GET", path_of(dispatch_id, what="download"))
        assert connection.getresponse().read(1) == b"x"
        server.term()  # CovalentServer waits for its end
    assert server.pid == 0
