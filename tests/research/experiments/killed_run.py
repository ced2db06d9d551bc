# SPDX-License-Identifier: Apache-2.0
"""An experiment whose cells take a while and note that they were computed; run as a script, to be killed."""

import sys
import time
from pathlib import Path

from onedraw.research.experiments import Experiment, run

CELLS = 12


def cells(version, *, folder):
    return [{"number": number, "folder": folder} for number in range(CELLS)]


def compute(cell):
    time.sleep(0.1)
    with open(Path(cell["folder"]) / "computed", "a", encoding="utf-8") as notes:
        notes.write(f"{cell['number']}\n")
    return [{"square": cell["number"] ** 2}]


def experiment(folder):
    size = {"folder": str(folder)}
    return Experiment(
        name="killed",
        figures="none",
        title="Killed",
        sizes={"paper": size, "smoke": size},
        cells=cells,
        run=compute,
        by=("number",),
        values=("square",),
    )


if __name__ == "__main__":
    run(experiment(sys.argv[1]), folder=sys.argv[1], size="smoke", jobs=1)
