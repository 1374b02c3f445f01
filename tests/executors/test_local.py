# SPDX-License-Identifier: Apache-2.0
"""``LocalJobLogExecutor`` on a real Covalent server."""

import hashlib
import os
from pathlib import Path

import pytest

from covalent_joblog_plugin.executors.joblog_local import LocalJobLogExecutor
from covalent_joblog_plugin.model.errors import OptionError
from tests.executors.dispatches import cancel, dispatch, electron_ids, node, wait_for_text
from tests.rigs.covalent_server import CovalentServer, eventually

pytestmark = pytest.mark.covalent

FLOW = """
import covalent as ct
local = ct.executor.LocalJobLogExecutor(**options)

@ct.electron(executor=local)
def task(*values):
    exec(body, {"values": values, **given})

@ct.lattice
def flow():
    return task(1)
"""


def run(server: CovalentServer, body: str, options: dict[str, object] | None = None, **given: object) -> str:
    """Dispatch one electron whose body is ``body``; the dispatch's id."""
    return dispatch(server, FLOW, body=body, options=options or {}, given=given)


def done(server: CovalentServer, body: str, **options: object) -> dict[str, object]:
    """The node of one electron with that body, after its end."""
    dispatch_id = run(server, body, options)
    server.finished(dispatch_id)
    return node(server, dispatch_id, 0)


def test_each_line_is_in_the_node_result_while_the_task_runs(
    covalent_server: CovalentServer, tmp_path: Path
) -> None:
    body = """
import os, time
for n in range(4):
    print("line", n)
    while not os.path.exists(f"{gate}/{n}"): time.sleep(0.02)
"""
    dispatch_id = run(covalent_server, body, gate=str(tmp_path))
    earlier = ""
    for n in range(4):
        wait_for_text(covalent_server, dispatch_id, 0, lambda text, n=n: b"line %d\n" % n in text)
        seen = node(covalent_server, dispatch_id, 0)
        assert seen["status"] == "RUNNING"
        assert seen["stdout"].startswith(earlier)
        assert seen["stdout"] == "".join(f"line {m}\n" for m in range(n + 1))
        earlier = seen["stdout"]
        (tmp_path / str(n)).touch()
    assert covalent_server.finished(dispatch_id) == "COMPLETED"
    assert node(covalent_server, dispatch_id, 0)["stdout"] == earlier


def test_what_children_and_c_code_write_is_captured_in_its_order(covalent_server: CovalentServer) -> None:
    found = done(
        covalent_server,
        """
import ctypes, os, subprocess, sys
print("python")
subprocess.run(["sh", "-c", "echo child; echo oops >&2"])
os.write(1, b"descriptor\\n")
libc = ctypes.CDLL(None)
libc.puts(b"c library")
libc.fflush(None)
print("warned", file=sys.stderr)
""",
    )
    assert found["status"] == "COMPLETED"
    assert found["stdout"] == "python\nchild\ndescriptor\nc library\n"
    assert found["stderr"] == "oops\nwarned\n"


def test_a_failing_task_keeps_its_text_and_says_why(covalent_server: CovalentServer) -> None:
    found = done(covalent_server, "print('before'); raise ValueError('bad value')")
    assert found["status"] == "FAILED"
    assert found["stdout"] == "before\n"
    assert "ValueError: bad value" in found["error"]
    assert "ValueError: bad value" in found["stderr"]


@pytest.mark.parametrize(
    ("ending", "word"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("import os; os._exit(3)", "3"),
        ("import sys; sys.exit(5)", "5"),
        ("import sys; sys.exit(0)", "sys.exit"),
    ],
)
def test_a_task_that_ends_its_process_fails_with_its_text_kept(
    covalent_server: CovalentServer, ending: str, word: str
) -> None:
    found = done(covalent_server, f"print('last words', flush=True)\n{ending}")
    assert found["status"] == "FAILED"
    assert found["stdout"] == "last words\n"
    assert word in found["error"]


def test_bytes_that_are_no_text_do_not_hurt_the_result(covalent_server: CovalentServer) -> None:
    found = done(
        covalent_server, "import os; os.write(1, b'caf\\xe9 ok\\n\\0\\r50%\\r100%\\n' + '€'.encode()[:2])"
    )
    assert found["status"] == "COMPLETED"
    assert found["stdout"] == "caf? ok\n\0\r50%\r100%\n??"


def test_nothing_printed_is_an_empty_text(covalent_server: CovalentServer) -> None:
    found = done(covalent_server, "pass")
    assert (found["status"], found["stdout"] or "", found["stderr"] or "") == ("COMPLETED", "", "")


