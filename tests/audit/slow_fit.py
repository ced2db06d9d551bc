# SPDX-License-Identifier: Apache-2.0
"""A program for the tests: an audit whose every fit leaves a trace, to be killed in the middle."""

import sys
import time
from pathlib import Path

import numpy as np

from onedraw.audit import black_box_audit, neighbours_of

PAIR = neighbours_of([([0.0], 0.0)] * 3, ([0.0], 0.0), ([0.0], 1.0))
RUNS = 30


def traced_sum(X, y, random_state):
    """The sum with Laplace noise; one byte more in the file that counts the calls."""
    with Path("calls").open("ab") as calls:
        calls.write(b".")
    time.sleep(0.02)
    return y.sum() + np.random.default_rng(random_state).laplace()


def run(checkpoint, runs=RUNS):
    return black_box_audit(traced_sum, PAIR, epsilon=1.0, runs=runs, random_state=1, checkpoint=checkpoint)


if __name__ == "__main__":
    run(sys.argv[1])
