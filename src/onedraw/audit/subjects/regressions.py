# SPDX-License-Identifier: Apache-2.0
"""The mechanisms for regressions and single numbers, set up to be audited.

A test holds this list against the registries: every mechanism for regressions is on it, and the draw from the
beta-divergence posterior once for every family of responses.
"""

from __future__ import annotations

import math
from typing import Any

from onedraw.audit.subjects.subject import BOUND, CROWD, REPLACE_ONLY, Subject
from onedraw.families import Categorical, Gaussian, Laplace, NegativeBinomial, Poisson, StudentT
from onedraw.mechanisms import (
    AdaSSP,
    AtomSampler,
    BetaBernoulliDraw,
    BetaBernoulliNoiseAware,
    BetaBernoulliSSP,
    DefensiveRejection,
    FastMH,
    GaussianMeanDraw,
    GibbsPosterior,
    LinearNoiseAware,
    LinearSSP,
    LipschitzGibbs,
    MinibatchBarker,
    OnePosterior,
    OutputPerturbation,
    PenaltyChain,
    PrivateBarker,
    PrivateHMC,
    PrivateSGLD,
    ProposalDraw,
    TiltedFit,
)
from onedraw.model import RegressionModel

STEEP = 3.0
"""The standard deviation of the true coefficients of logistic regressions, as in the paper."""
COUNTS = (0.0, 20.0)
NUMBERS = (-BOUND, BOUND)
ONE_NUMBER: dict[str, Any] = {"width": 0, "intercept": True}
"""The model is an intercept, with a scale where the family has one: two parameters at most."""
LINEAR: dict[str, Any] = {"family": Gaussian(), "responses": NUMBERS}
LOGISTIC: dict[str, Any] = {"spread": STEEP, "papers_pair": True}


ONE_STEP: dict[str, Any] = {"steps": 1, "first_stage": 0.0}
FAR_START, STEEP_FEATURE = 3.0, 50.0
"""Steps across zero change the loss of a steep record by nearly all of its width."""
STEP_DELTA = 0.01
"""Of single steps with normal noise: the outputs by which a claim is decided turn up in an attack."""


def _norm(model: RegressionModel) -> float:
    """The longest feature vector with entries in [-1, 1], the intercept's 1 included."""
    return math.sqrt(max(1, model.num_features + int(model.fit_intercept)))


def _one_posterior(model: RegressionModel) -> OnePosterior:
    return OnePosterior()


