# SPDX-License-Identifier: Apache-2.0
"""Categorical responses with K classes: f(k | eta) = exp(logit_k) / sum_j exp(logit_j), logits = B eta.

The K logits matter only up to a common constant, so there are K - 1 predictors. B is the K x (K-1) Helmert
basis, whose columns are orthonormal and sum to zero: no class is singled out as the reference, and
independent normal priors N(0, v) on the predictors are independent normal priors N(0, v) on K logits, less
their mean. For K = 2 the family is the Bernoulli with predictor sqrt(2) eta.

With p the class probabilities, m = B'p and C = B' diag(p) B - m m' (both depend on eta),

    (log f)_a = B_ya - m_a,                 (log f)_ab = -C_ab,
    I    = sum_k p_k^beta,
    I_a  = beta sum_k p_k^beta (B_ka - m_a),
    I_ab = beta sum_k p_k^beta [ beta (B_ka - m_a)(B_kb - m_b) - C_ab ].

-log f with every logit in [-B, B], which a Euclidean norm |eta| <= B implies, is log sum_k exp(logit_k -
logit_y) with logits that sum to zero. It is smallest at logit_y = B, where Jensen's inequality makes the
others equal: log(1 + (K-1) e^(-B K/(K-1))). It is convex in the logits, so it is largest at a vertex of their
polytope, where half of them are B and half -B (and one is 0 if K is odd), the observed one -B: log(h + o e^B
+ h e^2B), h = floor(K/2), o = K - 2h. Both ends are attained.

>>> import numpy as np
>>> family = Categorical(num_classes=3)
>>> family.num_predictors
2
>>> eta = family.contrasts.T @ np.log([[0.2], [0.3], [0.5]])
>>> np.round(np.exp(family.log_density(np.array([0.0, 1.0, 2.0]), eta)), 12)
array([0.2, 0.3, 0.5])
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy import linalg

from onedraw._validate import whole
from onedraw.families._class_reference import class_log_variances
from onedraw.families._compose import compose_beta_loss
from onedraw.families._power import power
from onedraw.families.base import SMALL_B, Derivatives, MassFunction, Option
from onedraw.families.bernoulli import LARGEST_DRIFTING
from onedraw.families.noise_ratio import class_noise_ratio
from onedraw.types import AnyArray, Array


@dataclass(frozen=True, kw_only=True)
class Categorical(MassFunction):
    """y in {0, ..., num_classes - 1} with softmax link; ``eta`` is (num_classes - 1, rows, columns)."""

    num_classes: int

    name: ClassVar[str] = "categorical"
    kind: ClassVar[str] = "multinomial"
    is_canonical: ClassVar[bool] = True
    options: ClassVar[Mapping[str, Option]] = MappingProxyType(
        {"num_classes": Option(field="num_classes", default=3, minimum=2, about="Number of classes.")}
    )
    vector_predictor: ClassVar[bool] = True
    response: ClassVar[str] = "class codes 0, 1, 2 and so on, each below num_classes"
    response_remedy: ClassVar[str] = "Encode the classes so, and declare their number."
    handy_betas: ClassVar[tuple[float, ...]] = (1.5, 2.0, 2.5)
    compares_with_weight_one: ClassVar[bool] = True
    has_intervals: ClassVar[bool] = True
    ratio: ClassVar[str | None] = "odds ratio"
    exponential_intercept: ClassVar[str] = (
        "the odds of its class where every feature is 0; odds are against the geometric mean of all classes"
    )

    def __post_init__(self) -> None:
        whole(minimum=2, num_classes=self.num_classes)

    def describe(self, classes: tuple[Any, ...] | None = None) -> str:
        return "multinomial logistic, one set of coefficients per class, which sum to zero over the classes"

    def mean(self, eta: Array) -> Array:
        return np.exp(self._log_probabilities(eta))

    @property
    def num_predictors(self) -> int:
        return self.num_classes - 1

    @property
    def contrasts(self) -> Array:
        """B, (num_classes, num_classes - 1): the logits are B @ eta. Read-only."""
        return contrast_basis(self.num_classes)

    def log_density(self, y: Array, eta: Array, scale: Array | None = None) -> Array:
        return _observed(self._log_probabilities(eta), y)

    def log_density_derivatives(self, y: Array, eta: Array, scale: Array | None = None) -> Derivatives:
        return self._log_density_derivatives(y, self._log_probabilities(eta), order=2)

    def power_integral(self, eta: Array, beta: float, scale: Array | None = None) -> Array:
        total: Array = np.exp(beta * self._log_probabilities(eta)).sum(axis=0)
        return np.minimum(total, 1.0)

    def beta_loss(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array:
        probability, gain = self._probabilities_and_gains(eta, beta)
        return _loss_in_place(probability, gain, _observed(gain, y), beta)

    def beta_loss_derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives:
        probability, gain = self._probabilities_and_gains(eta, beta)
        observed = _observed(gain, y)  # p_y^b - 1
        # In the logits, d loss = p_k (p_k^b - I + p_y^b), less p_y^b where k = y.
        slope = gain + (1.0 + observed - (probability * gain).sum(axis=0))
        slope *= probability
        classes = np.arange(self.num_classes).reshape(-1, *(1,) * (slope.ndim - 1))
        slope -= (y == classes) * (1.0 + observed)
        d_eta = np.tensordot(self.contrasts.T, slope, axes=1)
        value = _loss_in_place(probability, gain, observed, beta)
        if order < 2:
            return Derivatives(value=value, d_eta=d_eta)
        log_p = self._log_probabilities(eta)
        log_density = self._log_density_derivatives(y, log_p, order=order)
        both = compose_beta_loss(value, log_density, self._integral(log_p, beta, order), beta=beta)
        return Derivatives(value=value, d_eta=d_eta, d2_eta=both.d2_eta)

    def _probabilities_and_gains(self, eta: Array, beta: float) -> tuple[Array, Array]:
        """p and p^b - 1, (num_classes, rows, columns) each."""
        b = beta - 1.0
        probability = self._log_probabilities(eta)
        if b < SMALL_B:
            gain = np.expm1(b * probability)
            return np.exp(probability, out=probability), gain
        np.exp(probability, out=probability)
        gain = power(probability, b)
        gain -= 1.0
        return probability, gain

    def sample(self, eta: Array, rng: np.random.Generator, scale: Array | None = None) -> Array:
        cumulative = np.cumsum(np.exp(self._log_probabilities(eta)), axis=0)
        uniform = rng.random(cumulative.shape[1:])
        below: Array = (uniform > cumulative[:-1]).sum(axis=0).astype(np.float64)
        return below

    def in_support(self, y: Array) -> AnyArray:
        return np.isin(y, np.arange(self.num_classes))

    def rough_predictor(self, y: Array) -> Array:
        # For two classes, log odds of +-2.
        return np.moveaxis(2.0 * self.contrasts[_codes(y)], -1, 0)

    def log_loss_range(self, predictor_bound: float) -> tuple[float, float]:
        bound, classes = predictor_bound, self.num_classes
        half, odd = divmod(classes, 2)
        smallest = math.log1p((classes - 1) * math.exp(-bound * classes / (classes - 1)))
        largest = 2.0 * bound + math.log(half + odd * math.exp(-bound) + half * math.exp(-2.0 * bound))
        return smallest, largest

    def reference_log_variances(
        self, beta: float, inverse_weight: float, scale: float
    ) -> tuple[Array, Array]:
        return class_log_variances(self.num_classes, beta, inverse_weight)

    def noise_ratio(self, beta: float, scale: float | None = None) -> float:
        return class_noise_ratio(beta)

    @property
    def predictor_multiple(self) -> float:
        # Twice the squared length of the vector of contrasts: for two classes, the variance of the log odds.
        return 2.0 * self.num_predictors

    def usual_intercept(self, fit_intercept: bool) -> float:
        return 0.0

    def drift_support(self, eta: Array) -> tuple[Array, Array]:
        return np.arange(float(self.num_classes)), np.clip(eta, -LARGEST_DRIFTING, LARGEST_DRIFTING)

    def _log_probabilities(self, eta: Array) -> Array:
        """(num_classes, rows, columns), a new array."""
        logits = np.tensordot(self.contrasts, eta, axes=1)
        logits -= logits.max(axis=0)
        logits -= np.log(np.exp(logits).sum(axis=0))
        return logits

    def _moments(self, log_p: Array, order: int) -> tuple[Array, Array, Array | None]:
        """p, the mean contrast m = B'p and, for order 2, the covariance C."""
        basis = self.contrasts
        p = np.exp(log_p)
        mean = np.tensordot(basis.T, p, axes=1)
        if order < 2:
            return p, mean, None
        return p, mean, _weighted_products(basis, p) - mean[:, np.newaxis] * mean

    def _log_density_derivatives(self, y: Array, log_p: Array, *, order: int) -> Derivatives:
        _, mean, covariance = self._moments(log_p, order)
        rows = np.moveaxis(self.contrasts[_codes(y)], -1, 0)
        return Derivatives(
            value=_observed(log_p, y),
            d_eta=rows - mean,
            d2_eta=None if covariance is None else _across(-covariance, y),
        )

    def _integral(self, log_p: Array, beta: float, order: int) -> Derivatives:
        _, mean, covariance = self._moments(log_p, order)
        basis = self.contrasts
        weight = np.exp(beta * log_p)
        total = weight.sum(axis=0)
        slope = np.tensordot(basis.T, weight, axes=1)  # sum_k p_k^beta B_ka
        curvature = None
        if covariance is not None:
            # sum_k w_k (B_ka - m_a)(B_kb - m_b), expanded; every factor is at most 1, so nothing cancels
            # badly.
            mixed = slope[:, np.newaxis] * mean
            spread = _weighted_products(basis, weight) - mixed - mixed.swapaxes(0, 1)
            spread += total * mean[:, np.newaxis] * mean
            curvature = beta * (beta * spread - total * covariance)
        return Derivatives(value=total, d_eta=beta * (slope - total * mean), d2_eta=curvature)


