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
from onedraw.private import Withheld
from onedraw.types import Array

BLOCK_CELLS = 1 << 15
"""Rows times columns of a block: 256 KiB of doubles, so that elementwise passes stay in cache."""
PARALLEL_CELLS = 1 << 17
SPANS = 8
ALL_ZERO: Array = np.zeros((1, 1))


@functools.cache
def _workers() -> ThreadPoolExecutor:
    """Threads for elementwise NumPy work, which releases the interpreter's lock."""
    return ThreadPoolExecutor(max_workers=min(SPANS, os.cpu_count() or 1), thread_name_prefix="onedraw")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child that used its parent's pool would wait for ever.
    os.register_at_fork(after_in_child=_workers.cache_clear)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Posterior(Withheld):
    """A generalised posterior over ``dim`` working parameters; see the module docstring.

    ``features`` is (n, d), of which one copy is made at the first look; ``response`` is (n,) in the family's
    own coding.
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
        stacked = self._stacked(thetas)

        def block(rows: slice) -> tuple[Array]:
            y, design = self.records(rows)
            return (self.loss.value(y, _predictors(design, stacked), self.beta, scale).sum(axis=0),)

        return self.sum_over_blocks(block, len(thetas))[0]

    def log_density_and_gradient(self, thetas: Array) -> tuple[Array, Array]:
        """Log density (m,) and its gradient (m, p)."""
        scale, stacked = self._scale(thetas), self._stacked(thetas)

        def block(rows: slice) -> tuple[Array, ...]:
            y, design = self.records(rows)
            loss = self.loss.derivatives(y, _predictors(design, stacked), self.beta, scale, order=1)
            return _gradient_pieces(design, loss, self.num_predictors)

        total, *pieces = self.sum_over_blocks(block, len(thetas))
        value = self._checked(self.prior.log_density(thetas) - self.weight * total)
        return value, self.prior.gradient(thetas) - self.weight * self._gradient(thetas, *pieces)

    def local_quadratic(self, theta: Array, smoothing: Array | None = None) -> tuple[float, Array, Array]:
        """Log density, gradient (p,) and minus the Hessian (p, p) at one point.

        With ``smoothing``, a covariance (p, p) of the parameters, the loss and its derivatives are averaged
        over the normal law that it gives each record's linear predictors: the stationary point of these
        averages is the centre of the best Gaussian approximation, where the plain one is the mode.
        """
        q, thetas = self.num_predictors, theta[None, :]
        scale, stacked, order = self._scale(thetas), self._stacked(thetas), self._order
        root = None if smoothing is None else self._stacked_root(smoothing)

        def block(rows: slice) -> tuple[Array, ...]:
            y, design = self.records(rows)
            eta = _predictors(design, stacked)
            nodes = [(0.0, 1.0)] if root is None else _nodes(design, root)
            losses = [self.loss.derivatives(y, eta + shift, self.beta, scale, order=2) for shift, _ in nodes]
            loss = losses[0] if len(losses) == 1 else _average(losses, [weight for _, weight in nodes])
            if self.loss.family.has_kinks and len(losses) == 3:
                # Stein's lemma: the average curvature from slopes on both sides, between which kinks count.
                loss = replace(loss, d2_eta=(losses[2].d_eta - losses[0].d_eta) / (2.0 * nodes[2][0]))
            return _gradient_pieces(design, loss, q) + _curvature_pieces(design, loss, q)

        work = max(1, self._size // 2)
        total, slope, d_scale, curvature, cross, d2_scale = self.sum_over_blocks(block, 1, work)
        gradient = self._gradient(thetas, slope, d_scale)
        hessian = np.zeros((self.dim, self.dim))
        hessian[: q * self._size, : q * self._size] = curvature[order][:, order]
        if self.has_scale:
            # Chain rule through scale = floor + exp(u): d/du = step d/dscale, and the step is its own
            # derivative.
            step = float(self._scale_step(thetas)[0])
            hessian[-1, -1] = step**2 * float(d2_scale[0]) + gradient[0, -1]
            hessian[-1, :-1] = hessian[:-1, -1] = step * cross[order]
        value = float(self._checked(self.prior.log_density(thetas) - self.weight * total)[0])
        hessian *= self.weight
        hessian[np.diag_indices(self.dim)] += self.prior.negative_hessian_diagonal(theta)
        return value, (self.prior.gradient(thetas) - self.weight * gradient)[0], hessian

    def sum_over_blocks(
        self, block: Callable[[slice], tuple[Array, ...]], columns: int, work: int = 1
    ) -> tuple[Array, ...]:
        """Sum what ``block`` returns over cache-sized blocks of rows, large sums on all cores.

        ``columns`` log densities are counted; ``work`` is by how much a row takes more room than one. The
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

    # -- the records as they are read --------------------------------------------------------------------

    def records(self, rows: slice | NDArray[np.intp]) -> tuple[Array, Array]:
        """Responses (rows, 1) and design (rows, size) of some records.

        Where the family is symmetric, (0, x) or (0, -x) stands for each record (y, x), and one 0 for all
        responses.
        """
        y = ALL_ZERO if self._signs is not None else self.response[rows, None]
        return y, self._design[rows]

    @functools.cached_property
    def _signs(self) -> Array | None:
        return self.loss.family.signs(self.response)

    @functools.cached_property
    def _design(self) -> Array:
        """Features and, for an intercept, ones; each column is contiguous, so that sums run along records."""
        design = np.empty((self._size, self.num_records)).T
        design[:, : self.features.shape[1]] = self.features
        design[:, self.features.shape[1] :] = 1.0
        if self._signs is not None:
            design *= self._signs[:, None]
        return design

    # -- the layout of parameters ------------------------------------------------------------------------

    @property
    def _size(self) -> int:
        """Coefficients of one predictor, its intercept included."""
        return int(self.features.shape[1]) + int(self.fit_intercept)

    @functools.cached_property
    def _order(self) -> NDArray[np.intp] | slice:
        """Where each location parameter sits when predictors are stacked as (coefficients, intercept)."""
        q, d, size = self.num_predictors, self.features.shape[1], self._size
        if q == 1:
            return slice(None)
        coefficients = [j * size + i for j in range(q) for i in range(d)]
        intercepts = [j * size + d for j in range(q)] if self.fit_intercept else []
        return np.array(coefficients + intercepts, dtype=np.intp)

    def _stacked(self, thetas: Array) -> Array:
        """Location parameters (m, q, size), predictor by predictor."""
        stacked = np.empty((len(thetas), self.num_predictors * self._size))
        stacked[:, self._order] = thetas[:, : stacked.shape[1]]
        return stacked.reshape(len(thetas), self.num_predictors, self._size)

    def _stacked_root(self, covariance: Array) -> Array:
        """A root (q, size, q size) of the location parameters' covariance, predictor by predictor."""
        size = self.num_predictors * self._size
        order = np.arange(size)[self._order]
        stacked = np.empty((size, size))
        stacked[np.ix_(order, order)] = covariance[:size, :size]
        root = np.asarray(np.linalg.cholesky(stacked), dtype=float)
        return root.reshape(self.num_predictors, self._size, size)

    def _gradient(self, thetas: Array, slope: Array, d_scale: Array) -> Array:
        """The gradient (m, p) of the summed loss from its stacked part and the derivative in the scale."""
        gradient = slope[:, self._order]
        if not self.has_scale:
            return gradient
        return np.column_stack([gradient, d_scale * self._scale_step(thetas)])

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


