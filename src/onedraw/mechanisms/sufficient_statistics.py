# SPDX-License-Identifier: Apache-2.0
"""Sufficient-statistic perturbation: a conjugate posterior from noisy sums [Foulds et al. 2016].

The posterior given noisy statistics is a function of them, so all of it is released, as ``draws`` draws. It
takes the noisy sums at their word: for small n or epsilon its intervals are too short. The posterior that
knows about the noise is in ``noise_aware.py``.

Guarantee:
    epsilon-DP (pure), for the whole posterior, with m rows a person:

    * ``BetaBernoulliSSP``: the number of ones plus Laplace noise of scale m/epsilon under replace-one, where
      n is public; both counts, each with that noise, under add/remove. *Proof.* A row is in one count: m rows
      move the number of ones by at most m, or, added, the two counts by m in L1. []
    * ``LinearSSP``: with x divided by X and y by Y (both clipped), the distinct entries of X'X and X'y plus
      Laplace noise of scale m c ((p + 1)/2 + sqrt(p))/epsilon, c = 2 (replace-one) or 1 (add/remove).
      *Proof.* For |x|_2 <= 1 the distinct entries of xx' have L1 norm (|x|_1^2 + |x|_2^2)/2 <= (p + 1)/2, and
      |xy|_1 <= sqrt(p); a replaced row is one removed and one added. []

Edge cases:
    Noisy counts are moved into [0, n], noisy moments to the nearest positive semi-definite matrix: functions
    of released numbers. n = 0 gives the prior, plus noise.

>>> mechanism = BetaBernoulliSSP(draws=3).calibrate(epsilon=1.0)
>>> release = mechanism.release(
...     Records(features=np.zeros((100, 0)), response=np.ones(100)), random_state=0,
...     model=RegressionModel(kind="logistic", features=()))
>>> len(release.draws), release.guarantee.epsilon
(3, 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onedraw._validate import positive, whole
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli
from onedraw.mechanisms._base import (
    BoundedMechanism,
    bounded_design,
    clipping_note,
    epsilon_only,
    need_bound,
    response_note,
)
from onedraw.mechanisms.conjugate_rdp import logit_beta
from onedraw.mechanisms.one_posterior import Records
from onedraw.model import RegressionModel
from onedraw.privacy.guarantee import Guarantee
from onedraw.release import Grid, coefficient_step
from onedraw.samplers.base import Evidence
from onedraw.types import Array

EVIDENCE = Evidence(
    level="accounted",
    statement=(
        "Laplace noise of a known scale was added to sums over bounded records; the draws are computed from "
        "the noisy sums alone, so privacy rests on no sampler."
    ),
)


@dataclass(frozen=True, kw_only=True)
class NoisyPosterior(BoundedMechanism):
    """What mechanisms that release a whole posterior share: the number of draws that represent it."""

    draws: int = 1000

    def _draws_released(self) -> int:
        return whole(draws=self.draws)


@dataclass(frozen=True, kw_only=True)
class BetaBernoulliSSP(NoisyPosterior):
    """The Beta posterior of a probability from a noisy count, released as logits."""

    name: ClassVar[str] = "beta_bernoulli_ssp"

    prior: tuple[float, float] = (1.0, 1.0)

    def _check(self, guarantee: Guarantee) -> Guarantee:
        for count in self.prior:
            positive(prior=count)
        epsilon_only(guarantee, type(self).__name__)
        return guarantee

    def _check_model(self, model: RegressionModel) -> None:
        super()._check_model(model)
        if model.num_features or not model.fit_intercept:
            raise InvalidInput(
                f"{type(self).__name__} estimates one number: describe it as a model with an intercept and "
                f"no features, got {model.num_features} features."
            )

    @property
    def noise_scale(self) -> float:
        """The scale of the Laplace noise on each count."""
        return self.guarantee.rows_per_person / self.guarantee.epsilon

    def _values(
        self, data: Records, model: RegressionModel, rng: np.random.Generator
    ) -> tuple[Array, Evidence]:
        Bernoulli().check_response(data.response)
        ones = float(data.response.sum()) + rng.laplace(scale=self.noise_scale)
        if self.guarantee.neighbours == "replace_one":
            return self._draw_posterior(ones, len(data.response), rng), EVIDENCE
        zeros = float((1.0 - data.response).sum()) + rng.laplace(scale=self.noise_scale)
        a, b = self.prior
        return logit_beta(rng, a + max(ones, 0.0), b + max(zeros, 0.0), self.draws), EVIDENCE

    def _draw_posterior(self, noisy_ones: float, num_records: int, rng: np.random.Generator) -> Array:
        """Logits (draws, 1) given the noisy count and the public number of records."""
        ones = min(max(noisy_ones, 0.0), float(num_records))
        return logit_beta(rng, self.prior[0] + ones, self.prior[1] + num_records - ones, self.draws)

    def grid(self, model: RegressionModel) -> Grid:
        """2^-40 of a unit of the logit."""
        return Grid(coefficient=coefficient_step(1.0))

    @property
    def description(self) -> Mapping[str, str | float | None]:
        """The public numbers that define the mechanism, for the release."""
        return {"noise_scale": self.noise_scale, "prior_ones": self.prior[0], "prior_zeros": self.prior[1]}

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """Nothing is clipped: the response is 0 or 1."""
        return ()


@dataclass(frozen=True, kw_only=True)
class LinearSSP(NoisyPosterior):
    """The posterior of linear coefficients from noisy moments, with a known residual scale.

    ``residual_scale`` and ``prior_scale`` are public guesses in working units.
    """

    name: ClassVar[str] = "linear_ssp"
    kinds: ClassVar[tuple[str, ...]] = ("linear",)

    feature_norm: float | None = None
    response_bound: float | None = None
    residual_scale: float = 1.0
    prior_scale: float = 3.0

    def _check(self, guarantee: Guarantee) -> Guarantee:
        self._bounds()
        positive(residual_scale=self.residual_scale)
        positive(prior_scale=self.prior_scale)
        epsilon_only(guarantee, type(self).__name__)
        return guarantee

    def _bounds(self) -> tuple[float, float]:
        """X and Y."""
        mechanism, why = type(self).__name__, "its noise must cover the largest product a record can add."
        return (
            need_bound(self.feature_norm, name="feature_norm", mechanism=mechanism, why=why),
            need_bound(self.response_bound, name="response_bound", mechanism=mechanism, why=why),
        )

    def sensitivity(self, dim: int) -> float:
        """In L1, of the distinct entries of X'X and X'y in units of X^2 and X Y."""
        changed = 2.0 if self.guarantee.neighbours == "replace_one" else 1.0
        return self.guarantee.rows_per_person * changed * (0.5 * (dim + 1) + math.sqrt(dim))

    def _values(
        self, data: Records, model: RegressionModel, rng: np.random.Generator
    ) -> tuple[Array, Evidence]:
        norm, bound = self._bounds()
        design = bounded_design(data.features, fit_intercept=model.fit_intercept, feature_norm=norm) / norm
        response = np.clip(data.response, -bound, bound) / bound
        scale = self.sensitivity(model.dim) / self.guarantee.epsilon
        upper = np.triu(rng.laplace(scale=scale, size=(model.dim, model.dim)))
        moments = design.T @ design + upper + np.triu(upper, 1).T
        products = design.T @ response + rng.laplace(scale=scale, size=model.dim)
        # From here on the data are not touched again. Coefficients in units of Y/X.
        unit = bound / norm
        draws = self._draw_posterior(
            moments, products, scale, self.residual_scale / bound, self.prior_scale / unit, rng
        )
        return draws * unit, EVIDENCE

    def _draw_posterior(
        self,
        moments: Array,
        products: Array,
        noise_scale: float,
        residual: float,
        prior: float,
        rng: np.random.Generator,
    ) -> Array:
        """Coefficients (draws, p) given noisy moments (p, p) and products (p,), taken at their word."""
        precision = nearest_psd(moments) / residual**2 + np.eye(len(products)) / prior**2
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, products / residual**2)
        normal = rng.standard_normal((len(products), self.draws))
        return np.asarray(mean + np.linalg.solve(root.T, normal).T)

    def grid(self, model: RegressionModel) -> Grid:
        """2^-40 of the prior scale."""
        return Grid(coefficient=coefficient_step(self.prior_scale))

    @property
    def description(self) -> Mapping[str, str | float | None]:
        """The public numbers that define the mechanism, for the release."""
        norm, bound = self._bounds()
        return {
            "feature_norm": norm,
            "response_bound": bound,
            "residual_scale": self.residual_scale,
            "prior_scale": self.prior_scale,
        }

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know."""
        norm, bound = self._bounds()
        return clipping_note(norm), response_note(bound)


def nearest_psd(matrix: Array) -> Array:
    """The nearest positive semi-definite matrix in Frobenius norm."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
