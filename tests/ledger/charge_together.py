# SPDX-License-Identifier: Apache-2.0
"""Processes that charge one ledger at once: charge_together.py LEDGER PROCESSES EPSILON.

Prints the receipts as JSON lines. Each process charges until it is refused.
"""

import json
import multiprocessing
import sys

from onedraw.errors import BudgetExceeded
from onedraw.ledger import Ledger
from onedraw.privacy import Guarantee


def spend(path, epsilon, start, results):
    """Charge until refused; then hand in the receipts."""
    ledger, receipts = Ledger(path, timeout=120.0), []
    start.wait()
    try:
        while True:
            receipts.append(ledger.charge("adult", Guarantee(epsilon=epsilon)).to_dict())
    except BudgetExceeded as error:
        results.put({"receipts": receipts, "remaining": error.remaining})


def main(path, processes, epsilon):
    """Start all, let them go at once, print what they got."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
    start, results = context.Barrier(processes), context.Queue()
    workers = [context.Process(target=spend, args=(path, epsilon, start, results)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    for _ in workers:
        print(json.dumps(results.get(timeout=120)))
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
