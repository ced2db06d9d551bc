# SPDX-License-Identifier: Apache-2.0
"""The mechanisms for regressions and single numbers, set up to be audited."""

from __future__ import annotations

import math

from onedraw.audit.subjects.subject import BOUND, REPLACE_ONLY, Subject
from onedraw.families import Bernoulli, Gaussian, Poisson
from onedraw.losses import BetaDivergence
from onedraw.mechanisms import (
    AdaSSP,
    BetaBernoulliDraw,
    BetaBernoulliNoiseAware,
    BetaBernoulliSSP,
    GaussianMeanDraw,
    GibbsPosterior,
    LinearNoiseAware,
    LinearSSP,
    LipschitzGibbs,
    ObjectivePerturbation,
    OnePosteriorSample,
    OutputPerturbation,
)
from onedraw.model import RegressionModel
from onedraw.priors import Prior, ScalePrior
from onedraw.samplers import RejectionSampler

FLOOR = 0.1


def _norm(model: RegressionModel) -> float:
    """The longest feature vector with entries in [-1, 1], the intercept's 1 included."""
    return math.sqrt(max(1, model.num_features + int(model.fit_intercept)))


def _one_posterior(model: RegressionModel) -> OnePosteriorSample:
    families = {"logistic": Bernoulli(), "linear": Gaussian(scale_floor=FLOOR), "poisson": Poisson()}
    noise = ScalePrior(floor=FLOOR) if model.kind == "linear" else None
    return OnePosteriorSample(
        loss=BetaDivergence(families[model.kind]), prior=Prior(noise=noise), sampler=RejectionSampler()
    )


def _gibbs(model: RegressionModel) -> GibbsPosterior:
    return GibbsPosterior(feature_norm=_norm(model), num_parameters=model.dim, prior=Prior(box=2.0))


REGRESSIONS = (
    Subject(name="one-posterior", kind="logistic", build=_one_posterior),
    Subject(
        name="one-posterior-paper",
        kind="logistic",
        build=_one_posterior,
        relations=REPLACE_ONLY,
        options={"beta": "paper"},
    ),
    Subject(
        name="one-posterior-linear",
        kind="linear",
        build=_one_posterior,
        width=0,
        intercept=True,
        scale_floor=FLOOR,
    ),
    Subject(name="one-posterior-poisson", kind="poisson", build=_one_posterior, width=0, intercept=True),
    Subject(name="gibbs-posterior", kind="logistic", build=_gibbs),
    Subject(
        name="lipschitz-gibbs",
        kind="logistic",
        build=lambda model: LipschitzGibbs(feature_norm=_norm(model)),
        delta=1e-5,
    ),
    Subject(
        name="output-perturbation",
        kind="logistic",
        build=lambda model: OutputPerturbation(feature_norm=_norm(model), regularisation=0.1),
        relations=REPLACE_ONLY,
    ),
    Subject(
        name="output-perturbation-laplace",
        kind="logistic",
        build=lambda model: OutputPerturbation(
            feature_norm=_norm(model), regularisation=0.1, noise="laplace"
        ),
        relations=REPLACE_ONLY,
    ),
    Subject(
        name="objective-perturbation",
        kind="logistic",
        build=lambda model: ObjectivePerturbation(feature_norm=_norm(model)),
        relations=REPLACE_ONLY,
    ),
    Subject(
        name="adassp",
        kind="linear",
        build=lambda model: AdaSSP(feature_norm=_norm(model), response_bound=BOUND),
        delta=1e-5,
    ),
    Subject(
        name="linear-ssp",
        kind="linear",
        build=lambda model: LinearSSP(feature_norm=_norm(model), response_bound=BOUND, draws=200),
    ),
    Subject(
        name="linear-noise-aware",
        kind="linear",
        build=lambda model: LinearNoiseAware(
            feature_norm=_norm(model), response_bound=BOUND, draws=50, warm_up=50, thin=1
        ),
        slowness=10,
    ),
    Subject(
        name="beta-bernoulli-ssp",
        kind="logistic",
        build=lambda model: BetaBernoulliSSP(draws=200),
        width=0,
        intercept=True,
        regresses=False,
    ),
    Subject(
        name="beta-bernoulli-noise-aware",
        kind="logistic",
        build=lambda model: BetaBernoulliNoiseAware(draws=200),
        width=0,
        intercept=True,
        regresses=False,
        relations=REPLACE_ONLY,
    ),
    Subject(
        name="beta-bernoulli-draw",
        kind="logistic",
        build=lambda model: BetaBernoulliDraw(),
        width=0,
        intercept=True,
        regresses=False,
        delta=1e-5,
    ),
    Subject(
        name="gaussian-mean-draw",
        kind="linear",
        build=lambda model: GaussianMeanDraw(response_bound=BOUND),
        width=0,
        intercept=True,
        regresses=False,
        delta=1e-5,
        relations=REPLACE_ONLY,
    ),
)
"""In the order of the tables."""
