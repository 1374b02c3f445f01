# SPDX-License-Identifier: Apache-2.0
"""``/api/v0/files`` of a growing file: its committed length, and nothing but its own bytes."""

import asyncio
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covalent_joblog_plugin.store import live
from covalent_joblog_plugin.store.growing_file import GrowingFile
from covalent_joblog_plugin.web.live_files import LiveFiles

TEXT = bytes(range(32, 127)) * 10


async def covalents_own(scope, receive, send):  # noqa: ARG001
    """What is behind: answers 299 for whatever reaches it."""
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class Site:
    """A results folder with one growing file, and a client without a network."""

    def __init__(self, root):
        self.root = root
        self.node = root / "d" / "node_0"
        self.node.mkdir(parents=True)
        self.file = GrowingFile.create(self.node / "stdout.log")
        self.file.append(TEXT)
        live.add([self.file])
        self.app = LiveFiles(covalents_own, root=str(root))

    def ask(self, path="d/node_0/stdout.log", method="GET", **headers):
        """Status, headers and body of one request; ``path`` as the server decodes it."""
        return asyncio.run(self._ask(path, method, headers))

    async def _ask(self, path, method, headers):
        sent = []

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": "/api/v0/files/" + path,
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        }
        await self.app(scope, None, send)
        start, *bodies = sent
        assert not bodies[-1]["more_body"]
        return start["status"], dict(start["headers"]), b"".join(body["body"] for body in bodies)


@pytest.fixture
def site(tmp_path):
    root = tmp_path / "results"
    site = Site(root)
    yield site
    live.remove([site.file])


def test_only_committed_bytes_are_served_and_exactly_so_many(site):
    with (site.node / "stdout.log").open("ab") as file:
        file.write(b"half written")
    status, headers, body = site.ask()
    assert (status, body) == (200, TEXT)
    assert headers[b"content-length"] == str(len(TEXT)).encode()
    assert headers[b"content-type"] == b"text/plain; charset=utf-8"


def test_head_tells_the_length_and_sends_nothing(site):
    status, headers, body = site.ask(method="HEAD")
    assert (status, headers[b"content-length"], body) == (200, str(len(TEXT)).encode(), b"")
    status, headers, body = site.ask(method="HEAD", range="bytes=10-19")
    assert (status, headers[b"content-length"], body) == (206, b"10", b"")


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_other_methods_are_covalents(site, method):
    assert site.ask(method=method)[0] == 299


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-", 5, len(TEXT)),
        ("bytes=5-99999", 5, len(TEXT)),
        ("bytes=-7", len(TEXT) - 7, len(TEXT)),
        ("bytes=-99999", 0, len(TEXT)),
        (f"bytes={len(TEXT) - 1}-", len(TEXT) - 1, len(TEXT)),
    ],
)
def test_a_range_is_served_and_named(site, asked, first, end):
    status, headers, body = site.ask(range=asked)
    assert (status, body) == (206, TEXT[first:end])
    assert headers[b"content-range"] == f"bytes {first}-{end - 1}/{len(TEXT)}".encode()
    assert headers[b"content-length"] == str(end - first).encode()


@pytest.mark.parametrize("asked", [f"bytes={len(TEXT)}-", "bytes=99999-100000", "bytes=-0"])
def test_a_range_beyond_the_end_cannot_be_satisfied(site, asked):
    status, headers, body = site.ask(range=asked)
    assert (status, body) == (416, b"")
    assert headers[b"content-range"] == f"bytes */{len(TEXT)}".encode()


@pytest.mark.parametrize(
    "asked", ["bytes=0-1,5-6", "lines=0-1", "bytes=-", "bytes=9-3", "bytes=x-y", "", "bytes=²-"]
)
def test_what_need_not_be_understood_is_answered_with_everything(site, asked):
    status, _, body = site.ask(range=asked)
    assert (status, body) == (200, TEXT)


def test_a_condition_on_a_growing_file_never_holds(site):
    status, _, body = site.ask(range="bytes=0-1", if_range='"anything"')
    assert (status, body) == (200, TEXT)


