# SPDX-License-Identifier: Apache-2.0
"""Releases that are killed, each at another stage: release_in_stages.py FOLDER.

For each stage there is a ledger FOLDER/number/budget.db. A process of its own charges it, draws, and writes
release.json next to it, stops at its stage, and is killed there.
"""

import os
import signal
import sys
import time
from pathlib import Path

STAGES = [
    "before the charge",
    "inside the transaction",
    "before the commit",
    "after the commit",
    "while sampling",
    "before writing",
    "while writing",
    "after writing",
]


def main(folder):
    """Start one process for each stage, wait until it is there, kill it."""
    import numpy as np

    from onedraw import LogisticRegression
    from onedraw.ledger import Ledger, chain
    from onedraw.mechanisms import OnePosterior
    from onedraw.samplers import RejectionSampler

    def release(place, pause):
        """What every user does: fit, which charges before it draws, and write."""
        pausing(Ledger, "charge", pause, "before the charge", "after the commit")
        pausing(chain, "append", pause, "inside the transaction", "before the commit")
        pausing(RejectionSampler, "sample", pause, "while sampling")
        pausing(os, "replace", pause, "while writing")
        x = np.random.default_rng(0).normal(size=(100, 1))
        account = {"ledger": Ledger(place / "budget.db"), "dataset": "adult"}
        model = LogisticRegression(epsilon=0.25, classes=[0, 1], mechanism=OnePosterior(), **account)
        released = model.fit(x, (x[:, 0] > 0).astype(int)).release_
        pause("before writing")
        released.to_json(place / "release.json")
        pause("after writing")

    for number, stage in enumerate(STAGES):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:

            def pause(here, stage=stage, writing=writing):
                if here == stage:
                    os.write(writing, b"x")
                    time.sleep(600)

            try:
                release(Path(folder) / str(number), pause)
            finally:
                os._exit(1)  # the stage was never reached
        os.close(writing)
        reached = os.read(reading, 1)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert reached == b"x", f"{stage!r} was not reached"
        assert os.WTERMSIG(status) == signal.SIGKILL


def pausing(owner, name, pause, before, after=None):
    """Make a function pause before and after its work."""
    original = getattr(owner, name)

    def wrapped(*args, **options):
        pause(before)
        result = original(*args, **options)
        pause(after)
        return result

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    main(sys.argv[1])
