"""An oracle for posteriors of one to three parameters: quadrature on its own density, in its own coordinates.

The reference density is written here from scipy.stats and plain sums; it shares no code with the package. Parameters are the
coefficients and, where there is one, the scale itself. Draws become uniform numbers by the conditional distribution functions of the
quadrature (Rosenblatt), so a joint law is tested, not only its margins.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import interpolate, special, stats

from onedraw.families import Bernoulli, Categorical, Gaussian, Poisson
from onedraw.losses import BetaDivergence
from onedraw.posterior import Posterior
from onedraw.priors import Prior, ScalePrior

FAMILIES = {
    "bernoulli": lambda case: Bernoulli(),
    "categorical": lambda case: Categorical(num_classes=3),
    "gaussian": lambda case: Gaussian(scale_floor=case.floor),
    "poisson": lambda case: Poisson(),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A posterior, described by plain numbers."""

    family: str
    x: Any = field(repr=False)
    y: Any = field(repr=False)
    beta: float = 2.0
    weight: float = 0.5
    intercept: bool = True
    prior_scale: float = 3.0
    floor: float | None = None
    ceiling: float = np.inf
    box: float | None = None

    def posterior(self) -> Posterior:
        noise = None if self.floor is None else ScalePrior(floor=self.floor, ceiling=self.ceiling)
        return Posterior(
            loss=BetaDivergence(FAMILIES[self.family](self)),
            beta=self.beta,
            weight=self.weight,
            prior=Prior(scale=self.prior_scale, noise=noise, box=self.box),
            features=self.x,
            response=self.y,
            fit_intercept=self.intercept,
        )

    def natural(self, working: Any) -> Any:
        """Draws with the scale itself in the last column."""
        values = np.array(working)
        if self.floor is not None:
            values[:, -1] = self.floor + np.exp(values[:, -1])
        return values

    def log_density(self, natural: Any) -> Any:
        """The reference: unnormalised log density of each row of natural parameters."""
        location = natural if self.floor is None else natural[:, :-1]
        value = -0.5 * np.square(location / self.prior_scale).sum(axis=1)
        design = np.column_stack([self.x, np.ones(len(self.x))]) if self.intercept else self.x
        b = self.beta - 1.0
        sigma = None
        if self.floor is not None:
            sigma = natural[:, -1]
            value = value - 3.0 * np.log(sigma) - 1.0 / sigma**2  # inverse-gamma(1, 1) of sigma^2, as a law of sigma
        total = np.zeros(len(natural))
        for row, y in zip(design, self.y, strict=True):
            if self.family == "categorical":
                basis = np.array([[-1 / 2**0.5, -1 / 6**0.5], [1 / 2**0.5, -1 / 6**0.5], [0.0, 2 / 6**0.5]])
                d = self.x.shape[1]
                eta = np.stack([location[:, j * d : (j + 1) * d] @ row[:d] for j in range(2)], axis=1)
                if self.intercept:
                    eta += location[:, 2 * d :]
                p = special.softmax(eta @ basis.T, axis=1)
                total += -(p[:, int(y)] ** b) / b + (p**self.beta).sum(axis=1) / self.beta
                continue
            eta = location @ row
            if self.family == "bernoulli":
                p = special.expit(eta if y == 1.0 else -eta)
                total += -(p**b) / b + (p**self.beta + (1 - p) ** self.beta) / self.beta
            elif self.family == "gaussian":
                integral = (2 * np.pi * sigma**2) ** (-b / 2) * self.beta**-0.5
                total += -(stats.norm.pdf(y, eta, sigma) ** b) / b + integral / self.beta
            else:
                mass = stats.poisson.pmf(y, np.exp(np.minimum(eta, 40.0)))
                total += -(mass**b) / b + poisson_integral(self.beta)(np.minimum(eta, 40.0)) / self.beta
        return value - self.weight * total


@functools.cache
def poisson_integral(beta: float) -> Any:
    """sum_k f(k)^beta as a spline in the log mean, from plain sums; the normal limit beyond a mean of 1e5."""
    nodes = np.linspace(-40.0, np.log(1e5), 2500)

    def total(eta: float) -> float:
        mean = np.exp(eta)
        reach = 40.0 + 12.0 * np.sqrt(mean)
        k = np.arange(max(0.0, np.floor(mean - reach)), np.ceil(mean + reach))
        return float((stats.poisson.pmf(k, mean) ** beta).sum())

    spline = interpolate.CubicSpline(nodes, [total(eta) for eta in nodes])

    def value(eta: Any) -> Any:
        inside = spline(np.clip(eta, nodes[0], nodes[-1]))
        return np.where(eta > nodes[-1], inside * np.exp(-0.5 * (beta - 1.0) * (eta - nodes[-1])), inside)

    return value


