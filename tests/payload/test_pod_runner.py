# SPDX-License-Identifier: Apache-2.0
"""A call as the first process of a container: its output exact, its result and verdict delivered."""

import hashlib
import os
import signal
import subprocess
import time

from covalent_joblog_plugin.payload import pod_bundle
from covalent_joblog_plugin.payload.wording import error_text
from tests.payload.pods import ended, run, started, wait_for


def test_both_streams_and_a_small_result_come_back(tmp_path):
    def function():
        import os

        os.write(1, b"out\r\n\x00\xff\x1c@9 9\n\x1derr?\n")
        os.write(2, b"err\n\x1e\n")
        return {"answer": 42}

    done = run(tmp_path, function)
    assert (done.status, done.found.where, done.value) == (0, "inline", {"answer": 42})
    assert done.text(1) == b"out\r\n\x00\xff\x1c@9 9\n\x1derr?\n"
    assert done.text(2) == b"err\n\x1e\n"
    assert (done.complete, done.lost, done.stderr) == (True, [], b"")
    assert len(done.message.encode()) <= 4096


def test_long_lines_bars_and_streams_at_once_are_exact(tmp_path):
    def function():
        import hashlib
        import os
        import threading

        import tqdm

        hashes = [hashlib.sha256(), hashlib.sha256()]

        def write(stream, data):
            hashes[stream - 1].update(data)
            while data:
                data = data[os.write(stream, data) :]

        def flood(stream):
            write(stream, b"x" * 16_384 + b"\r\n" + b"y" * (1 << 20) + b"\n")
            for number in range(3000):
                write(stream, b"%d \xff\x1f\r%s" % (number, b"\n" * (number % 3)))

        threads = [threading.Thread(target=flood, args=(stream,)) for stream in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        class Bar:
            def write(self, text):
                write(2, text.encode())

            def flush(self):
                pass

        list(tqdm.tqdm(range(50), file=Bar(), mininterval=0))
        return [h.hexdigest() for h in hashes]

    done = run(tmp_path, function)
    assert [hashlib.sha256(done.text(stream)).hexdigest() for stream in (1, 2)] == done.value
    assert done.complete
    assert b"\r100%|" in done.text(2)


def test_a_bar_without_newlines_is_shown_while_the_function_runs(tmp_path):
    def function():
        import time

        print("10%\r", end="")
        time.sleep(60)

    process = started(tmp_path, function)
    began = time.monotonic()
    log = wait_for(process, b"10%\r\x1e\n")
    process.terminate()
    done = ended(tmp_path, process, log)
    assert time.monotonic() - began < 30
    assert (done.status, done.found.status, done.text(1)) == (143, -15, b"10%\r")


def test_the_last_words_after_sigterm_and_the_functions_own_status_arrive(tmp_path):
    def function():
        import signal
        import sys
        import time

        def stop(*_):
            print("saving a checkpoint")
            sys.exit(3)

        signal.signal(signal.SIGTERM, stop)
        print("ready")
        time.sleep(60)

    process = started(tmp_path, function)
    log = wait_for(process, b"ready\n")
    process.send_signal(signal.SIGTERM)
    done = ended(tmp_path, process, log)
    assert (done.status, done.verdict.kind, done.verdict.code) == (3, "exit", 3)
    assert done.text(1) == b"ready\nsaving a checkpoint\n"
    assert done.complete


def test_sigint_is_the_functions_keyboard_interrupt(tmp_path):
    def function():
        import time

        print("ready")
        time.sleep(60)

    process = started(tmp_path, function)
    log = wait_for(process, b"ready\n")
    process.send_signal(signal.SIGINT)
    done = ended(tmp_path, process, log)
    assert (done.status, done.verdict.type) == (1, "KeyboardInterrupt")


def test_a_killed_process_leaves_its_text_and_how_it_ended(tmp_path):
    def function():
        import os
        import signal

        os.write(1, b"unfinished")
        os.write(2, b"no memory\n")
        os.kill(os.getpid(), signal.SIGKILL)

    done = run(tmp_path, function)
    assert (done.status, done.found.status, done.verdict.kind, done.found.where) == (137, -9, "died", "")
    assert (done.text(1), done.text(2), done.complete) == (b"unfinished", b"no memory\n", True)
    assert "signal 9 (SIGKILL)" in error_text(done.verdict, done.found.status, done.text(2))


def test_a_raised_exception_is_told_in_what_kubernetes_keeps(tmp_path):
    def function():
        raise ValueError("é𝄞" * 5000)

    done = run(tmp_path, function)
    assert (done.status, done.verdict.kind, done.verdict.type) == (1, "exception", "ValueError")
    assert len(done.message.encode()) <= 4096
    assert done.verdict.message.startswith("é𝄞é𝄞")
    assert b"Traceback" in done.text(2)
    assert done.complete


def test_what_cannot_be_pickled_is_told(tmp_path):
    def function():
        import threading

        return threading.Lock()

    done = run(tmp_path, function)
    assert (done.status, done.verdict.kind) == (73, "unpicklable")


def test_processes_that_outlive_the_function_hold_up_the_end_for_two_seconds(tmp_path):
    def function():

        print("before")
        return subprocess.Popen(["sleep", "30"], start_new_session=True).pid

    process = started(tmp_path, function)
    log = wait_for(process, b"before\n")
    began = time.monotonic()
    done = ended(tmp_path, process, log)
    os.kill(done.value, signal.SIGKILL)
    assert 1.5 < time.monotonic() - began < 15
    assert (done.status, done.text(1), done.complete) == (0, b"before\n", True)


def test_what_a_process_writes_soon_after_the_functions_end_is_kept(tmp_path):
    def function():

        subprocess.Popen(["sh", "-c", "sleep 0.5; echo late; echo later >&2"], start_new_session=True)

    done = run(tmp_path, function)
    assert (done.status, done.text(1), done.text(2), done.complete) == (0, b"late\n", b"later\n", True)


def test_without_framing_the_log_is_what_the_function_wrote(tmp_path):
    def function():
        import os

        os.write(1, b"a\r\n\x1db")
        os.write(2, b"err")
        return os.urandom(100_000)

    done = run(tmp_path, function, with_framing=False)
    assert (done.status, done.log, done.stderr) == (0, b"a\r\n\x1db", b"err")
    assert (done.found.streams, done.found.where) == (None, "nowhere")


def test_a_log_that_nobody_takes_does_not_end_the_job(tmp_path):
    def function():
        for _ in range(3000):
            print("x" * 1000)
        return "done"

    process = started(tmp_path, function)
    process.stdout.close()
    process.stdout = None
    process.communicate(timeout=60)
    found = pod_bundle.parse_pod_verdict((tmp_path / "termination-log").read_text())
    assert (process.returncode, found.verdict.kind, found.streams["stdout"][0]) == (0, "ok", 3_003_000)


def test_carrying_costs_no_more_than_a_few_copies(tmp_path):
    """100 MB of 100-byte lines: what the job itself needs to write them is the measure."""

    def function():
        import os

        block = (b"x" * 99 + b"\n") * 600
        for _ in range(1700):
            os.write(1, block)

    began = os.times()
    done = run(tmp_path, function)
    assert done.complete
    assert len(done.text(1)) == 102_000_000
    spent = os.times()
    assert spent.children_user + spent.children_system - began.children_user - began.children_system < 10
