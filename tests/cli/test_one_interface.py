# SPDX-License-Identifier: Apache-2.0
"""The command has the options of the estimators, by their names: a new one needs no line in the command.

What a kind of model or an option costs is shown by adding one here, where the registry and the class are all
that changes.
"""

from dataclasses import dataclass, field, fields
from typing import ClassVar

import click
import pytest

import onedraw
from onedraw.advice import COLUMN_FILE, flag
from onedraw.cli import main
from onedraw.estimators import PoissonRegressor
from onedraw.estimators.base import PrivateEstimator
from onedraw.estimators.kinds import ESTIMATORS


def options_of(name):
    command = main.get_command(click.Context(main), name)
    return {opt for p in command.get_params(click.Context(command)) for opt in p.opts}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_option_of_an_estimator_is_on_the_command_under_its_name(kind):
    known = options_of("fit")
    for part in fields(ESTIMATORS[kind]):
        assert part.name in COLUMN_FILE or flag(part.name) in known


def test_the_command_has_no_option_of_a_fit_that_no_estimator_has():
    names = {flag(part.name) for kind in ESTIMATORS.values() for part in fields(kind)}
    own = {"data", "--target", "--model", "--out", "--mechanism-option", "--force", "--yes", "--json"}
    own |= {"--memory", "--scheduler", "--dry-run", "--debug", "--exposure"}
    assert options_of("fit") - names - {"-h", "--help"} == own


@dataclass(kw_only=True, eq=False, repr=False)
class CautiousRegressor(PoissonRegressor):
    """A kind of model that the package does not have, with an option of its own."""

    patience: float = field(default=1.0, metadata={"help": "How long to wait."})
    haste: bool = False

    kinds: ClassVar[tuple[str, ...]] = ("cautious_counts",)


@pytest.fixture
def cautious(monkeypatch):
    monkeypatch.setitem(ESTIMATORS, "cautious_counts", CautiousRegressor)


def test_a_registered_kind_is_a_model_of_the_command_with_its_options(cli, cautious, monkeypatch):
    seen = []
    monkeypatch.setattr(CautiousRegressor, "_learn", lambda self, release: seen.append(self.get_params()))
    chosen = {"data": "numbers.csv", "target": "visits", "columns": None}
    result = cli.fit("--patience", "2.5", "--haste", model="cautious-counts", **chosen)
    assert result.exit_code == 0, result.stderr
    assert (seen[0]["patience"], seen[0]["haste"]) == (2.5, True)
    assert "How long to wait. [default: 1.0]" in " ".join(cli.run("fit", "--help").stdout.split())
    assert "cautious_counts" in cli.run("fit", "--help").stdout
    refused = cli.fit("--patience", "2", model="poisson", out="other.json", **chosen)
    assert "--patience does not apply to the poisson model. Leave --patience out." in refused.stderr


def test_an_option_of_all_estimators_is_an_option_of_the_command(cli, monkeypatch):
    """One field of the base class, here of all its subclasses, which inherit it."""
    for name, kind in list(ESTIMATORS.items()):
        wider = dataclass(kw_only=True, eq=False, repr=False)(
            type(kind.__name__, (kind,), {"__annotations__": {"colour": str}, "colour": "blue"})
        )
        monkeypatch.setitem(ESTIMATORS, name, wider)
    assert {"--colour"} <= options_of("fit") & options_of("plan")
    assert cli.fit("--colour", "red").exit_code == 0


def test_the_shared_options_are_those_of_the_base_class():
    shared = {part.name for part in fields(PrivateEstimator)}
    for kind in ESTIMATORS.values():
        assert shared <= {part.name for part in fields(kind)}
    assert issubclass(onedraw.LogisticRegression, PrivateEstimator)
