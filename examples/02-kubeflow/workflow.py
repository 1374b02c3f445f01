# SPDX-License-Identifier: Apache-2.0
"""Train on two nodes of a Kubeflow cluster, both live in one node's output; prints the dispatch id."""

import argparse
import os
import random
import sys
import time

import covalent as ct

from covalent_joblog_plugin import KubeflowJobLogExecutor


def train(epochs, points):
    """Fit a line to noisy points by stochastic gradient descent; every node has points of its own.

    Plain Python, so that any image with Python serves. With torch in the image this is where
    ``torch.distributed.init_process_group()`` and the training loop stand.
    """
    node = int(os.environ.get("PET_NODE_RANK", os.environ.get("RANK", "0")))
    nodes = int(os.environ.get("PET_NNODES", "1"))
    print(f"node {node} of {nodes}: {points} points on {os.uname().nodename}")
    noise = random.Random(node)
    data = [(x, 3 * x - 1 + noise.gauss(0, 0.1)) for x in (noise.uniform(-1, 1) for _ in range(points))]
    slope, offset, before = 0.0, 0.0, float("inf")
    for epoch in range(1, epochs + 1):
        noise.shuffle(data)
        loss = 0.0
        for done, (x, y) in enumerate(data, 1):
            error = slope * x + offset - y
            slope, offset, loss = slope - 0.05 * error * x, offset - 0.05 * error, loss + error * error
            if done % (points // 10) == 0:
                print(f"\repoch {epoch:2d} {'#' * (10 * done // points):<10}", end="")
                time.sleep(0.05)
        print(f"\repoch {epoch:2d} loss {loss / points:.4f}")
        if loss > before:
            print(f"epoch {epoch}: loss rose", file=sys.stderr)
        before = loss
    return {"slope": slope, "offset": offset, "loss": before / points}


def flow_on(executor):
    """The workflow, with the training as a job of ``executor``."""
    train_job = ct.electron(train, executor=executor)

    @ct.lattice
    def flow(epochs, points):
        return train_job(epochs, points)

    return flow


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", default="", help="if not the usual one")
    parser.add_argument("--namespace", default="", help="if not the context's own")
    parser.add_argument("--runtime", default="joblog-torch", help="a TrainingRuntime")
    parser.add_argument("--image", help="if not the runtime's")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--points", type=int, default=500)
    return parser.parse_args()


if __name__ == "__main__":
    chosen = options()
    kubeflow = KubeflowJobLogExecutor(
        kubeconfig=chosen.kubeconfig,
        namespace=chosen.namespace,
        runtime=chosen.runtime,
        runtime_kind="TrainingRuntime",
        image=chosen.image,
        num_nodes=2,
        resources={"requests": {"cpu": "100m", "memory": "128Mi"}},
    )
    print(ct.dispatch(flow_on(kubeflow))(chosen.epochs, chosen.points))
