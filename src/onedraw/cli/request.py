# SPDX-License-Identifier: Apache-2.0
"""What the command line asks ``onedraw fit`` for, and the estimator that does it.

An option that the model or its mechanism has no use for is a mistake, and refused.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from onedraw.cli.columns import Target
from onedraw.cli.settings import read_layers, read_settings
from onedraw.errors import InvalidInput
from onedraw.estimators import LinearRegression, LogisticRegression, PoissonRegressor
from onedraw.ledger import Ledger
from onedraw.nn import MLPClassifier, MLPRegressor
from onedraw.nn.offered import settings as settings_of

REGRESSIONS = ("logistic", "multinomial", "linear", "poisson")
NETWORKS = {"mlp-classifier": MLPClassifier, "mlp-regressor": MLPRegressor}
MODELS = (*REGRESSIONS, *NETWORKS)
PASSED_ON = ("activation", "feature_norm", "response_bound", "regularisation", "prior_box")
"""Options that are the estimator's own, where it has them."""
DEFAULT_CLASSES = (0, 1)
"""Of a logistic model whose classes are not declared: a convention, not a look at the labels."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line says about a fit."""

    data: str
    target: str
    model: str
    epsilon: float
    delta: float
    neighbours: str
    rows_per_person: int
    draws: int | str
    evidence: str
    mechanism: str
    mechanism_option: tuple[str, ...]
    hidden_layer_sizes: str | None
    activation: str | None
    feature_norm: float | None
    response_bound: float | None
    regularisation: float | None
    prior_box: float | None
    columns: str | None
    ledger: str | None
    dataset: str | None
    out: str
    force: bool
    seed: int | None


def build_estimator(options: Options, target: Target, ledger: Ledger | None) -> Any:
    """The estimator, not fitted yet; whatever the options alone rule out is refused."""
    settings: dict[str, Any] = {
        "epsilon": options.epsilon,
        "delta": options.delta,
        "neighbours": options.neighbours,
        "rows_per_person": options.rows_per_person,
        "draws": options.draws,
        "mechanism": options.mechanism,
        "ledger": ledger,
        "dataset": options.dataset,
        "random_state": options.seed,
    }
    _check_target(options.model, target)
    kind: Any = {"poisson": PoissonRegressor, "linear": LinearRegression, **NETWORKS}.get(
        options.model, LogisticRegression
    )
    if options.model in REGRESSIONS:
        settings["evidence"] = options.evidence
    elif options.evidence == "proved" or options.draws == "auto":
        wrong = "--evidence proved" if options.evidence == "proved" else "--draws auto"
        raise InvalidInput(
            f"{wrong} does not apply to the {options.model} model: a network is drawn by Markov chains, "
            "whose evidence is 'diagnosed', and has no intervals. Leave it out."
        )
    if kind in (LinearRegression, MLPRegressor):
        settings.update(
            target_bounds=target.bounds, noise_floor=target.noise_floor, noise_scale=target.noise_scale
        )
    elif kind is not PoissonRegressor:
        settings.update(classes=list(target.classes or DEFAULT_CLASSES))
    if options.mechanism_option:
        settings["mechanism_options"] = read_settings(options.mechanism_option)
    estimator = kind(**settings)
    layers = options.hidden_layer_sizes
    given = {
        "hidden_layer_sizes": None if layers is None else read_layers(layers),
        **{name: getattr(options, name) for name in PASSED_ON},
    }
    for name, value in given.items():
        if value is None:
            continue
        if name not in estimator.get_params():
            remedy = "Leave it out."
            if options.model in NETWORKS and name in settings_of(options.mechanism):
                remedy = f"Give it as --mechanism-option {name}={value:g}."
            flag = "--" + name.replace("_", "-")
            raise InvalidInput(f"{flag} does not apply to the {options.model} model. {remedy}")
        estimator.set_params(**{name: value})
    return estimator


def _check_target(model: str, target: Target) -> None:
    """Facts that do not belong to the model are mistakes, and so is the wrong number of classes."""
    continuous = ("bounds", "noise_floor", "noise_scale")
    fits = {"linear": continuous, "mlp-regressor": continuous, "poisson": ()}.get(model, ("classes",))
    for name, value in dataclasses.asdict(target).items():
        if value is not None and name not in fits:
            raise InvalidInput(
                f"{name} under [target] does not apply to the {model} model. Take it out, or change --model."
            )
    count = None if target.classes is None else len(target.classes)
    if model == "multinomial" and count is None:
        raise InvalidInput(
            "The multinomial model needs its classes: classes = [...] under [target] of the specification."
        )
    if model == "multinomial" and count == 2:
        raise InvalidInput("Expected three or more classes under [target], got 2. Use --model logistic.")
    if model == "logistic" and count not in (None, 2):
        raise InvalidInput(f"Expected two classes under [target], got {count}. Use --model multinomial.")
