# SPDX-License-Identifier: Apache-2.0
"""Train a small neural network with several learning rates, each a Slurm job; prints the dispatch id."""

import argparse
import sys
from pathlib import Path

import covalent as ct
import numpy as np
from tqdm import tqdm

from covalent_joblog_plugin import SlurmJobLogExecutor

STEPS = 100  # gradient steps in an epoch


def spirals(points):
    """Two noisy spirals, ``points`` of each: coordinates (2 * points, 2) and classes 0.0 or 1.0."""
    random = np.random.default_rng(0)
    turn = np.sqrt(random.random(points)) * 3 * np.pi
    arm = np.stack([np.cos(turn), np.sin(turn)], axis=1) * turn[:, None] / (3 * np.pi)
    places = np.concatenate([arm, -arm]) + random.normal(0, 0.02, (2 * points, 2))
    return places, np.repeat([0.0, 1.0], points)


def step(weights, places, classes, rate):
    """One step down the gradient of the cross-entropy, in place; the loss before it."""
    first, bias, second = weights
    hidden = np.tanh(places @ first + bias)
    guess = 1 / (1 + np.exp(-np.clip(hidden @ second, -30, 30)))
    error = (guess - classes) / len(classes)
    back = np.outer(error, second) * (1 - hidden**2)
    first -= rate * places.T @ back
    bias -= rate * back.sum(axis=0)
    second -= rate * hidden.T @ error
    right = np.where(classes == 1, guess, 1 - guess)
    return float(-np.log(np.maximum(right, 1e-9)).mean()), float((right > 0.5).mean())


def train(rate, epochs):
    """Train with one learning rate. What it prints, and losses.csv, can be read while it runs."""
    places, classes = spirals(200)
    random = np.random.default_rng(1)
    weights = [random.normal(0, 4, (2, 64)), random.normal(0, 2, 64), random.normal(0, 0.1, 64)]
    print(f"learning rate {rate}: {len(classes)} points, {sum(w.size for w in weights)} weights")
    before = np.inf
    with Path("losses.csv").open("w", buffering=1) as table:
        table.write("epoch,loss,accuracy\n")
        for epoch in tqdm(range(1, epochs + 1), desc=f"rate {rate}", ncols=70):
            for _ in range(STEPS):
                loss, accuracy = step(weights, places, classes, rate)
            table.write(f"{epoch},{loss:.6f},{accuracy:.4f}\n")
            if loss > 1.5 * before:
                tqdm.write(f"epoch {epoch}: loss rose from {before:.4f} to {loss:.4f}", file=sys.stderr)
            if epoch % 10 == 0:
                print(f"epoch {epoch:3d}  loss {loss:.4f}  accuracy {accuracy:.1%}")
            before = loss
    return {"rate": rate, "loss": loss, "accuracy": accuracy}


def best(trained):
    """The training that ended with the lowest loss."""
    for one in sorted(trained, key=lambda one: one["loss"]):
        print(f"rate {one['rate']:<6}  loss {one['loss']:.4f}  accuracy {one['accuracy']:.1%}")
    return min(trained, key=lambda one: one["loss"])


def sweep_on(executor):
    """The workflow, with every training a job of ``executor``."""
    train_job = ct.electron(train, executor=executor)
    choose = ct.electron(best, executor="joblog_local")

    @ct.lattice
    def sweep(rates, epochs):
        return choose([train_job(rate, epochs) for rate in rates])

    return sweep


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", required=True, help="login node: a name, or an alias of ~/.ssh/config")
    parser.add_argument("--port", type=int, help="its ssh port")
    parser.add_argument("--username", help="your name there")
    parser.add_argument("--key", help="file of your private key")
    parser.add_argument("--known-hosts", help="file of host keys, if not ~/.ssh/known_hosts")
    parser.add_argument("--partition", help="Slurm partition")
    parser.add_argument("--workdir", help="folder on the cluster that all nodes see")
    parser.add_argument("--python", help="a Python there that has numpy and tqdm")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.5, 4.0, 60.0], help="learning rates")
    parser.add_argument("--epochs", type=int, default=60, help="epochs of 100 steps (default 60)")
    return parser.parse_args()


if __name__ == "__main__":
    chosen = options()
    connection = {
        "host": chosen.host,
        "port": chosen.port,
        "username": chosen.username,
        "client_keys": [chosen.key] if chosen.key else None,
        "known_hosts": chosen.known_hosts,
        "workdir": chosen.workdir,
        "python": chosen.python,
    }
    slurm = SlurmJobLogExecutor(
        # An option that was not given keeps its default.
        **{name: value for name, value in connection.items() if value is not None},
        sbatch_options={"partition": chosen.partition, "time": "00:10:00", "cpus_per_task": 1},
        environment={"OMP_NUM_THREADS": "1"},
        log_files=["losses.csv"],
    )
    print(ct.dispatch(sweep_on(slurm))(chosen.rates, chosen.epochs))
