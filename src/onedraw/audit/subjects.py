# SPDX-License-Identifier: Apache-2.0
"""Every mechanism of the library, set up to be audited: one list, read by the command and the nightly script.

A ``Subject`` is a mechanism on its smallest interesting model, with the data sets to attack it on. To have a
new mechanism audited, add an entry to ``SUBJECTS``; it needs ``calibrate`` and ``release`` only.

* Where the output law is known (a posterior of at most two parameters, or noise around an estimate), the
  attack is the optimal one, on the pair that its exact laws call most telling; for posteriors a search looks
  for the worst pair as well.
* Elsewhere its releases are attacked from outside, with a learned score.

>>> finding = audit_subject(SUBJECTS["one-posterior"], epsilon=1.0, rounds=2000, tries=50, random_state=0)
>>> finding.verdict, 0.97 < finding.exact_epsilon <= 1.0
('not contradicted', True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from onedraw._random import generator
from onedraw._validate import one_of, whole
from onedraw.audit.attack import Attack, membership_attack, output_density
from onedraw.audit.black_box import black_box_audit
from onedraw.audit.bounds import Counts, clopper_pearson, significance
from onedraw.audit.exact import Laws, output_laws, worst_pair
from onedraw.audit.finding import Finding
from onedraw.audit.pairs import Pair, canary_pairs, neighbours_of, paper_pair
from onedraw.errors import InvalidInput
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
    Records,
)
from onedraw.model import RegressionModel
from onedraw.priors import Prior, ScalePrior
from onedraw.samplers import RejectionSampler
from onedraw.types import Array, Neighbours

BOTH: tuple[Neighbours, ...] = ("replace_one", "add_remove")
REPLACE_ONLY: tuple[Neighbours, ...] = ("replace_one",)
FLOOR = 0.1
BOUND = 3.0
"""Of responses, where a mechanism needs one."""
CROWD = 6
SIMULATED_RECORDS = 1000
PAIRS = ("telling", "paper")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A mechanism to audit. ``build`` makes it, uncalibrated, for a model with that many features.

    ``width`` and ``intercept`` describe the model that is attacked; accuracy is measured on two features and
    an intercept, or on the intercept alone where ``width`` is 0 and ``regresses`` is not set.
    """

    name: str
    kind: str
    build: Callable[[RegressionModel], Any]
    width: int = 1
    intercept: bool = False
    regresses: bool = True
    delta: float = 0.0
    relations: tuple[Neighbours, ...] = BOTH
    options: Mapping[str, Any] = field(default_factory=dict)
    scale_floor: float | None = None

    @property
    def model(self) -> RegressionModel:
        """The model that is attacked."""
        return self._model(self.width, self.intercept)

    @property
    def fitted_model(self) -> RegressionModel:
        """The model whose accuracy is measured."""
        return self._model(2 if self.regresses else 0, True)

    def _model(self, width: int, intercept: bool) -> RegressionModel:
        names = tuple(f"x{i + 1}" for i in range(width))
        return RegressionModel(
            kind=self.kind, features=names, fit_intercept=intercept, scale_floor=self.scale_floor
        )

    def calibrated(
        self,
        *,
        epsilon: float,
        delta: float | None = None,
        neighbours: Neighbours = "replace_one",
        model: RegressionModel | None = None,
    ) -> Any:
        """The mechanism with its guarantee."""
        one_of(self.relations, neighbours=neighbours, remedy=f"{self.name} offers these.")
        return self.build(model or self.model).calibrate(
            epsilon=epsilon,
            delta=self.delta if delta is None else delta,
            neighbours=neighbours,
            **self.options,
        )

    # -- what to attack it on

    def pairs(self, neighbours: Neighbours, choice: str = "telling") -> list[Pair]:
        """Candidate pairs; "paper" is the published one, for logistic models with one feature."""
        one_of(PAIRS, pair=choice)
        if choice == "paper":
            if self.kind != "logistic" or self.width != 1 or neighbours != "replace_one":
                raise InvalidInput(
                    f"The paper's pair is for logistic models with a feature and neighbours='replace_one', "
                    f"not for {self.name} with neighbours={neighbours!r}. Use pair='telling'."
                )
            return [paper_pair()]
        low, high = {"logistic": (0.0, 1.0), "linear": (-BOUND, BOUND), "poisson": (0.0, 20.0)}[self.kind]
        size = [1.0] * self.width
        pairs = []
        for crowd in (0, 1, 2, CROWD):
            common = [(size, low)] * crowd
            other = (size, low) if neighbours == "replace_one" else None
            name = f"{crowd} alike, one {'turned' if other else 'added'}"
            pairs.append(neighbours_of(common, (size, high), other, name=name))
        return pairs

    def canaries(self, neighbours: Neighbours) -> list[Pair]:
        """Candidate pairs for an attack from outside: a small balanced data set and one crafted record."""
        low, high = (0.0, 1.0) if self.kind == "logistic" else (-BOUND, BOUND)
        features = np.linspace(-1.0, 1.0, CROWD)[:, None] * np.ones((1, self.width))
        response = np.where(np.arange(CROWD) % 2 == 0, low, high)
        base = Records(features=features, response=response)
        return canary_pairs(base, size=1.0, responses=(low, high), neighbours=neighbours)


