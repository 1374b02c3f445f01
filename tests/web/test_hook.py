# SPDX-License-Identifier: Apache-2.0
"""The hook on Covalent's web server: cheap where there is none, and in time where there is one."""

import pytest

from tests.rigs.covalent_server import eventually
from tests.store.scripts import dispatch

GATED = """
import pathlib
async def run(output, say):
    await say(b"0123456789" * 10)
    while not pathlib.Path({gate!r}).exists():
        await asyncio.sleep(0.02)
"""


def test_installing_it_imports_nothing_of_covalent(covalent_server):
    answer = covalent_server.client(
        """
import subprocess, sys
code = '''
import sys
from covalent_joblog_plugin.web import hook
hook.install()
hook.install()
print(sorted(m for m in sys.modules if m.split(".")[0] in ("covalent", "covalent_ui", "covalent_dispatcher")))
'''
answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
"""
    )
    assert answer == "[]\n"


def test_importing_covalent_brings_in_neither_dispatcher_nor_web_server(covalent_server):
    answer = covalent_server.client(
        """
import subprocess, sys
code = '''
import sys, covalent
assert covalent.executor.StoreScriptExecutor
print("covalent_joblog_plugin.store.node_output" in sys.modules)
print(sorted(m for m in sys.modules if m.split(".")[0] in ("covalent_ui", "covalent_dispatcher")))
'''
done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
answer = done.stdout + done.stderr
"""
    )
    assert answer == "True\n[]\n"


@pytest.mark.parametrize(
    "code",
    [
        "import covalent_ui.api.main",
        """
import covalent, covalent_ui.api.main as server
server.app.middleware_stack = server.app.build_middleware_stack()
from covalent_joblog_plugin.web import hook
hook._installed.clear()
hook.install()
""",
    ],
    ids=["half imported", "already built"],
)
def test_a_server_it_cannot_extend_is_left_as_it_is_with_one_warning(covalent_server, code):
    returncode, said = covalent_server.client(
        """
import subprocess, sys
done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
answer = [done.returncode, done.stderr]
""",
        code=code,
    )
    assert returncode == 0, said
    assert said.count("growing output is served as it is on disk") == 1


def test_the_real_server_serves_a_growing_file_by_range_and_head(covalent_server, tmp_path):
    gate = tmp_path / "gate"
    dispatch_id = dispatch(covalent_server, GATED.format(gate=str(gate)))
    path = f"/api/v0/files/{dispatch_id}/node_0/stdout.log"
    eventually(lambda: covalent_server.get(path).status == 200, 20, "the file")
    eventually(lambda: covalent_server.get(path).body == b"0123456789" * 10, 20, "its text")
    head = covalent_server.get(path, method="HEAD")
    assert (head.status, head.headers["content-length"], head.body) == (200, "100", b"")
    part = covalent_server.get(path, {"Range": "bytes=15-24"})
    assert (part.status, part.body, part.headers["content-range"]) == (206, b"5678901234", "bytes 15-24/100")
    assert covalent_server.get(path, {"Range": "bytes=100-"}).status == 416
    gate.touch()
    covalent_server.completed(dispatch_id)
    assert covalent_server.get(path).body == b"0123456789" * 10


def test_names_that_climb_out_reach_nothing(covalent_server, tmp_path):
    gate = tmp_path / "gate"
    dispatch_id = dispatch(covalent_server, GATED.format(gate=str(gate)))
    node = f"/api/v0/files/{dispatch_id}/node_0"
    eventually(lambda: covalent_server.get(node + "/stdout.log").status == 200, 20, "the file")
    (covalent_server.results_dir / dispatch_id / "node_0" / "outside").symlink_to(covalent_server.config_dir)
    neighbour = covalent_server.results_dir.with_name("data-old")
    neighbour.mkdir()
    (neighbour / "covalent.conf").write_text("dispatcher")
    for name in (
        "%2e%2e/%2e%2e/%2e%2e/config/covalent.conf",
        "..%2f..%2f..%2fconfig/covalent.conf",
        "outside/covalent.conf",
        "%2e%2e/%2e%2e/%2e%2e/data-old/covalent.conf",
        "..%2f..%2f..%2fdata-old%2fcovalent.conf",
        "/etc/passwd",
        "stdout.log%00",
    ):
        response = covalent_server.get(f"{node}/{name}")
        assert response.status >= 400, name
        assert b"dispatcher" not in response.body
        assert b"root:" not in response.body
    gate.touch()
    covalent_server.completed(dispatch_id)
