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
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from onedraw.design import Curvatures, Design, Designing, InCache, Losses, Observed, Slopes, Terms
from onedraw.errors import NonFiniteDensity
from onedraw.losses.base import Loss
from onedraw.priors import Prior
from onedraw.private import Withheld
from onedraw.tables.base import Table
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Posterior(Withheld):
    """A generalised posterior over ``dim`` working parameters; see the module docstring.

    The records are a ``table`` of blocks with ``features`` and ``response`` in the family's own coding, or
    these two arrays, (n, d) and (n,).
    """

    loss: Loss
    beta: float
    weight: float
    prior: Prior
    features: Array | None = None
    response: Array | None = None
    table: Table | None = None
    fit_intercept: bool = True
    passes: list[float] = field(default_factory=lambda: [0.0])

    @functools.cached_property
    def source(self) -> Table:
        """The records as they were given."""
        if self.table is not None:
            return self.table
        assert self.features is not None
        assert self.response is not None
        return Observed(features=self.features, response=self.response)

    @functools.cached_property
    def designed(self) -> Table:
        """The records as they are read: of records in memory, one copy is made at the first look."""
        prepared: Table = self.source.map(Designing(loss=self.loss, fit_intercept=self.fit_intercept))
        return prepared

    @property
    def num_records(self) -> int:
        return self.source.shape[0]

    @property
    def num_features(self) -> int:
        return self.source.shape[1]

    @property
    def num_predictors(self) -> int:
        return self.loss.family.num_predictors

    @property
    def has_scale(self) -> bool:
        return self.prior.noise is not None

    @property
    def dim(self) -> int:
        per_predictor = self.num_features + int(self.fit_intercept)
        return int(self.num_predictors * per_predictor + int(self.has_scale))

    def subsample(self, size: int, rng: np.random.Generator) -> Posterior:
        """The posterior of ``size`` records of the look, chosen at random, each counted n/size times."""
        if self.num_records < 2 * size:
            return self
        look = self.source.look(rng)
        if len(look) > size:
            look = look.take(np.sort(rng.choice(len(look), size, replace=False)))
        return replace(
            self,
            features=look.features,
            response=look.response,
            table=None,
            weight=self.weight * self.num_records / len(look),
            passes=[0.0],
        )

    # -- evaluation --------------------------------------------------------------------------------------

    def log_density(self, thetas: Array) -> Array:
        """Unnormalised log density of each row of ``thetas`` (m, p); -inf only outside a truncated prior."""
        total = self.summed_loss(thetas, self._scale(thetas))
        return self._checked(self.prior.log_density(thetas) - self.weight * total)

    def summed_loss(self, thetas: Array, scale: Array | None) -> Array:
        """The unweighted sum of losses (m,) at location parameters ``thetas`` and scales (1, m)."""
        terms = Losses(loss=self.loss, beta=self.beta, stacked=self._stacked(thetas), scale=scale)
        return self.sum_over_blocks(terms, len(thetas))[0]

    def record_losses(self, thetas: Array, rows: NDArray[np.intp]) -> Array:
        """The losses (m, rows) of some records in memory at each row of ``thetas`` (m, p)."""
        y, design = self.records(rows)
        self.passes[0] += len(thetas) * len(rows) / max(1, self.num_records)
        at = Losses(loss=self.loss, beta=self.beta, stacked=self._stacked(thetas), scale=self._scale(thetas))
        return at.each(y, design).T

    def log_density_and_gradient(self, thetas: Array) -> tuple[Array, Array]:
        """Log density (m,) and its gradient (m, p)."""
        terms = Slopes(
            loss=self.loss, beta=self.beta, stacked=self._stacked(thetas), scale=self._scale(thetas)
        )
        total, *pieces = self.sum_over_blocks(terms, len(thetas))
        value = self._checked(self.prior.log_density(thetas) - self.weight * total)
        return value, self.prior.gradient(thetas) - self.weight * self._gradient(thetas, *pieces)

    def sampled_gradient(self, thetas: Array, rate: float, rng: np.random.Generator) -> Array:
        """An unbiased gradient (m, p) of the log density, on records in memory.

        Each row of ``thetas`` takes every record with probability ``rate``, and those taken count 1/``rate``
        times."""
        n, found = self.num_records, self.prior.gradient(thetas)
        for i in range(len(thetas)):
            one, taken = thetas[i : i + 1], int(rng.binomial(n, rate))
            y, design = self.records(rng.choice(n, taken, replace=False, shuffle=False))
            self.passes[0] += taken / max(1, n)
            terms = Slopes(loss=self.loss, beta=self.beta, stacked=self._stacked(one), scale=self._scale(one))
            _, *pieces = terms(y, design)
            found[i] -= (self.weight / rate * self._gradient(one, *pieces))[0]
        return found

    def local_quadratic(self, theta: Array, smoothing: Array | None = None) -> tuple[float, Array, Array]:
        """Log density, gradient (p,) and minus the Hessian (p, p) at one point.

        With ``smoothing``, a covariance (p, p) of the parameters, the loss and its derivatives are averaged
        over the normal law that it gives each record's linear predictors: the stationary point of these
        averages is the centre of the best Gaussian approximation, where the plain one is the mode.
        """
        q, thetas = self.num_predictors, theta[None, :]
        order = self._order
        terms = Curvatures(
            loss=self.loss,
            beta=self.beta,
            stacked=self._stacked(thetas),
            scale=self._scale(thetas),
            root=None if smoothing is None else self._stacked_root(smoothing),
        )
        work = max(1, self._size // 2)
        total, slope, d_scale, curvature, cross, d2_scale = self.sum_over_blocks(terms, 1, work)
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

    def sum_over_blocks(self, terms: Terms, columns: int, work: int = 1) -> tuple[Array, ...]:
        """Sum what ``terms`` makes of responses and design of some records, in one pass over all.

        ``columns`` log densities are counted; ``work`` is by how much a row takes more room than one.
        """
        self.passes[0] += columns
        kernel = InCache(terms=terms, columns=max(1, columns * self.num_predictors * work))
        return self.designed.sum(kernel)

    def records(self, rows: slice | NDArray[np.intp]) -> tuple[Array, Array]:
        """Responses (rows, 1) and design (rows, size) of some records in memory."""
        design = self.designed
        assert isinstance(design, Design)
        return design.rows(rows)

    # -- the layout of parameters ------------------------------------------------------------------------

    @property
    def _size(self) -> int:
        """Coefficients of one predictor, its intercept included."""
        return self.num_features + int(self.fit_intercept)

    @functools.cached_property
    def _order(self) -> NDArray[np.intp] | slice:
        """Where each location parameter sits when predictors are stacked as (coefficients, intercept)."""
        q, d, size = self.num_predictors, self.num_features, self._size
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
