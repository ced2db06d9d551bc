# SPDX-License-Identifier: Apache-2.0
"""Posteriors that know about the noise in their statistics [after Bernstein & Sheldon 2018, 2019].

The mechanisms are those of ``sufficient_statistics.py``, with the same noise and the same guarantee; what
differs is what is computed from the noisy sums. The exact sums are unknowns with a likelihood given by the
noise, so intervals have their nominal coverage (for the regression: close to it) at every n and epsilon.

Guarantee:
    epsilon-DP (pure), for the whole posterior: that of ``sufficient_statistics.py``. The draws, and any
    Markov chain behind them, are functions of the noisy sums alone: their accuracy, not privacy, depends
    on the chain.

*Beta-Bernoulli.* The number of ones S takes n + 1 values, so no approximation is needed: given the noisy
count Z, P(S) is proportional to BetaBinomial(S; n, a, b) exp(-|Z - S|/scale), and the probability given S is
Beta(a + S, b + n - S). (The original uses a normal approximation and Gibbs steps.) n must be public.

*Linear regression.* Unknowns: the moments A = X'X (flat prior on positive definite matrices), the products
q = X'y, the coefficients. Given X, q ~ N(A theta, r^2 A) exactly for normal residuals of scale r, so, unlike
in the original, no fourth moments of the features are needed. The Laplace noise on q is N(0, diag v) with
exponential v. Each sweep: (1) entries of A by random-walk Metropolis steps with theta and q integrated out,
Zq ~ N(0, s^2 A^2 + r^2 A + diag v), times exp(-|ZA - A|_1/scale); (2) theta from its normal conditional;
(3) q from its normal conditional; (4) 1/v_j ~ inverse Gaussian(1/(scale |Zq_j - q_j|), 1/scale^2).

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=()))
>>> BetaBernoulliNoiseAware(draws=3).calibrate(Request(epsilon=1.0), shape).guarantee.draws
3
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from onedraw._validate import whole
from onedraw.mechanisms._linear import LINEAR_NEEDS, NORMAL
from onedraw.mechanisms._posterior_draw import BINARY
from onedraw.mechanisms.base import Requirements
from onedraw.mechanisms.sufficient_statistics import (
    NoisyCounts,
    NoisyLinear,
    NoisyMoments,
    nearest_psd,
)
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class BetaBernoulliNoiseAware(NoisyCounts):
    """The exact posterior of a probability given a noisy count, released as logits."""

    name: ClassVar[str] = "beta_bernoulli_noise_aware"
    requirements: ClassVar[Requirements] = Requirements(
        families=BINARY,
        count="the law of the count of ones involves the number of records.",
        intercept_only=True,
        floating="",
        prefer="a probability with an honest interval",
    )

    def _draw_posterior(self, noisy_ones: float, num_records: int, rng: np.random.Generator) -> Array:
        a, b = self.prior
        ones = np.arange(num_records + 1.0)
        log_mass = (
            special.betaln(a + ones, b + num_records - ones)
            - special.betaln(ones + 1.0, num_records - ones + 1.0)
            - np.abs(noisy_ones - ones) / self.noise_scale
        )
        mass = np.exp(log_mass - log_mass.max())
        drawn = rng.choice(ones, size=self.draws, p=mass / mass.sum())
        return self._logits(rng, drawn, num_records - drawn, self.draws)


@dataclass(frozen=True, kw_only=True)
class LinearNoiseAware(NoisyLinear):
    """The posterior of linear coefficients given noisy moments, by a Markov chain on released numbers."""

    name: ClassVar[str] = "linear_noise_aware"
    requirements: ClassVar[Requirements] = Requirements(
        families=NORMAL,
        needs=LINEAR_NEEDS,
        floating="",
        prefer="honest intervals for a linear model with few features",
    )

    warm_up: int = 300
    thin: int = 3

    def _check_options(self) -> None:
        super()._check_options()
        whole(warm_up=self.warm_up, minimum=0)
        whole(thin=self.thin)

    def _draw_posterior(self, noisy: NoisyMoments, rng: np.random.Generator) -> Array:
        chain = _Chain(noisy, rng)
        for sweep in range(self.warm_up):
            chain.sweep(tune=sweep % 20 == 19)
        draws = []
        for _ in range(self.draws):
            for _ in range(self.thin):
                chain.sweep(tune=False)
            draws.append(chain.theta)
        return np.array(draws)


class _Chain:
    """The state of the Markov chain on (A, theta, q, v). Sees noisy numbers only."""

    def __init__(self, noisy: NoisyMoments, rng: np.random.Generator) -> None:
        self.noisy_moments, self.noisy_products = noisy.moments, noisy.products
        self.residual, self.prior, self.rng = noisy.residual, noisy.prior, rng
        noise_scale = self.noise_scale = noisy.noise_scale
        dim = len(noisy.products)
        self.moments = nearest_psd(noisy.moments) + noise_scale * np.eye(dim)
        self.variance = np.full(dim, 2.0 * noise_scale**2)
        self.theta: Array = np.zeros(dim)
        self.entries = list(zip(*np.triu_indices(dim), strict=True))
        self.step = np.full(len(self.entries), noise_scale)
        self.accepted = np.zeros(len(self.entries))

    def log_density(self, moments: Array) -> float:
        """Of A with theta and q integrated out, -inf outside the positive definite matrices."""
        try:
            np.linalg.cholesky(moments)
            spread = self.prior**2 * moments @ moments + self.residual**2 * moments
            root = np.linalg.cholesky(spread + np.diag(self.variance))
        except np.linalg.LinAlgError:
            return -np.inf
        white = np.linalg.solve(root, self.noisy_products)
        noise = np.abs(np.triu(self.noisy_moments - moments)).sum() / self.noise_scale
        return float(-noise - np.log(np.diag(root)).sum() - 0.5 * white @ white)

    def sweep(self, *, tune: bool) -> None:
        """One round over all unknowns; ``tune`` adapts the step lengths to the acceptances so far."""
        here = self.log_density(self.moments)
        for index, (i, j) in enumerate(self.entries):
            tried = self.moments.copy()
            tried[i, j] += self.step[index] * self.rng.standard_normal()
            tried[j, i] = tried[i, j]
            there = self.log_density(tried)
            if -self.rng.standard_exponential() < there - here:
                self.moments, here = tried, there
                self.accepted[index] += 1.0
        if tune:
            self.step *= np.exp(self.accepted / 20.0 - 0.4)
            self.accepted[:] = 0.0
        self._draw_theta()
        self._draw_variance()

    def _draw_theta(self) -> None:
        """From N given A, v and the noisy products."""
        covariance = self.residual**2 * self.moments + np.diag(self.variance)
        weighted = np.linalg.solve(covariance, self.moments)  # C^-1 A
        precision = self.moments @ weighted + np.eye(len(self.theta)) / self.prior**2
        precision = 0.5 * (precision + precision.T)
        mean = np.linalg.solve(precision, weighted.T @ self.noisy_products)
        root = np.linalg.cholesky(precision)
        self.theta = np.asarray(mean + np.linalg.solve(root.T, self.rng.standard_normal(len(mean))))

    def _draw_variance(self) -> None:
        """q, and then the variances v of the noise on it."""
        expected = self.moments @ self.theta
        own = self.residual**2 * self.moments
        gain = np.linalg.solve(own + np.diag(self.variance), own).T  # own C^-1
        mean = expected + gain @ (self.noisy_products - expected)
        spread = own - gain @ own
        values, vectors = np.linalg.eigh(0.5 * (spread + spread.T))
        normal = self.rng.standard_normal(len(mean))
        products = mean + vectors @ (np.sqrt(np.maximum(values, 0.0)) * normal)
        gap = np.maximum(np.abs(self.noisy_products - products), 1e-12 * self.noise_scale)
        inverse = self.rng.wald(1.0 / (self.noise_scale * gap), 1.0 / self.noise_scale**2)
        self.variance = np.clip(1.0 / inverse, 1e-20 * self.noise_scale**2, 1e20 * self.noise_scale**2)