class Oracle:
    """A histogram of the posterior on a tensor grid that is refined where the mass is."""

    def __init__(self, case: Case, *, cells: int = 250, most: int = 420) -> None:
        self.case = case
        dim = case.posterior().dim
        scale = case.prior_scale
        edge = 9.0 if case.box is None else case.box
        graded = np.geomspace(1e-11, edge, 40)
        coefficient = scale * np.unique(np.concatenate([-graded, [0.0], graded, np.linspace(-edge, edge, 61)]))
        axes = [np.stack([coefficient[:-1], coefficient[1:]], axis=1)] * dim
        if case.floor is not None:
            top = min(case.ceiling - case.floor, 1e5)
            steps = np.append(0.0, np.geomspace(1e-5 * case.floor, top, 100))
            axes[-1] = case.floor + np.stack([steps[:-1], steps[1:]], axis=1)
        if dim == 3:  # keep the first look affordable
            axes = [_coarser(axis) for axis in axes]
            cells, most = 50, 90
        for _ in range(40):
            mass = self._masses(axes)
            margins = [mass.sum(axis=tuple(j for j in range(dim) if j != i)) for i in range(dim)]
            if all((m <= 1.0 / cells).all() or len(a) >= most for m, a in zip(margins, axes, strict=True)):
                break
            axes = [_refine(axis, m, cells) for axis, m in zip(axes, margins, strict=True)]
        self.axes, self.mass = axes, mass

    def _masses(self, axes: list[Any]) -> Any:
        middles = [axis.mean(axis=1) for axis in axes]
        grid = np.stack([g.ravel() for g in np.meshgrid(*middles, indexing="ij")], axis=1)
        value = self.case.log_density(grid).reshape([len(m) for m in middles])
        for i, axis in enumerate(axes):
            width = np.log(axis[:, 1] - axis[:, 0])
            value = value + width.reshape([-1 if j == i else 1 for j in range(len(axes))])
        mass = np.exp(value - value.max())
        return mass / mass.sum()

    def uniforms(self, natural: Any) -> Any:
        """Rosenblatt transform: independent uniforms if the draws come from the posterior."""
        result = np.empty_like(natural)
        index: tuple[Any, ...] = ()
        for i, axis in enumerate(self.axes):
            rest = tuple(range(i + 1, len(self.axes)))
            table = self.mass.sum(axis=rest) if rest else self.mass
            rows = np.broadcast_to(table[index], (len(natural), len(axis))) if i else np.tile(table, (len(natural), 1))
            where = np.clip(np.searchsorted(axis[:, 0], natural[:, i], side="right") - 1, 0, len(axis) - 1)
            below = np.cumsum(rows, axis=1)
            part = np.clip((natural[:, i] - axis[where, 0]) / (axis[where, 1] - axis[where, 0]), 0.0, 1.0)
            pick = np.arange(len(natural))
            total = np.maximum(below[:, -1], 1e-300)
            result[:, i] = (below[pick, where] - (1.0 - part) * rows[pick, where]) / total
            index = (*index, where)
        return np.clip(result, 0.0, 1.0)

    def p_values(self, natural: Any) -> dict[str, float]:
        """KS of every margin and every conditional, and a joint chi-square."""
        u = self.uniforms(natural)
        dim = u.shape[1]
        found = {f"conditional {i}": float(stats.kstest(u[:, i], "uniform").pvalue) for i in range(dim)}
        for i in range(1, dim):
            others = tuple(j for j in range(dim) if j != i)
            margin = self.mass.sum(axis=others)
            axis = self.axes[i]
            knots = np.stack([axis[:, 0], axis[:, 1]], axis=1).ravel()
            top = np.cumsum(margin)
            levels = np.stack([top - margin, top], axis=1).ravel()
            found[f"margin {i}"] = float(stats.kstest(np.interp(natural[:, i], knots, levels), "uniform").pvalue)
        if dim > 1:
            bins = 6 if dim == 2 else 4
            counts = np.histogramdd(u, bins=bins, range=[(0.0, 1.0)] * dim)[0].ravel()
            found["joint"] = float(stats.chisquare(counts).pvalue)
        return found


def _coarser(axis: Any) -> Any:
    edges = np.append(axis[::3, 0], axis[-1, 1])
    return np.stack([edges[:-1], edges[1:]], axis=1)


def _refine(axis: Any, margin: Any, cells: int) -> Any:
    """Split the intervals that hold too much and forget those that hold nothing and touch nothing."""
    heavy = margin > 1e-9
    near = heavy | np.append(heavy[1:], False) | np.append(False, heavy[:-1])
    pieces = []
    for (low, high), mass, keep in zip(axis, margin, near, strict=True):
        if not keep:
            continue
        parts = int(np.clip(np.ceil(1.5 * mass * cells), 1, 16)) if mass > 1.0 / cells else 1
        edges = np.linspace(low, high, parts + 1)
        pieces += [(edges[i], edges[i + 1]) for i in range(parts)]
    return np.array(pieces)


@pytest.fixture(scope="session")
def reference() -> SimpleNamespace:
    """The oracle's names, for test modules that cannot import a sibling."""
    return SimpleNamespace(Case=Case, Oracle=Oracle, replace=replace)