REGRESSIONS = (
    Subject(name="tilted_fit", build=lambda model: TiltedFit(), **LOGISTIC),
    Subject(name="tilted_fit:bounded", build=lambda model: TiltedFit(), bounded=True, **LOGISTIC),
    Subject(
        name="tilted_fit:intercept",
        build=lambda model: TiltedFit(),
        bounded=True,
        intercept=True,
        **LOGISTIC,
    ),
    Subject(
        name="tilted_fit:curvature", build=lambda model: TiltedFit(inference=True), bounded=True, **LOGISTIC
    ),
    Subject(
        name="tilted_fit:aligned",
        build=lambda model: TiltedFit(align=True, inference=True),
        bounded=True,
        intercept=True,
        **LOGISTIC,
    ),
    Subject(
        name="tilted_fit:robust",
        build=lambda model: TiltedFit(inference="robust"),
        bounded=True,
        intercept=True,
        **LINEAR,
    ),
    Subject(
        name="tilted_fit:categorical",
        build=lambda model: TiltedFit(),
        family=Categorical(num_classes=3),
        responses=(0.0, 2.0),
        **ONE_NUMBER,
    ),
    Subject(
        name="tilted_fit:categorical-curvature",
        build=lambda model: TiltedFit(inference=True),
        family=Categorical(num_classes=3),
        responses=(0.0, 2.0),
        **ONE_NUMBER,
    ),
    Subject(
        name="tilted_fit:categorical-robust",
        build=lambda model: TiltedFit(inference="robust"),
        family=Categorical(num_classes=3),
        responses=(0.0, 2.0),
        **ONE_NUMBER,
    ),
    Subject(name="one_posterior", build=_one_posterior, **LOGISTIC),
    Subject(
        name="one_posterior:paper",
        build=lambda model: OnePosterior(beta="paper"),
        relations=REPLACE_ONLY,
        **LOGISTIC,
    ),
    Subject(
        name="one_posterior:categorical",
        build=_one_posterior,
        family=Categorical(num_classes=3),
        responses=(0.0, 2.0),
        **ONE_NUMBER,
    ),
    Subject(name="one_posterior:gaussian", build=_one_posterior, **LINEAR, **ONE_NUMBER),
    Subject(
        name="one_posterior:student_t",
        build=_one_posterior,
        family=StudentT(),
        responses=NUMBERS,
        **ONE_NUMBER,
    ),
    Subject(
        name="one_posterior:laplace", build=_one_posterior, family=Laplace(), responses=NUMBERS, **ONE_NUMBER
    ),
    Subject(
        name="one_posterior:poisson", build=_one_posterior, family=Poisson(), responses=COUNTS, **ONE_NUMBER
    ),
    Subject(
        name="one_posterior:negative_binomial",
        build=_one_posterior,
        family=NegativeBinomial(dispersion=1.0),
        responses=COUNTS,
        **ONE_NUMBER,
    ),
    Subject(
        name="gibbs_posterior",
        build=lambda model: GibbsPosterior(feature_norm=_norm(model), prior_box=2.0),
        **LOGISTIC,
    ),
    Subject(
        name="lipschitz_gibbs",
        build=lambda model: LipschitzGibbs(feature_norm=_norm(model)),
        delta=1e-5,
        **LOGISTIC,
    ),
    Subject(
        name="output_perturbation",
        build=lambda model: OutputPerturbation(feature_norm=_norm(model), regularisation=0.1),
        relations=REPLACE_ONLY,
        **LOGISTIC,
    ),
    Subject(
        name="output_perturbation:laplace",
        build=lambda model: OutputPerturbation(
            feature_norm=_norm(model), regularisation=0.1, noise="laplace"
        ),
        relations=REPLACE_ONLY,
        **LOGISTIC,
    ),
    Subject(name="proposal_draw", build=lambda model: ProposalDraw(proposals=256), slowness=4, **LOGISTIC),
    Subject(
        name="defensive_rejection",
        build=lambda model: DefensiveRejection(defence=0.05),
        slowness=4,
        **LOGISTIC,
    ),
    Subject(name="atom_sampler", build=lambda model: AtomSampler(defence=0.3), slowness=4, **LOGISTIC),
    Subject(
        name="private_barker",
        build=lambda model: PrivateBarker(feature_norm=_norm(model), most_passes=60),
        delta=1e-5,
        slowness=10,
        **LOGISTIC,
    ),
    Subject(
        name="private_barker:one_step",
        build=lambda model: PrivateBarker(start=(FAR_START,), **ONE_STEP),
        size=STEEP_FEATURE,
        **LOGISTIC,
    ),
    Subject(
        name="minibatch_barker",
        build=lambda model: MinibatchBarker(
            feature_norm=_norm(model), most_passes=60, num_records=CROWD + 1, batch=5
        ),
        delta=1e-5,
        relations=REPLACE_ONLY,
        slowness=10,
        **LOGISTIC,
    ),
    Subject(
        name="fast_mh",
        build=lambda model: FastMH(feature_norm=_norm(model), most_passes=60),
        delta=1e-5,
        slowness=10,
        **LOGISTIC,
    ),
    Subject(
        name="penalty_chain",
        build=lambda model: PenaltyChain(feature_norm=_norm(model), most_passes=60),
        delta=1e-5,
        slowness=10,
        **LOGISTIC,
    ),
    Subject(
        name="private_hmc",
        build=lambda model: PrivateHMC(feature_norm=_norm(model), most_passes=60),
        delta=1e-5,
        slowness=10,
        **LOGISTIC,
    ),
    Subject(
        name="private_sgld",
        build=lambda model: PrivateSGLD(feature_norm=_norm(model), most_passes=60),
        delta=1e-5,
        slowness=10,
        **LOGISTIC,
    ),
    Subject(
        name="penalty_chain:one_step",
        build=lambda model: PenaltyChain(feature_norm=_norm(model), **ONE_STEP),
        delta=STEP_DELTA,
        **LOGISTIC,
    ),
    Subject(
        name="private_hmc:one_step",
        build=lambda model: PrivateHMC(feature_norm=_norm(model), leapfrog=1, **ONE_STEP),
        delta=STEP_DELTA,
        **LOGISTIC,
    ),
    Subject(
        name="private_sgld:one_step",
        build=lambda model: PrivateSGLD(feature_norm=_norm(model), **ONE_STEP),
        delta=STEP_DELTA,
        **LOGISTIC,
    ),
    Subject(
        name="fast_mh:one_step",
        build=lambda model: FastMH(overhead=2.0, start=(FAR_START,), **ONE_STEP),
        size=STEEP_FEATURE,
        **LOGISTIC,
    ),
    Subject(
        name="minibatch_barker:one_step",
        build=lambda model: MinibatchBarker(num_records=CROWD + 1, batch=5, **ONE_STEP),
        delta=STEP_DELTA,
        relations=REPLACE_ONLY,
        crowds=(CROWD,),
        **LOGISTIC,
    ),
    Subject(
        name="adassp",
        build=lambda model: AdaSSP(feature_norm=_norm(model), response_bound=BOUND),
        delta=1e-5,
        **LINEAR,
    ),
    Subject(
        name="linear_ssp",
        build=lambda model: LinearSSP(feature_norm=_norm(model), response_bound=BOUND, draws=200),
        **LINEAR,
    ),
    Subject(
        name="linear_noise_aware",
        build=lambda model: LinearNoiseAware(
            feature_norm=_norm(model), response_bound=BOUND, draws=50, warm_up=50, thin=1
        ),
        slowness=10,
        **LINEAR,
    ),
    Subject(
        name="beta_bernoulli_ssp",
        build=lambda model: BetaBernoulliSSP(draws=200),
        regresses=False,
        **ONE_NUMBER,
    ),
    Subject(
        name="beta_bernoulli_noise_aware",
        build=lambda model: BetaBernoulliNoiseAware(draws=200),
        regresses=False,
        relations=REPLACE_ONLY,
        **ONE_NUMBER,
    ),
    Subject(
        name="beta_bernoulli_draw",
        build=lambda model: BetaBernoulliDraw(),
        regresses=False,
        delta=1e-5,
        **ONE_NUMBER,
    ),
    Subject(
        name="gaussian_mean_draw",
        build=lambda model: GaussianMeanDraw(response_bound=BOUND),
        regresses=False,
        delta=1e-5,
        relations=REPLACE_ONLY,
        **LINEAR,
        **ONE_NUMBER,
    ),
)
"""In the order of the tables."""