def test_an_empty_file_is_served_empty(site):
    site.file.length = 0
    assert site.ask()[::2] == (200, b"")
    assert site.ask(range="bytes=0-")[0] == 416
    assert site.ask(range="bytes=-5")[0] == 416


@pytest.fixture
def neighbours(site):
    """Files outside, one in a folder whose name begins like the results folder's, and links to them."""
    (site.root.parent / "secret").write_bytes(b"secret")
    (site.root.parent / "results-old").mkdir()
    (site.root.parent / "results-old" / "x").write_bytes(b"secret")
    (site.node / "link").symlink_to(site.root.parent / "secret")
    (site.node / "old").symlink_to(site.root.parent / "results-old")
    (site.root / "d" / "linked").symlink_to(site.node)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
@pytest.mark.parametrize(
    "path",
    [
        "d/node_0/../../../secret",
        "../secret",
        "../results-old/x",
        "../results/../results-old/x",
        "/etc/passwd",
        "//etc/passwd",
        "d/node_0/stdout.log\0",
        "d/node_0/link",
        "d/node_0/old/x",
        "d/linked/link",
        "",
        ".",
        "..",
    ],
)
@pytest.mark.usefixtures("neighbours")
def test_no_name_leads_outside(site, path, method):
    status, _, body = site.ask(path, method)
    assert status == 404
    assert b"secret" not in body


@pytest.mark.parametrize("path", ["d/linked/stdout.log", "d", "d/node_0/function.tobj"])
@pytest.mark.usefixtures("neighbours")
def test_other_names_inside_are_covalents(site, path):
    assert site.ask(path)[0] == 299


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_output_that_does_not_exist_yet_is_not_found(site, method):
    assert site.ask("d/node_1/stdout.log", method)[0] == 404
    assert site.ask("d/node_0/stderr.log", method)[0] == 404
    assert site.ask("d/node_1/stdout.log", "PUT")[0] == 299


def test_a_growing_file_exchanged_for_a_link_is_not_followed(site):
    (site.root.parent / "secret").write_bytes(b"secret" * 1000)
    (site.node / "stdout.log").unlink()
    (site.node / "stdout.log").symlink_to(site.root.parent / "secret")
    assert site.ask()[0] == 404


def test_a_folder_exchanged_for_a_link_is_not_followed(site):
    outside = site.root.parent / "outside"
    outside.mkdir()
    (outside / "stdout.log").write_bytes(b"secret" * 1000)
    site.node.rename(site.root / "d" / "moved")
    site.node.symlink_to(outside)
    assert site.ask()[0] == 404
    site.node.unlink()
    site.node.symlink_to(site.root / "d" / "moved")
    assert site.ask()[0] == 299


def test_dots_that_stay_inside_reach_the_file(site):
    assert site.ask("d/x/../node_0/./stdout.log")[::2] == (200, TEXT)
    assert site.ask("d/node_0/stdout.log/")[::2] == (200, TEXT)


def test_a_file_no_longer_growing_is_covalents_unless_it_ends_inside_a_character(site):
    live.remove([site.file])
    assert site.ask()[0] == 299
    with (site.node / "stdout.log").open("ab") as file:
        file.write("€".encode()[:2])
    assert site.ask()[0] == 299  # not an asset we wrote
    (site.node / "joblog").mkdir()
    status, headers, body = site.ask()
    assert (status, body) == (200, TEXT)
    assert headers[b"content-length"] == str(len(TEXT)).encode()


def test_a_file_shortened_while_it_is_sent_ends_early_and_not_in_foreign_bytes(site):
    os.truncate(site.file.path, 100)
    status, headers, body = site.ask()
    assert (status, headers[b"content-length"], body) == (200, str(len(TEXT)).encode(), TEXT[:100])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_no_header_or_name_makes_it_fail(site, path, asked):
    status, _, body = site.ask(path, range=asked.encode("latin-1", "replace").decode("latin-1"))
    assert status in (200, 206, 299, 404, 416)
    assert status == 404 or body in TEXT
