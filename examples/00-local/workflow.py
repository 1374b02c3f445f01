# SPDX-License-Identifier: Apache-2.0
"""Estimate pi by throwing darts, in a process of this machine; prints the dispatch id."""

import argparse
import random
import sys

import covalent as ct
from tqdm import tqdm

from covalent_joblog_plugin import LocalJobLogExecutor


@ct.electron(executor=LocalJobLogExecutor())
def estimate_pi(rounds):
    """Throw a hundred thousand darts a round; say how it goes every 25 rounds."""
    inside = 0
    for done in tqdm(range(1, rounds + 1), desc="darts", ncols=70):
        inside += sum(random.random() ** 2 + random.random() ** 2 <= 1 for _ in range(100_000))
        if done % 25 == 0:
            print(f"after {done / 10:.1f} million darts pi is about {4 * inside / done / 100_000:.5f}")
    if rounds < 100:
        print("fewer than ten million darts: expect two right digits", file=sys.stderr)
    return 4 * inside / rounds / 100_000


@ct.lattice
def darts(rounds):
    return estimate_pi(rounds)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=300, help="rounds of 100000 darts (default 300)")
    print(ct.dispatch(darts)(arguments.parse_args().rounds))