# -- sums over a block of records


def _predictors(design: Array, stacked: Array) -> Array:
    """The linear predictors: (rows, m), or (q, rows, m) for families with several."""
    m, q, size = stacked.shape
    eta = stacked.reshape(m * q, size) @ design.T
    # Records run along contiguous memory: elementwise loops are long, however few parameters there are.
    return eta.T if q == 1 else eta.reshape(m, q, -1).transpose(1, 2, 0)


def _gradient_pieces(design: Array, loss: Derivatives, q: int) -> tuple[Array, ...]:
    """The loss (m,), its stacked gradient (m, q size) and its derivative in the scale (m,)."""
    total = loss.value.sum(axis=0)
    d_eta = loss.d_eta.reshape(q, len(design), len(total))
    slope = np.concatenate([part.T @ design for part in d_eta], axis=1)
    return total, slope, total if loss.d_scale is None else loss.d_scale.sum(axis=0)


def _curvature_pieces(design: Array, loss: Derivatives, q: int) -> tuple[Array, ...]:
    """Of one parameter vector: the stacked curvature, and the scale's cross terms and curvature."""
    size = design.shape[1]
    assert loss.d2_eta is not None
    d2_eta = loss.d2_eta.reshape(q, q, -1)
    curvature = np.empty((q, size, q, size))
    for j in range(q):
        for k in range(j, q):
            curvature[j, :, k, :] = (design.T * d2_eta[j, k]) @ design
            curvature[k, :, j, :] = curvature[j, :, k, :].T
    cross, d2_scale = np.zeros(q * size), np.zeros(1)
    if loss.d_eta_scale is not None and loss.d2_scale is not None:
        cross, d2_scale = loss.d_eta_scale.reshape(-1) @ design, loss.d2_scale.sum(axis=0)
    return curvature.reshape(q * size, q * size), cross, d2_scale


def _nodes(design: Array, root: Array) -> list[tuple[Any, float]]:
    """Shifts of the linear predictors, and weights, that average over the normal law of ``root``.

    Three Gauss-Hermite nodes for one predictor. For several, the 2 q points sqrt(q) from the centre along the
    axes of each record's covariance, exact for cubic functions.
    """
    q, white = len(root), [design @ part for part in root]
    if q == 1:
        spread = np.sqrt(3.0 * np.einsum("ij,ij->i", white[0], white[0]))[:, None]
        return [(-spread, 1 / 6), (0.0, 2 / 3), (spread, 1 / 6)]
    stacked = np.stack(white, axis=1)
    covariance = stacked @ stacked.swapaxes(1, 2)
    covariance[:, range(q), range(q)] *= 1.0 + 1e-9
    axes = math.sqrt(q) * np.linalg.cholesky(covariance + 1e-300 * np.eye(q))
    shifts = [np.ascontiguousarray(axes[:, :, k].T)[:, :, None] for k in range(q)]
    return [(sign * shift, 0.5 / q) for shift in shifts for sign in (1.0, -1.0)]


def _average(losses: list[Derivatives], weights: list[float]) -> Derivatives:
    """The weighted sum of each field that is there."""

    def combine(name: str) -> Any:
        values = [getattr(loss, name) for loss in losses]
        return None if values[0] is None else sum(w * v for w, v in zip(weights, values, strict=True))

    return Derivatives(**{field.name: combine(field.name) for field in fields(Derivatives)})
