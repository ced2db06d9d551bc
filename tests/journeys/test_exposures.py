# SPDX-License-Identifier: Apache-2.0
"""An insurer's evening: claims of people who were insured for different times, and the usual mistakes."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import onedraw
from onedraw.cli import main

COLUMNS = """
[target]
unknown = "nearest"
missing = 0

[columns.age]
bounds = [18, 100]
missing = "middle"

[columns.sex]
categories = ["f", "m"]
unknown = "f"
"""
YEARS = """
[columns.years]
bounds = [0.1, 10]
missing = 1
"""


def told(*words, code=0):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def claims(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(2), 6000
    frame = pd.DataFrame({"age": rng.integers(18, 90, n), "sex": rng.choice(["f", "m"], n)})
    frame["years"] = rng.uniform(0.2, 5.0, n).round(2)
    rate = np.exp(-1.0 + 0.02 * (frame.age - 50) + 0.5 * (frame.sex == "m"))
    frame["claims"] = rng.poisson(frame.years * rate)
    frame.loc[3, "years"] = 0.0
    frame.to_csv("claims.csv", index=False)
    (tmp_path / "bare.toml").write_text(COLUMNS)
    (tmp_path / "columns.toml").write_text(COLUMNS + YEARS)
    return frame


def test_an_evening_with_exposures(claims):
    told("ledger", "create", "b.db", "insured", "--epsilon", "2")
    pays = ("--ledger", "b.db", "--dataset", "insured", "--out", "r.json", "--seed", "0")
    fit = ("fit", "claims.csv", "--target", "claims", "--epsilon", "1", *pays)

    # Mistakes that public facts show cost nothing.
    poisson = (*fit, "--model", "poisson", "--columns", "columns.toml")
    said = told(*fit, "--model", "poisson", "--columns", "bare.toml", "--exposure", "years", code=2)
    assert "needs a declared positive range. Declare bounds = ... under [columns.years]" in said
    assert "Did you mean 'years'?" in told(*poisson, "--exposure", "yeras", code=2)
    assert "has no use for an exposure" in told(
        *fit, "--model", "linear", "--columns", "columns.toml", "--exposure", "years", code=2
    )
    said = told(*poisson, "--exposure", "years", "--mechanism", "one_posterior", code=2)
    assert "has no place for an exposure or offset. Set --mechanism tilted_fit" in said
    assert onedraw.Ledger("b.db").show("insured").spent == 0.0

    # A dry run reads nothing; the holder of the data sees the policy of no time.
    said = told(*poisson, "--exposure", "years", "--dry-run")
    assert "nothing was charged, no row was read" in said
    assert "Exposures ('years') below 0.1 count as 0.1." in said
    assert "No rule says" not in said
    said = told(
        "check", "claims.csv", "--target", "claims", "--columns", "columns.toml", "--exposure", "years"
    )
    assert ["years", "below", "its", "range", "1", "counts", "as", "0.1", "5"] in map(
        str.split, said.splitlines()
    )

    # The fit, its page, and what it predicts: rates, or claims in the time of each person.
    said = told(*poisson, "--exposure", "years")
    assert "rates per unit of 'years'" in said
    assert "1 of epsilon 2 spent" in said
    release = onedraw.Release.from_json("r.json")
    assert release.model.features == ("age", "sex=m (vs f)")
    assert release.named_parameters()["age"] == pytest.approx(0.02, abs=0.005)
    assert release.named_parameters()["(intercept)"] == pytest.approx(-2.0, abs=0.25)
    assert "at an exposure of 1" in told("show", "r.json", "--exponentiate", "--html", "r.html")
    rates, counts = (
        np.array(
            json.loads(told("predict", "r.json", "claims.csv", *more, "--json"))["predictions"]["prediction"]
        )
        for more in ((), ("--exposure", "years"))
    )
    assert counts == pytest.approx(rates * claims["years"].to_numpy())
    assert "It has 4" in told("predict", "r.json", "claims.csv", "--exposure", "time", code=2)

    # The same by a formula in Python, with the same declaration and seed.
    columns = onedraw.Columns.read("columns.toml")
    formula = "claims ~ age + sex + offset(log(years))"
    model = onedraw.fit(formula, data=claims, columns=columns, model="poisson", epsilon=1.0, random_state=0)
    assert model.coef_ == pytest.approx([release.named_parameters()[name] for name in release.model.features])
