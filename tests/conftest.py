# SPDX-License-Identifier: Apache-2.0
"""Every family, kind of model and mechanism, from the registries: what is registered enters the contracts.

A test that asks for ``mechanism_name``, ``family_name`` or ``kind_name`` runs once for each of them. The
fixture ``examples`` makes the smallest thing of each: a mechanism with the bounds that it needs, the model
that it fits, records that follow the model, an estimator with its table. ``released`` publishes.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onedraw.estimators.kinds import ESTIMATORS
from onedraw.estimators.linear import ERRORS
from onedraw.families import FAMILIES, Family
from onedraw.mechanisms import Mechanism, Shape
from onedraw.model import NetworkModel, RegressionModel
from onedraw.nn import NutsSampler
from onedraw.privacy import Request
from onedraw.private import Private
from onedraw.publishing import Plan, publish
from onedraw.records import Records
from onedraw.registry import MECHANISMS
from onedraw.release import Release

ROWS = 60
DECLARED = {"feature_norm": 1.5, "response_bound": 1.0, "num_records": ROWS}
"""What examples declare where a mechanism needs it, by the name of the option."""
LESS_WORK = {"draws": 4, "warm_up": 5, "epochs": 1, "batch_size": 30}
"""Options that only spare work, set wherever a mechanism has them."""
FAMILY_OPTIONS = {"num_classes": 3, "dispersion": 1.0}
"""What a family cannot be made without."""


def family(name: str) -> Family:
    """The family with its defaults, and with ``FAMILY_OPTIONS`` where it has none."""
    fields = dataclasses.fields(FAMILIES[name])  # type: ignore[arg-type]
    needed = [field.name for field in fields if field.default is dataclasses.MISSING]
    return FAMILIES[name](**{option: FAMILY_OPTIONS[option] for option in needed})


def regression(of: Family, features: int = 1, **facts: Any) -> RegressionModel:
    """The public description of a regression with that many features."""
    names = tuple(f"x{i}" for i in range(features))
    classes = tuple(range(of.num_predictors + 1)) if of.num_predictors > 1 else None
    return RegressionModel(family=of, features=names, classes=classes, **facts)


def _regression_for(kind: type[Mechanism]) -> RegressionModel:
    required = kind.requirements
    name = required.families[0] if required.families else "bernoulli"
    return regression(family(name), 0 if required.intercept_only else 1)


def _network_for(kind: type[Mechanism]) -> NetworkModel:
    return NetworkModel(family=family("bernoulli"), features=("x0",), hidden_layer_sizes=(), classes=(0, 1))


MODELS: dict[str, Any] = {"regression": _regression_for, "network": _network_for}
"""How to describe the smallest model of a form, by form; mechanisms of other forms are skipped."""


@dataclasses.dataclass(frozen=True)
class Example:
    """A registered mechanism with what it needs, a model that it fits, and a delta where it needs one."""

    mechanism: Any
    model: Any
    delta: float

    @property
    def required(self) -> Any:
        """The declarations of the mechanism."""
        return self.mechanism.requirements

    def calibrated(self, *, num_records: int | None = ROWS, model: Any = None, **request: Any) -> Any:
        """Calibrated for epsilon 1 and its delta, unless the request says otherwise."""
        asked = Request(**{"epsilon": 1.0, "delta": self.delta, **request})
        known = num_records if asked.num_records_is_public else None
        shape = Shape(model=model or self.model, num_records=known)
        return self.told(asked).calibrate(asked, shape)

    def told(self, asked: Request) -> Any:
        """The mechanism, with a public guess of a number of records that is private, if it takes one."""
        guesses = self.model.form == "network" and "num_records" in self.mechanism.option_names()
        if not guesses or asked.num_records_is_public:
            return self.mechanism
        return dataclasses.replace(self.mechanism, num_records=ROWS)


def example(name: str) -> Example:
    """The smallest example of a mechanism."""
    kind = MECHANISMS[name]
    options = {need: DECLARED[need] for need in kind.requirements.needs}
    options |= {option: value for option, value in LESS_WORK.items() if option in kind.option_names()}
    if kind.requirements.exact_draw and "network" in kind.requirements.forms:
        options["sampler"] = NutsSampler(warmup=300, kept=100, min_ess=20, max_rhat=1.3)
    delta = 1e-5 if kind.requirements.delta == "needed" else 0.0
    model = MODELS[next(form for form in kind.requirements.forms if form in MODELS)](kind)
    return Example(mechanism=kind(**options), model=model, delta=delta)


def records(model: Any, n: int = ROWS, seed: int = 0) -> Records:
    """Features in [-1, 1] and responses drawn from the model's family at random predictors."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, size=(n, model.num_features))
    return Records(features=features, response=responses(model.family, n, rng))


