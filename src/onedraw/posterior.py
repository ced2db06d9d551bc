# SPDX-License-Identifier: Apache-2.0
"""The generalised posterior of a regression model: prior(theta) * exp(-weight * sum of losses).

Everything that depends on the private data is reached through this object, and nothing in it may leave the
process: log densities, gradients and Hessians are exact functions of the records.

A parameter vector theta is laid out as coefficients (feature by feature, predictor by predictor), then the
intercept of each predictor, then the working coordinate of the scale. Many parameter vectors are evaluated
together: one matrix product and one fused elementwise pass over cache-sized blocks of rows give m log
densities.

>>> import numpy as np
>>> from onedraw.families import Bernoulli
>>> from onedraw.losses import BetaDivergence
>>> from onedraw.priors import Prior
>>> posterior = Posterior(
...     loss=BetaDivergence(Bernoulli()), beta=2.0, weight=0.5, prior=Prior(scale=3.0),
...     features=np.array([[1.0], [2.0]]), response=np.array([0.0, 1.0]))
>>> posterior.dim, posterior.log_density(np.zeros((3, 2))).shape
(2, (3,))
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onedraw.errors import NonFiniteDensity
from onedraw.families.base import Derivatives
from onedraw.losses.base import Loss
from onedraw.priors import Prior
from onedraw.types import Array

BLOCK_CELLS = 1 << 15
"""Rows times columns of a block: 256 KiB of doubles, so that elementwise passes stay in cache."""
PARALLEL_CELLS = 1 << 17
SPANS = 8


@functools.cache
def _workers() -> ThreadPoolExecutor:
    """Threads for elementwise NumPy work, which releases the interpreter's lock."""
    return ThreadPoolExecutor(max_workers=min(SPANS, os.cpu_count() or 1), thread_name_prefix="onedraw")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child that used its parent's pool would wait for ever.
    os.register_at_fork(after_in_child=_workers.cache_clear)