@lru_cache(maxsize=64)
def contrast_basis(num_classes: int) -> Array:
    """The Helmert basis, (num_classes, num_classes - 1), read-only; for two classes (-1, 1)/sqrt(2).

    >>> contrast_basis(2).ravel().round(4)
    array([-0.7071,  0.7071])
    """
    basis: Array = -np.asarray(linalg.helmert(num_classes), dtype=np.float64).T
    basis.flags.writeable = False
    return basis


def _loss_in_place(probability: Array, gain: Array, observed: Array, beta: float) -> Array:
    """(1 - p_y^b)/b - (1 - I)/beta from p, p^b - 1 and the gain of the response, overwriting the first."""
    probability *= gain  # sum_k p_k (p_k^b - 1) = I - 1
    loss: Array = observed / (1.0 - beta) + probability.sum(axis=0) / beta
    return loss


def _codes(y: Array) -> AnyArray:
    return np.asarray(y).astype(np.intp)


def _observed(table: Array, y: Array) -> Array:
    """table[y], elementwise over the axes after the first, with broadcasting; a new array."""
    codes = _codes(y)[np.newaxis]
    missing = table.ndim - codes.ndim
    codes = codes.reshape((1,) * missing + codes.shape) if missing > 0 else codes
    chosen: Array = np.take_along_axis(table, codes, axis=0)[0]
    return chosen


def _across(values: Array, y: Array) -> Array:
    """``values`` (q, q, ...) broadcast against the response."""
    shape = np.broadcast_shapes(values.shape[2:], np.shape(y))
    return np.broadcast_to(values, values.shape[:2] + shape)


def _weighted_products(basis: Array, weight: Array) -> Array:
    """sum_k weight_k B_ka B_kb, (q, q, ...)."""
    products = basis[:, :, np.newaxis] * basis[:, np.newaxis, :]
    return np.tensordot(products, weight, axes=(0, 0))