@dataclass(frozen=True, kw_only=True, eq=False)
class Released:
    """``fit(X, y, random_state)`` for a mechanism: what can be read off one release."""

    mechanism: Any
    model: RegressionModel

    def __call__(self, X: Array, y: Array, random_state: int | None = None) -> Array:
        """The draw; of several draws their means and spreads, which is what a posterior depends on here."""
        release = self.mechanism.release(
            Records(features=X, response=y), model=self.model, random_state=random_state
        )
        draws = np.array(release.draws)
        if len(draws) == 1:
            return np.asarray(draws[0])
        return np.concatenate([draws.mean(axis=0), np.log(draws.std(axis=0) + 1e-300)])


def audit_subject(
    subject: Subject,
    *,
    epsilon: float,
    delta: float | None = None,
    neighbours: Neighbours = "replace_one",
    rounds: int = 10_000,
    pair: str = "telling",
    tries: int = 200,
    confidence: float = 0.95,
    random_state: int | None = None,
    n_jobs: int | None = None,
    checkpoint: str | None = None,
    progress: bool = False,
) -> Finding:
    """Audit one mechanism at one guarantee; ``rounds`` are on both data sets together."""
    whole(rounds=rounds, minimum=2, remedy="Half of them are run on each data set.")
    significance(confidence)
    mechanism = subject.calibrated(epsilon=epsilon, delta=delta, neighbours=neighbours)
    claimed, model = mechanism.guarantee, subject.model
    exact = hasattr(mechanism, "posterior")
    if not exact and not isinstance(mechanism, OutputPerturbation):
        candidates = subject.canaries(neighbours) if pair == "telling" else subject.pairs(neighbours, pair)
        return black_box_audit(
            Released(mechanism=mechanism, model=model),
            candidates,
            epsilon=claimed.epsilon,
            delta=claimed.delta,
            runs=max(12, rounds // 2),
            confidence=confidence,
            random_state=random_state,
            n_jobs=n_jobs,
            checkpoint=checkpoint,
            progress=progress,
            name=subject.name,
        )
    rng, _ = generator(random_state)
    candidates = subject.pairs(neighbours, pair)
    laws_of = output_laws if exact else _noise_laws
    known = [laws_of(mechanism, candidate, model) for candidate in candidates]
    best = int(np.argmax([promise(laws, rounds, claimed.delta) for laws in known]))
    attack = membership_attack(mechanism, candidates[best], model, rounds=rounds, random_state=rng)
    worst = None
    if tries and exact:
        worst = worst_pair(mechanism, model, tries=tries, random_state=rng).laws
    return Finding(
        name=subject.name,
        claimed=claimed,
        # The threshold that exact laws call best, fixed before any round is run.
        attack=Attack(
            negatives=attack.negatives,
            positives=attack.positives,
            threshold=best_cut(known[best], rounds, claimed.delta),
        ),
        laws=known[best],
        worst=worst,
        pair=candidates[best].name,
        confidence=confidence,
    )


def _noise_laws(mechanism: OutputPerturbation, pair: Pair, model: RegressionModel) -> Laws:
    """The laws of an output perturbation of one parameter, on evenly spaced nodes."""
    densities = [output_density(mechanism, data, model) for data in (pair.first, pair.second)]
    low, high = (f(float(d.location[0]) for d in densities) for f in (min, max))
    reach = 40.0 * densities[0].scale
    nodes = np.linspace(low - reach, high + reach, 8001)[:, None]
    logs = [density.log_density(nodes) for density in densities]
    first, second = (log - special.logsumexp(log) for log in logs)
    return Laws(nodes=nodes, log_first=first, log_second=second)


def _expected(laws: Laws, rounds: int, delta: float) -> tuple[Array, Array]:
    """Cuts of the log ratio second/first, and the bound expected of ``rounds`` rounds at each."""
    half = max(1, rounds // 2)
    false_positive, false_negative = laws.trade_off()
    score = -np.sort(laws.loss)
    # A few hundred cuts, evenly spread over the outputs of either law.
    curves, shares = (false_positive, 1.0 - false_negative), np.linspace(0.0, 1.0, 200)
    spread = np.concatenate([np.searchsorted(curve, shares) for curve in curves])
    places = np.unique(np.clip(spread, 1, len(score) - 1))
    bounds = [
        clopper_pearson(
            Counts(
                false_positives=round(half * false_positive[i]),
                negatives=half,
                false_negatives=round(half * false_negative[i]),
                positives=half,
            ),
            delta=delta,
        ).epsilon
        for i in places
    ]
    return 0.5 * (score[places - 1] + score[places]), np.array(bounds)


def promise(laws: Laws, rounds: int, delta: float = 0.0) -> float:
    """The bound that the best attack with so many rounds is expected to give on this pair."""
    return float(_expected(laws, rounds, delta)[1].max())


def best_cut(laws: Laws, rounds: int, delta: float = 0.0) -> float:
    """The threshold of the log ratio that is expected to give it."""
    cuts, bounds = _expected(laws, rounds, delta)
    return float(cuts[int(bounds.argmax())])


# -- accuracy, on simulated data


def simulate(subject: Subject, seed: int, n: int = SIMULATED_RECORDS) -> tuple[Records, Array]:
    """Made-up records for the subject's model, and the true parameters.

    Features as in the paper: normal, clipped to [-4, 4], mapped to [0, 1].
    """
    rng = np.random.default_rng(seed)
    width = subject.fitted_model.num_features
    features = np.clip(rng.standard_normal((n, width)), -4.0, 4.0) / 8.0 + 0.5
    truth = rng.standard_normal(width + 1) * (3.0 if subject.kind == "logistic" and width else 1.0)
    truth[-1] = rng.standard_normal() if not width else -0.5 * truth[:-1].sum()  # mean predictor about 0
    eta = features @ truth[:-1] + truth[-1]
    if subject.kind == "logistic":
        response = (rng.random(n) < special.expit(eta)).astype(float)
    elif subject.kind == "poisson":
        response = rng.poisson(np.exp(eta)).astype(float)
    else:
        response = np.clip(eta + 0.3 * rng.standard_normal(n), -BOUND, BOUND)
    return Records(features=features, response=response), truth


def root_mean_squared_error(
    subject: Subject,
    *,
    epsilon: float,
    delta: float | None = None,
    neighbours: Neighbours = "replace_one",
    repeats: int = 20,
) -> float:
    """Of the released coefficients and intercept, over simulated data sets of 1,000 records."""
    model = subject.fitted_model
    mechanism = subject.calibrated(epsilon=epsilon, delta=delta, neighbours=neighbours, model=model)
    errors = []
    for seed in range(repeats):
        data, truth = simulate(subject, seed)
        release = mechanism.release(data, model=model, random_state=seed)
        errors.append(np.mean((release.estimate.flat()[0][: len(truth)] - truth) ** 2))
    return float(np.sqrt(np.mean(errors)))


# -- the list


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


def _listed(*subjects: Subject) -> dict[str, Subject]:
    return {subject.name: subject for subject in subjects}


SUBJECTS = _listed(
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
"""By name, in the order of the tables."""