def test_a_burst_arrives_whole_before_the_status(covalent_server: CovalentServer) -> None:
    size = 200 * 1000 * 1000
    body = """
import os
line = b"0123456789abcdef" * 62 + b"1234567\\n"
for _ in range(200): os.write(1, line * 1000)
"""
    dispatch_id = run(covalent_server, body, {"max_node_bytes": 1 << 30})
    assert covalent_server.finished(dispatch_id, timeout=120) == "COMPLETED"
    text = covalent_server.stdout(dispatch_id, 0)
    line = b"0123456789abcdef" * 62 + b"1234567\n"
    assert len(text) == size
    assert hashlib.sha256(text).digest() == hashlib.sha256(line * (size // len(line))).digest()


def test_concurrent_tasks_never_get_each_others_lines(covalent_server: CovalentServer) -> None:
    script = """
import covalent as ct
local = ct.executor.LocalJobLogExecutor()

@ct.electron(executor=local)
def chatter(n):
    import random, time
    for i in range(50):
        print(f"n{n} {i}")
        time.sleep(random.random() / 50)

@ct.lattice
def flow():
    return [chatter(n) for n in range(20)]
"""
    dispatch_id = dispatch(covalent_server, script)
    assert covalent_server.finished(dispatch_id, timeout=120) == "COMPLETED"
    nodes = electron_ids(covalent_server, dispatch_id, "chatter")
    assert len(nodes) == 20
    said = sorted(covalent_server.stdout(dispatch_id, n).decode() for n in nodes)
    assert said == sorted("".join(f"n{n} {i}\n" for i in range(50)) for n in range(20))


def test_cancel_ends_the_whole_group_and_keeps_its_last_words(
    covalent_server: CovalentServer, tmp_path: Path
) -> None:
    body = """
import os, signal, subprocess, sys, time
child = subprocess.Popen(["sleep", "300"])
open(f"{folder}/pids", "w").write(f"{os.getpid()} {child.pid}")
def last(*_):
    print("last words", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, last)
print("running", flush=True)
time.sleep(300)
"""
    dispatch_id = run(covalent_server, body, folder=str(tmp_path))
    wait_for_text(covalent_server, dispatch_id, 0, lambda text: b"running\n" in text)
    cancel(covalent_server, dispatch_id, 0)
    covalent_server.finished(dispatch_id)
    found = node(covalent_server, dispatch_id, 0)
    assert found["status"] == "CANCELLED"
    assert found["stdout"] == "running\nlast words\n"
    for pid in (tmp_path / "pids").read_text().split():
        eventually(lambda pid=pid: not _alive(pid), 10, f"end of process {pid}")


def _alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_time_limit_ends_the_task_and_says_so(covalent_server: CovalentServer) -> None:
    found = done(covalent_server, "import time; print('begun', flush=True); time.sleep(300)", time_limit=1)
    assert found["status"] == "FAILED"
    assert found["stdout"] == "begun\n"
    assert "time_limit=1 s" in found["error"]


def test_extra_files_lie_beside_the_nodes_own(covalent_server: CovalentServer, tmp_path: Path) -> None:
    body = "open('losses.csv', 'w').write('step,loss\\n0,1.5\\n')"
    dispatch_id = run(covalent_server, body, {"workdir": str(tmp_path), "log_files": ["losses.csv"]})
    assert covalent_server.finished(dispatch_id) == "COMPLETED"
    folder = covalent_server.results_dir / dispatch_id / "node_0"
    found = [p.read_bytes() for p in folder.rglob("*losses.csv*")]
    assert found == [b"step,loss\n0,1.5\n"]


def test_a_background_child_that_prints_after_the_end_delays_nothing_for_ever(
    covalent_server: CovalentServer,
) -> None:
    found = done(
        covalent_server,
        "import subprocess; print('mine', flush=True); subprocess.Popen(['sh', '-c', 'sleep 60; echo late'])",
    )
    assert found["status"] == "COMPLETED"
    assert found["stdout"] == "mine\n"


def test_no_scratch_folder_is_left_behind(covalent_server: CovalentServer) -> None:
    done(covalent_server, "print('x')")
    cache = covalent_server.root / "cache"
    eventually(lambda: not list(cache.glob("joblog-*")), 10, "removal of scratch folders")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"log_interval": 0}, "log_interval=0"),
        ({"log_file": "x"}, "did you mean 'log_files'"),
        ({"environment": {"A B": "x"}}, "'A B'"),
        ({"helper_nodes": "there"}, "helper_nodes='there'"),
        ({"log_files": [1]}, "log_files=[1]"),
        ({"max_log_bytes": "1G"}, "max_log_bytes='1G'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_dispatched(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(OptionError) as caught:
        LocalJobLogExecutor(**options).to_dict()  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_an_option_that_an_old_dispatch_lacks_has_its_default() -> None:
    executor = LocalJobLogExecutor(workdir="elsewhere")
    travelled = executor.to_dict()
    del travelled["attributes"]["final_read_timeout"]
    arrived = LocalJobLogExecutor()
    arrived.from_dict(travelled)
    assert (arrived.final_read_timeout, arrived.workdir) == (60, "elsewhere")
    with pytest.raises(AttributeError):
        _ = arrived.never_an_option
    assert os.sep in LocalJobLogExecutor().workdir


def test_a_log_of_300_mb_costs_the_server_little_memory(covalent_server: CovalentServer) -> None:
    """It passes through in pieces, and only its beginning is in Covalent's own asset."""
    process = Path(f"/proc/{covalent_server.pid}")
    done(covalent_server, "print('warmed up')")
    before = _kib(process, "VmRSS")
    (process / "clear_refs").write_text("5")  # forget the highest use so far
    line = "x" * 79 + "\n"
    dispatch_id = run(
        covalent_server, f"import os\nfor _ in range(300): os.write(1, {line!r}.encode() * 12_500)"
    )
    assert covalent_server.finished(dispatch_id, timeout=120) == "COMPLETED"
    assert _kib(process, "VmHWM") - before < 64 * 1024
    folder = covalent_server.results_dir / dispatch_id / "node_0"
    asset = folder / "stdout.log"
    (rest,) = (folder / "joblog").glob("stdout.from-*")
    assert asset.stat().st_size == 64 << 20
    assert asset.stat().st_size + rest.stat().st_size == 300_000_000
    for path in (asset, rest):
        path.unlink()


def _kib(process: Path, field: str) -> int:
    return int(
        next(s for s in (process / "status").read_text().splitlines() if s.startswith(field)).split()[1]
    )
