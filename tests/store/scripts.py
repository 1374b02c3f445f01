# SPDX-License-Identifier: Apache-2.0
"""Dispatches whose electrons run a test's lines inside the server."""

import json

_DISPATCH = """
import covalent as ct
from covalent import executor
runner = executor.StoreScriptExecutor(script=script, options=options)
@ct.electron(executor=runner)
def task(n): return n
@ct.lattice
def flow(count): return [task(n) for n in range(count)] if many else task(0)
answer = ct.dispatch(flow)(count)
"""

_RESULT = """
import covalent as ct
result = ct.get_result(dispatch_id, wait=wait)
answer = [result.get_node_result(n) for n in nodes]
answer = [{k: str(v) if k == "status" else v for k, v in a.items() if k in ("status", "stdout", "stderr")}
          for a in answer]
"""


def dispatch(server, script, count=1, **options):
    """Dispatch ``count`` electrons that run ``script``; the dispatch id."""
    return server.client(_DISPATCH, script=script, options=options, count=count, many=count > 1)


def results(server, dispatch_id, nodes=(0,), wait=True):
    """Status, stdout and stderr of nodes, by ``ct.get_result``."""
    return server.client(_RESULT, dispatch_id=dispatch_id, nodes=list(nodes), wait=wait)


def answer_of(server, dispatch_id):
    """What the dispatch's electron, or each of its electrons, returned."""
    return server.client("import covalent as ct\nanswer = ct.get_result(d).result", d=dispatch_id)


def index_of(folder):
    """The lines of a node's index."""
    return [json.loads(line) for line in (folder / "joblog" / "index.jsonl").read_bytes().splitlines()]
