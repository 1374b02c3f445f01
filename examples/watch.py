# SPDX-License-Identifier: Apache-2.0
"""Follow the output of a dispatch in the terminal: python examples/watch.py DISPATCH_ID.

It asks Covalent's own server for nothing but what stock Covalent serves, so it is also an example of how to
read the output from anywhere: the position in the file counts bytes, and what was read stays as it is.
"""

import codecs
import os
import re
import sys
import time

import covalent as ct
import requests

FINAL = {"COMPLETED", "FAILED", "CANCELLED", "POSTPROCESSING_FAILED"}
# A task's text is data: escape sequences and other control characters stay out of the terminal.
ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\))")


def printable(text):
    return "".join(c for c in ESCAPES.sub("", text.expandtabs()) if c.isprintable())


class Screen:
    """Finished lines scroll by; below them stands the unfinished line of each stream, such as a progress bar.

    Where the output is not a terminal, an unfinished line is written every other second, as a line.
    """

    def __init__(self):
        self.live = sys.stdout.isatty()
        self.below = {}  # stream: its unfinished line
        self.height = 0  # lines of it on the screen
        self.written = {}  # stream: when its unfinished line was last written

    def line(self, text):
        if self.live:
            self.draw(f"{text}\n")
        else:
            print(text, flush=True)

    def unfinished(self, stream, text):
        if self.live:
            self.below[stream] = text
            self.draw()
        elif time.monotonic() - self.written.get(stream, 0) >= 2:
            self.written[stream] = time.monotonic()
            print(text, flush=True)

    def clear(self, stream):
        if self.below.pop(stream, None):
            self.draw()

    def draw(self, above=""):
        # Cut to the terminal's width: a line that wraps could not be taken back.
        width = os.get_terminal_size().columns - 1
        back = f"\x1b[{self.height - 1}A" if self.height > 1 else ""
        rows = "\n".join(text[:width] for text in self.below.values())
        print(f"{back}\r\x1b[J{above}{rows}", end="", flush=True)
        self.height = len(self.below)


class Stream:
    """One stream of one node, read from where the last read ended."""

    def __init__(self, label, address, screen):
        self.label = label
        self.address = address
        self.screen = screen
        self.position = 0
        self.rest = ""
        # Text on its way may end within a character.
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, session):
        wanted = {"Range": f"bytes={self.position}-"}
        try:
            answer = session.get(self.address, headers=wanted, timeout=10)
        except requests.RequestException:
            return  # whether the server is gone shows when it is asked for the status
        if answer.status_code != requests.codes.partial_content:
            return  # not there yet, or nothing new
        self.position += len(answer.content)
        *lines, self.rest = (self.rest + self.decoder.decode(answer.content)).split("\n")
        if lines:
            self.screen.clear(self)
        for line in lines:
            self.screen.line(self.label + printable(newest(line)))
        if newest(self.rest).strip():
            self.screen.unfinished(self, self.label + printable(newest(self.rest)))

    def end(self):
        self.screen.clear(self)
        if newest(self.rest).strip():
            self.screen.line(self.label + printable(newest(self.rest)))


def newest(line):
    """What a terminal shows of a line that carriage returns wrote over and over."""
    return line.rstrip("\r").rpartition("\r")[2]


def server():
    return f"http://{ct.get_config('dispatcher.address')}:{ct.get_config('dispatcher.port')}"


def find_streams(manifest, streams, screen):
    """Add the streams of nodes not seen before; constants and Covalent's helper nodes print nothing."""
    for node in manifest["lattice"]["transport_graph"]["nodes"]:
        name = node["metadata"]["name"]
        if name.startswith(":") or node["id"] in streams:
            continue
        assets = node["assets"]
        streams[node["id"]] = [
            Stream(f"{name}[{node['id']}] ", assets[key]["remote_uri"], screen)
            for key in ("stdout", "stderr")
        ]


def watch(dispatch_id):
    """Print until the dispatch ends; returns its status."""
    session, screen, streams = requests.Session(), Screen(), {}
    while True:
        # The status first: what was written before the end is then read after it.
        answer = session.get(f"{server()}/api/v2/dispatches/{dispatch_id}", timeout=30)
        answer.raise_for_status()
        manifest = answer.json()
        find_streams(manifest, streams, screen)
        everything = [stream for both in streams.values() for stream in both]
        for _ in range(5):
            for stream in everything:
                stream.read(session)
            status = manifest["metadata"]["status"]
            if status in FINAL:
                for stream in everything:
                    stream.end()
                return status
            time.sleep(0.2)


def conclude(dispatch_id):
    """Print the workflow's result, or the error of every node that has one."""
    result = ct.get_result(dispatch_id)
    if result.status == "COMPLETED":
        print(f"result: {result.result}")
    for node in result.get_all_node_results():
        if node["error"]:
            print(f"{node['node_name']}[{node['node_id']}] {node['status']}: {node['error']}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        ended = watch(sys.argv[1])
    except KeyboardInterrupt:
        sys.exit("\nno longer watching; the workflow goes on")
    except requests.ConnectionError:
        sys.exit(f"no Covalent server answers at {server()}; start it with `covalent start` and watch again")
    except requests.HTTPError as error:
        sys.exit(f"the Covalent server does not show the dispatch {sys.argv[1]}: {error}; is the id right?")
    print(f"{sys.argv[1]} {ended}")
    conclude(sys.argv[1])
    sys.exit(ended != "COMPLETED")