def responses(of: Family, n: int, rng: np.random.Generator) -> Any:
    """(n,) responses in the coding of the family."""
    shape = (of.num_predictors, n, 1) if of.num_predictors > 1 else (n, 1)
    scale = np.ones((1, 1)) if of.has_scale else None
    return np.asarray(of.sample(0.5 * rng.normal(size=shape), rng, scale)[:, 0], dtype=float)


def estimator(of: Family, **options: Any) -> Any:
    """The estimator that fits the family, with everything public declared."""
    kind = ESTIMATORS[of.kind]
    known = {field.name for field in dataclasses.fields(kind)}
    declared = {name: value for name, value in of.to_dict().items() if name in known}
    if "classes" in known:
        declared["classes"] = list(range(of.num_predictors + 1))
    if "errors" in known:
        declared["errors"] = next(name for name, law in ERRORS.items() if law.name == of.name)
    return kind(**{"epsilon": 1.0, "random_state": 0, **declared, **options})


def table(of: Family, n: int = ROWS, d: int = 1, seed: int = 0) -> tuple[Any, Any]:
    """(X, y) for that estimator."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, size=(n, d)), responses(of, n, rng)


def facts(release: Release) -> dict[str, Any]:
    """All that a release says apart from its draws, the values of its statistics, and what follows."""
    content = release.to_dict()
    content["statistics"] = {name: len(found.values) for name, found in release.statistics.items()}
    return {key: content[key] for key in content if key not in ("draws", "parameters", "digest")}


@pytest.fixture(scope="session")
def examples() -> SimpleNamespace:
    """What tests need an example of."""
    return SimpleNamespace(
        family=family,
        regression=regression,
        mechanism=example,
        records=records,
        estimator=estimator,
        table=table,
        facts=facts,
        rows=ROWS,
    )


@pytest.fixture(scope="session")
def released() -> Any:
    """Publish a calibrated mechanism on given records."""

    def release(mechanism: Mechanism, data: Records, random_state: Any = None, **options: Any) -> Release:
        assumptions = options.pop("assumptions", mechanism.own_assumptions)
        plan = Plan(mechanism=mechanism, assumptions=assumptions)
        return publish(plan, lambda: Private(data), random_state=random_state, **options)

    return release


def pytest_generate_tests(metafunc: Any) -> None:
    """Run tests that ask for a registered name once for each, unless they list the names themselves."""
    listed = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    asked = {"mechanism_name": MECHANISMS, "family_name": FAMILIES, "kind_name": ESTIMATORS}
    for argument, registered in asked.items():
        if argument in metafunc.fixturenames and not any(argument in names for names in listed):
            metafunc.parametrize(argument, [pytest.param(name, marks=_marks(name)) for name in registered])


def _marks(name: str) -> tuple[Any, ...]:
    """Skip mechanisms of forms without an example, and those whose extra is not installed."""
    forms = MECHANISMS[name].requirements.forms if name in MECHANISMS else ("regression",)
    if "regression" in forms:
        return ()
    without = importlib.util.find_spec("jax_privacy") is None
    jax = pytest.mark.skipif(without, reason="needs the jax extra")
    missing = pytest.mark.skipif(not set(forms) & set(MODELS), reason="no example of such a model")
    return (pytest.mark.jax, jax, missing)
