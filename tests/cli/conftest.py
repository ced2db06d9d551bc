# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest
from click.testing import CliRunner

from onedraw.cli import main

MARKER = "Zebra7391"
"""Planted in tables as a private value: no output may quote it."""

SPEC = """
ignore = ["id"]

[target]
classes = ["alive", "dead"]

[columns.age]
bounds = [18, 100]

[columns.smoker]
categories = ["no", "yes", "former"]
"""


def write_csv(path, columns):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def patients(n=300):
    """A table of people, as lists of values by column."""
    rng = np.random.default_rng(7)
    age, smoker = rng.integers(20, 90, n), rng.choice(["no", "yes", "former"], n)
    dead = rng.random(n) < 1 / (1 + np.exp(3 - 0.05 * age - (smoker == "yes")))
    return {
        "id": list(range(n)),
        "age": age.tolist(),
        "smoker": smoker.tolist(),
        "visits": rng.poisson(2.0, n).tolist(),
        "pressure": np.round(100 + 0.4 * age + rng.normal(scale=5, size=n), 1).tolist(),
        "status": np.where(dead, "dead", "alive").tolist(),
        "died": dead.astype(int).tolist(),
    }


class Command:
    """The command ``onedraw`` in a folder with patients.csv, numbers.csv, columns.toml and budget.db."""

    marker = MARKER
    ledger = ("--ledger", "budget.db", "--dataset", "patients")
    write_csv = staticmethod(write_csv)

    def __init__(self, folder):
        self.folder = folder

    def run(self, *args):
        return CliRunner().invoke(main, [str(arg) for arg in args])

    def json(self, *args):
        result = self.run(*args, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def fit(
        self,
        *more,
        data="patients.csv",
        target="status",
        model="logistic",
        out="release.json",
        columns="columns.toml",
    ):
        """A fit that works as it stands; ``more`` are options to add."""
        spec = [] if columns is None else ["--columns", columns]
        args = ["fit", data, "--target", target, "--model", model, "--epsilon", "1", "--out", out]
        return self.run(*args, *spec, *more)

    def charges(self):
        return self.json("ledger", "show", "budget.db", "patients")["datasets"][0]["charges"]

    def spoil(self, **values):
        """patients.csv again, with these values in its first row; MARKER in the ignored column."""
        table = {k: v for k, v in patients().items() if k in ("id", "age", "smoker", "status")}
        table["id"] = [MARKER] * len(table["id"])
        for name, value in values.items():
            table[name][0] = value
        write_csv(self.folder / "patients.csv", table)


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """A ``Command``; the ledger has epsilon 3 for the data set 'patients'."""
    monkeypatch.chdir(tmp_path)
    table = patients()
    write_csv(tmp_path / "patients.csv", {k: table[k] for k in ("id", "age", "smoker", "status")})
    write_csv(tmp_path / "numbers.csv", {k: table[k] for k in ("age", "visits", "pressure", "died")})
    (tmp_path / "columns.toml").write_text(SPEC)
    command = Command(tmp_path)
    assert command.run("ledger", "create", "budget.db", "patients", "--epsilon", "3").exit_code == 0
    return command