def _average(losses: list[Derivatives], weights: list[float]) -> Derivatives:
    """The weighted sum of each field that is there."""

    def combine(name: str) -> Any:
        values = [getattr(loss, name) for loss in losses]
        return None if values[0] is None else sum(w * v for w, v in zip(weights, values, strict=True))

    return Derivatives(**{field.name: combine(field.name) for field in fields(Derivatives)})


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """A generalised posterior over ``dim`` working parameters. Private: see the module docstring.

    ``features`` is (n, d) and may be a memory map; ``response`` is (n,) in the family's own coding.
    """

    loss: Loss
    beta: float
    weight: float
    prior: Prior
    features: Array
    response: Array
    fit_intercept: bool = True
    passes: list[float] = field(default_factory=lambda: [0.0])

    @property
    def num_records(self) -> int:
        return int(self.features.shape[0])

    @property
    def num_predictors(self) -> int:
        return self.loss.family.num_predictors

    @property
    def has_scale(self) -> bool:
        return self.prior.noise is not None

    @property
    def dim(self) -> int:
        per_predictor = self.features.shape[1] + int(self.fit_intercept)
        return int(self.num_predictors * per_predictor + int(self.has_scale))

    def subsample(self, size: int, rng: np.random.Generator) -> Posterior:
        """The posterior of ``size`` records chosen at random, each counted n/size times.

        At random, never evenly spaced: tables come ordered, and a stride could miss every record of a group.
        """
        if self.num_records < 2 * size:
            return self
        rows = np.sort(rng.choice(self.num_records, size, replace=False))
        return replace(
            self,
            features=self.features[rows],
            response=self.response[rows],
            weight=self.weight * self.num_records / size,
            passes=[0.0],
        )

    # -- evaluation --------------------------------------------------------------------------------------

    def log_density(self, thetas: Array) -> Array:
        """Unnormalised log density of each row of ``thetas`` (m, p); -inf only outside a truncated prior."""
        total = self.summed_loss(thetas, self._scale(thetas))
        return self._checked(self.prior.log_density(thetas) - self.weight * total)

    def summed_loss(self, thetas: Array, scale: Array | None) -> Array:
        """The unweighted sum of losses (m,) at location parameters ``thetas`` and scales (1, m)."""

        def block(rows: slice) -> tuple[Array]:
            eta = self._predictor(rows, thetas)
            return (self.loss.value(self.response[rows, None], eta, self.beta, scale).sum(axis=0),)

        return self.sum_over_blocks(block, len(thetas))[0]

    def log_density_and_gradient(self, thetas: Array) -> tuple[Array, Array]:
        """Log density (m,) and its gradient (m, p)."""
        scale = self._scale(thetas)

        def block(rows: slice) -> tuple[Array, Array]:
            loss = self.loss.derivatives(
                self.response[rows, None], self._predictor(rows, thetas), self.beta, scale, order=1
            )
            return loss.value.sum(axis=0), self._gradient(rows, loss, len(thetas))

        total, gradient = self.sum_over_blocks(block, len(thetas))
        if self.has_scale:
            gradient[:, -1] *= self._scale_step(thetas)
        value = self._checked(self.prior.log_density(thetas) - self.weight * total)
        return value, self.prior.gradient(thetas) - self.weight * gradient

    def local_quadratic(self, theta: Array, smoothing: Array | None = None) -> tuple[float, Array, Array]:
        """Log density, gradient (p,) and minus the Hessian (p, p) at one point.

        With ``smoothing``, a covariance (p, p) of the parameters, the loss and its derivatives are averaged
        over the normal law that it gives each record's linear predictors: the stationary point of these
        averages is the centre of the best Gaussian approximation, where the plain one is the mode.
        """
        p, q = self.dim, self.num_predictors
        size = self.features.shape[1] + int(self.fit_intercept)
        thetas = theta[None, :]
        scale = self._scale(thetas)
        order = self._design_order()
        root = None if smoothing is None else self._stacked_root(smoothing, order)

        def block(rows: slice) -> tuple[Array, ...]:
            y, eta = self.response[rows, None], self._predictor(rows, thetas)
            nodes = [(0.0, 1.0)] if root is None else self._nodes(rows, root)
            losses = [self.loss.derivatives(y, eta + shift, self.beta, scale, order=2) for shift, _ in nodes]
            loss = losses[0] if len(losses) == 1 else _average(losses, [weight for _, weight in nodes])
            return self._quadratic_pieces(rows, loss)

        total, gradient, curvature, cross, d2_scale = self.sum_over_blocks(block, 1, work=size)
        hessian = np.zeros((p, p))
        hessian[: q * size, : q * size] = curvature.reshape(q * size, q * size)[np.ix_(order, order)]
        if self.has_scale:
            # Chain rule through scale = floor + exp(u): d/du = step d/dscale, and the step is its own
            # derivative.
            step = float(self._scale_step(thetas)[0])
            hessian[-1, -1] = step**2 * float(d2_scale[0]) + step * gradient[0, -1]
            hessian[-1, :-1] = hessian[:-1, -1] = step * cross.reshape(-1)[order]
            gradient[:, -1] *= step
        value = float(self._checked(self.prior.log_density(thetas) - self.weight * total)[0])
        hessian *= self.weight
        hessian[np.diag_indices(p)] += self.prior.negative_hessian_diagonal(theta)
        return value, (self.prior.gradient(thetas) - self.weight * gradient)[0], hessian

    # -- pieces ------------------------------------------------------------------------------------------

    def sum_over_blocks(
        self, block: Callable[[slice], tuple[Array, ...]], columns: int, work: int = 1
    ) -> tuple[Array, ...]:
        """Sum what ``block`` returns over cache-sized blocks of rows, large sums on all cores.

        ``columns`` log densities are counted; ``work`` is how many more doubles a row of one takes. The
        blocks and the order of summation depend only on the shapes, so a seed gives the same draw on any
        number of cores.
        """
        self.passes[0] += columns
        n, columns = self.num_records, columns * self.num_predictors * work
        rows = max(64, BLOCK_CELLS // max(1, columns))

        def span(start: int, stop: int) -> tuple[Array, ...]:
            total = block(slice(start, min(start + rows, stop)))
            for first in range(start + rows, stop, rows):
                part = block(slice(first, min(first + rows, stop)))
                total = tuple(a + b for a, b in zip(total, part, strict=True))
            return total

        if n * columns < PARALLEL_CELLS:
            return span(0, n)
        edges = np.linspace(0, n, SPANS + 1).astype(int).tolist()
        parts = list(_workers().map(span, edges[:-1], edges[1:]))
        return tuple(sum(pieces[1:], start=pieces[0]) for pieces in zip(*parts, strict=True))

    def _quadratic_pieces(self, rows: slice, loss: Derivatives) -> tuple[Array, ...]:
        """Sums over a block: loss, gradient, location curvature, scale cross terms, scale curvature."""
        q, x = self.num_predictors, self.features[rows]
        size = x.shape[1] + int(self.fit_intercept)
        assert loss.d2_eta is not None
        d2_eta = loss.d2_eta.reshape(q, q, -1)
        curvature = np.empty((q, size, q, size))
        for j in range(q):
            for k in range(j, q):
                curvature[j, :, k, :] = self._weighted_gram(x, d2_eta[j, k])
                curvature[k, :, j, :] = curvature[j, :, k, :].T
        cross, d2_scale = np.zeros((1, size)), np.zeros(1)
        if loss.d_eta_scale is not None and loss.d2_scale is not None:
            cross[0, : x.shape[1]] = loss.d_eta_scale.reshape(-1) @ x
            if self.fit_intercept:
                cross[0, -1] = loss.d_eta_scale.sum()
            d2_scale = loss.d2_scale.sum(axis=0)
        return loss.value.sum(axis=0), self._gradient(rows, loss, 1), curvature, cross, d2_scale

    def _weighted_gram(self, x: Array, weights: Array) -> Array:
        """Z' diag(weights) Z for Z = (x, 1), or x alone without an intercept; Z itself is never formed."""
        d = x.shape[1]
        gram = np.empty((d + int(self.fit_intercept),) * 2)
        gram[:d, :d] = (x * weights[:, None]).T @ x
        if self.fit_intercept:
            gram[d, :d] = gram[:d, d] = weights @ x
            gram[d, d] = weights.sum()
        return gram

    def _stacked_root(self, covariance: Array, order: NDArray[np.intp]) -> Array:
        """A root (q, size, q size) of the location parameters' covariance, predictor by predictor."""
        stacked = np.empty((len(order), len(order)))
        stacked[np.ix_(order, order)] = covariance[: len(order), : len(order)]
        root = np.asarray(np.linalg.cholesky(stacked), dtype=float)
        return root.reshape(self.num_predictors, -1, len(order))

    def _nodes(self, rows: slice, root: Array) -> list[tuple[Any, float]]:
        """Shifts of the linear predictors, and weights, that average over the normal law of ``root``.

        Three Gauss-Hermite nodes for one predictor. For several, the 2 q points sqrt(q) from the centre
        along the axes of each record's covariance, exact for cubic functions.
        """
        x, q = self.features[rows], self.num_predictors
        white = [x @ part[: x.shape[1]] + (part[-1] if self.fit_intercept else 0.0) for part in root]
        if q == 1:
            spread = np.sqrt(3.0 * np.einsum("ij,ij->i", white[0], white[0]))[:, None]
            return [(-spread, 1 / 6), (0.0, 2 / 3), (spread, 1 / 6)]
        stacked = np.stack(white, axis=1)
        covariance = stacked @ stacked.swapaxes(1, 2)
        covariance[:, range(q), range(q)] *= 1.0 + 1e-9
        axes = math.sqrt(q) * np.linalg.cholesky(covariance + 1e-300 * np.eye(q))
        shifts = [np.ascontiguousarray(axes[:, :, k].T)[:, :, None] for k in range(q)]
        return [(sign * shift, 0.5 / q) for shift in shifts for sign in (1.0, -1.0)]

    def _predictor(self, rows: slice, thetas: Array) -> Array:
        """The linear predictor: (rows, m), or (q, rows, m) for families with several predictors."""
        x, q, d = self.features[rows], self.num_predictors, self.features.shape[1]
        if q == 1:
            # One column of memory per parameter vector: elementwise loops then run along the rows, however
            # few parameter vectors there are.
            eta = (thetas[:, :d] @ x.T).T
            if self.fit_intercept:
                eta += thetas[:, d]
            return eta
        eta = np.stack([x @ thetas[:, j * d : (j + 1) * d].T for j in range(q)])
        if self.fit_intercept:
            eta += thetas[:, q * d : q * d + q].T[:, None, :]
        return eta

    def _gradient(self, rows: slice, loss: Derivatives, columns: int) -> Array:
        """The block's gradient (m, p) of the summed loss; the scale's entry is in the scale itself."""
        x, q, d = self.features[rows], self.num_predictors, self.features.shape[1]
        gradient = np.zeros((columns, self.dim))
        d_eta = loss.d_eta.reshape(q, len(x), columns)
        for j in range(q):
            gradient[:, j * d : (j + 1) * d] = d_eta[j].T @ x
            if self.fit_intercept:
                gradient[:, q * d + j] = d_eta[j].sum(axis=0)
        if loss.d_scale is not None:
            gradient[:, -1] = loss.d_scale.sum(axis=0)
        return gradient

    def design(self, rows: slice) -> Array:
        """The block's features with a column of ones where there is an intercept."""
        x = self.features[rows]
        if not self.fit_intercept:
            return x
        return np.concatenate([x, np.ones((len(x), 1))], axis=1)

    def _design_order(self) -> NDArray[np.intp]:
        """Where each working coordinate sits when predictors are stacked as (coefficients, intercept)
        blocks.
        """
        q, d = self.num_predictors, self.features.shape[1]
        size = d + int(self.fit_intercept)
        coefficients = [j * size + i for j in range(q) for i in range(d)]
        intercepts = [j * size + d for j in range(q)] if self.fit_intercept else []
        return np.array(coefficients + intercepts, dtype=np.intp)

    def _scale(self, thetas: Array) -> Array | None:
        return None if self.prior.noise is None else self.prior.noise.scale(thetas[:, -1])[None, :]

    def _scale_step(self, thetas: Array) -> Array:
        return np.exp(np.minimum(thetas[:, -1], 300.0))

    def _checked(self, value: Array) -> Array:
        if np.isnan(value).any() or np.isposinf(value).any():
            raise NonFiniteDensity(
                "The log density is not a finite number, so no draw can be trusted and nothing is released. "
                "Rescale the features with public feature_bounds (values beyond about 1e150 overflow)."
            )
        return value
