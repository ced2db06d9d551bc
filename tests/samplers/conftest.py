"""An oracle for posteriors of one to three parameters: quadrature on its own density, in its own coordinates.

The reference density is written here from scipy.stats and plain sums; it shares no code with the package.
Parameters are the coefficients and, where there is one, the scale itself. Draws become uniform numbers by
the conditional distribution functions of the quadrature (Rosenblatt), so a joint law is tested, not only
its margins.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import interpolate, special, stats

from onedraw.families import (
    Bernoulli,
    Categorical,
    Gaussian,
    Laplace,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from onedraw.losses import BetaDivergence
from onedraw.posterior import Posterior
from onedraw.priors import Prior, ScalePrior

FAMILIES = {
    "bernoulli": lambda case: Bernoulli(),
    "categorical": lambda case: Categorical(num_classes=3),
    "gaussian": lambda case: Gaussian(scale_floor=case.floor),
    "laplace": lambda case: Laplace(scale_floor=case.floor),
    "negative_binomial": lambda case: NegativeBinomial(dispersion=1.5),
    "poisson": lambda case: Poisson(),
    "student_t": lambda case: StudentT(df=3.0, scale_floor=case.floor),
}
LINEAR = {"gaussian": stats.norm, "laplace": stats.laplace, "student_t": stats.t(3.0)}
COUNTS = {
    "poisson": stats.poisson,
    "negative_binomial": lambda mean: stats.nbinom(1.5, 1.5 / (1.5 + mean)),
}
"""The laws that the families claim to be."""


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
            value = (
                value - 3.0 * np.log(sigma) - 1.0 / sigma**2
            )  # inverse-gamma(1, 1) of sigma^2, as a law of sigma
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
            elif self.family in LINEAR:
                density = LINEAR[self.family].pdf((y - eta) / sigma) / sigma
                integral = sigma**-b * standard_integral(self.family, self.beta)
                total += -(density**b) / b + integral / self.beta
            else:
                eta = np.minimum(eta, 40.0)
                mass = COUNTS[self.family](np.exp(eta)).pmf(y)
                total += -(mass**b) / b + count_integral(self.family, self.beta)(eta) / self.beta
        return value - self.weight * total


@functools.cache
def standard_integral(family: str, beta: float) -> float:
    """The integral of g^beta over the standard law, by quadrature of one half in u = asinh(residual)."""
    u = np.linspace(0.0, 25.0, 200_001)
    return float(2.0 * np.trapezoid(LINEAR[family].pdf(np.sinh(u)) ** beta * np.cosh(u), u))


@functools.cache
def count_integral(family: str, beta: float) -> Any:
    """sum_k f(k)^beta as a spline in the log mean, from plain sums, and a power of the mean beyond it.

    The power is that of the normal limit of a Poisson law, and of the gamma limit of a negative binomial one.
    """
    edge, power = (np.log(1e5), 0.5) if family == "poisson" else (np.log(1e3), 1.0)
    nodes = np.linspace(-40.0, edge, 2500)

    def total(eta: float) -> float:
        law = COUNTS[family](np.exp(eta))
        k = np.arange(max(0.0, law.ppf(1e-30) - 2.0), law.isf(1e-14) + 40.0)
        return float((law.pmf(k) ** beta).sum())

    spline = interpolate.CubicSpline(nodes, [total(eta) for eta in nodes])

    def value(eta: Any) -> Any:
        inside = spline(np.clip(eta, nodes[0], nodes[-1]))
        return inside * np.exp(-power * (beta - 1.0) * np.maximum(eta - nodes[-1], 0.0))

    return value


class Oracle:
    """A histogram of the posterior on a tensor grid whose cells follow its margins."""

    def __init__(self, case: Case) -> None:
        self.case = case
        dim = case.posterior().dim
        look, final = (60, 240) if dim < 3 else (24, 72)
        graded = np.geomspace(1e-10, 9.0 if case.box is None else case.box, look // 2)
        axes = [case.prior_scale * np.concatenate([-graded[::-1], [0.0], graded])] * dim
        if case.floor is not None:
            top = min(case.ceiling - case.floor, 1e5)
            axes[-1] = case.floor + np.append(0.0, np.geomspace(1e-6 * case.floor, top, look))
        fixed = axes
        # A posterior much narrower than a cell is not where the cell's middle says, so warm densities come
        # first.
        temperatures = np.append(
            3.0 ** np.arange(np.ceil(np.log(1.0 + 10.0 * len(case.y) * case.weight) / np.log(3.0)), 0, -1),
            1.0,
        )
        for temperature in np.repeat(temperatures, 2):
            mass = self._masses(axes, temperature)
            axes = [
                _regrid(axis, margin, known, look)
                for axis, margin, known in zip(axes, _margins(mass), fixed, strict=True)
            ]
        mass = self._masses(axes, 1.0)
        self.axes = [
            _regrid(axis, margin, known[::4], final)
            for axis, margin, known in zip(axes, _margins(mass), fixed, strict=True)
        ]
        self.mass = self._masses(self.axes, 1.0)
        self.margins = _margins(self.mass)
        assert max(margin.max() for margin in self.margins) < 4.0 / final, "the oracle's grid is too coarse"

    def _masses(self, axes: list[Any], temperature: float) -> Any:
        middles = [0.5 * (axis[:-1] + axis[1:]) for axis in axes]
        grid = np.stack([g.ravel() for g in np.meshgrid(*middles, indexing="ij")], axis=1)
        value = self.case.log_density(grid).reshape([len(m) for m in middles]) / temperature
        for i, axis in enumerate(axes):
            value = value + np.log(np.diff(axis)).reshape([-1 if j == i else 1 for j in range(len(axes))])
        mass = np.exp(value - value.max())
        return mass / mass.sum()

    def uniforms(self, natural: Any) -> Any:
        """Rosenblatt transform: independent uniforms if the draws come from the posterior."""
        result = np.empty_like(natural)
        pick = np.arange(len(natural))
        index: tuple[Any, ...] = ()
        for i, axis in enumerate(self.axes):
            table = self.mass.sum(axis=tuple(range(i + 1, len(self.axes))))
            rows = np.broadcast_to(table[index], (len(natural), len(axis) - 1))
            where = np.clip(np.searchsorted(axis, natural[:, i], side="right") - 1, 0, len(axis) - 2)
            part = np.clip((natural[:, i] - axis[where]) / (axis[where + 1] - axis[where]), 0.0, 1.0)
            below = np.cumsum(rows, axis=1)
            result[:, i] = (below[pick, where] - (1.0 - part) * rows[pick, where]) / np.maximum(
                below[:, -1], 1e-300
            )
            index = (*index, where)
        return np.clip(result, 0.0, 1.0)

    def p_values(self, natural: Any) -> dict[str, float]:
        """KS of every margin and every conditional, and a joint chi-square."""
        u = self.uniforms(natural)
        dim = u.shape[1]
        found = {f"conditional {i}": float(stats.kstest(u[:, i], "uniform").pvalue) for i in range(dim)}
        for i in range(1, dim):
            levels = np.append(0.0, np.cumsum(self.margins[i]))
            found[f"margin {i}"] = float(
                stats.kstest(np.interp(natural[:, i], self.axes[i], levels), "uniform").pvalue
            )
        if dim > 1:
            counts = np.histogramdd(u, bins=6 if dim == 2 else 4, range=[(0.0, 1.0)] * dim)[0].ravel()
            found["joint"] = float(stats.chisquare(counts).pvalue)
        return found


def _margins(mass: Any) -> list[Any]:
    return [mass.sum(axis=tuple(j for j in range(mass.ndim) if j != i)) for i in range(mass.ndim)]


def _regrid(axis: Any, margin: Any, fixed: Any, cells: int) -> Any:
    """Edges at quantiles of a margin, a few far in its tails, and the fixed ones."""
    tails = np.geomspace(1e-9, 0.3 / cells, 8)
    levels = np.concatenate([tails, np.linspace(0.0, 1.0, cells + 1), 1.0 - tails])
    edges = np.unique(
        np.concatenate([np.interp(levels, np.append(0.0, np.cumsum(margin)), axis), fixed, axis[[0, -1]]])
    )
    return edges[np.append(True, np.diff(edges) > 1e-14 * np.abs(edges[1:]))]


def _line(family: str, *, n: int = 40, seed: int = 1, noise: float = 0.3, **options: Any) -> Case:
    """Records that follow the model."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    eta = 0.7 * x[:, 0] + (0.4 if options.get("intercept", True) else 0.0)
    if family == "bernoulli":
        y = (rng.random(n) < special.expit(eta)).astype(float)
    elif family in COUNTS:
        y = COUNTS[family](np.exp(eta)).rvs(random_state=rng).astype(float)
    elif family == "categorical":
        y = np.where(x[:, 0] > 0.5, 2.0, rng.integers(0, 3, size=n))
    else:
        options.setdefault("floor", 0.1)
        y = eta + noise * LINEAR[family].rvs(size=n, random_state=rng)
    return Case(family=family, x=x, y=y, **options)


def _with(
    case: Case, *, x: dict[int, float] | None = None, y: dict[int, float] | None = None, **options: Any
) -> Case:
    """The case with some records changed."""
    features, response = np.array(case.x), np.array(case.y)
    for row, value in (x or {}).items():
        features[row] = value
    for row, value in (y or {}).items():
        response[row] = value
    return replace(case, x=features, y=response, **options)


def _clusters(*centres: float, size: int = 10, floor: float = 0.1, weight: float = 1.0) -> Case:
    """A location model whose records form groups: one mode for each, and one between them."""
    y = np.repeat(centres, size) + 0.05 * np.random.default_rng(5).normal(size=size * len(centres))
    return Case(
        family="gaussian", x=np.ones((len(y), 1)), y=y, floor=floor, intercept=False, beta=1.8, weight=weight
    )


def _cases() -> dict[str, Case]:
    nothing = np.zeros((0, 1))
    ladder = np.linspace(-1.0, 1.0, 30)[:, None]
    logistic = _line("bernoulli", weight=1.0)
    linear = _line("gaussian", intercept=False, beta=1.5)
    counts = _line("poisson", beta=1.5)
    kinked = _line("laplace", intercept=False, beta=1.5)
    heavy_tails = _line("student_t", intercept=False, beta=1.5)
    spread_counts = _line("negative_binomial", beta=1.5)
    two_columns = np.random.default_rng(9).normal(size=(40, 2))
    three_classes = Case(
        family="categorical",
        x=ladder[::6] + 0.1,
        y=np.array([0.0, 0.0, 1.0, 2.0, 2.0]),
        intercept=False,
        beta=1.5,
        weight=5.0,
    )
    return {
        "logistic": _line("bernoulli", beta=2.5, weight=0.75),
        "logistic, beta near 1": _line("bernoulli", beta=1.01, weight=0.9),
        "logistic, paper's calibration": _line("bernoulli", n=200, beta=11.0, weight=1.0),
        "logistic, truncated prior": replace(logistic, box=0.3),
        "linear": _line("gaussian", intercept=False, beta=1.3, weight=0.3),
        "linear with intercept": _line("gaussian", n=15, beta=1.3, weight=0.3),
        "linear, ceiling": replace(linear, ceiling=0.35, box=1.0),
        "poisson": _line("poisson", beta=1.6, weight=0.4),
        "student t": heavy_tails,
        "student t with intercept": _line("student_t", n=8, beta=1.3, weight=0.3),
        "laplace": kinked,
        "laplace with intercept": _line("laplace", n=15, beta=1.3, weight=0.3),
        "negative binomial": spread_counts,
        "categorical": _line("categorical", intercept=False),
        "separable": Case(family="bernoulli", x=ladder, y=(ladder[:, 0] > 0) * 1.0, beta=2.5, weight=2.0),
        "separable, wide prior": Case(
            family="bernoulli", x=ladder, y=(ladder[:, 0] > 0) * 1.0, beta=1.2, weight=20.0, prior_scale=30.0
        ),
        "separable, three classes": three_classes,
        "single class": Case(family="bernoulli", x=ladder, y=np.ones(30), weight=1.0),
        "single class of three": _with(three_classes, y=dict.fromkeys(range(5), 1.0)),
        "one record": Case(family="bernoulli", x=np.ones((1, 1)), y=np.ones(1), weight=1.0),
        "one record, linear": Case(
            family="gaussian",
            x=np.ones((1, 1)),
            y=np.array([2.0]),
            floor=0.1,
            intercept=False,
            beta=1.5,
            weight=1.0,
        ),
        "one record, poisson": Case(
            family="poisson", x=np.ones((1, 1)), y=np.array([7.0]), beta=1.5, weight=1.0
        ),
        "no records": Case(family="bernoulli", x=nothing, y=np.zeros(0)),
        "no records, linear": Case(family="gaussian", x=nothing, y=np.zeros(0), floor=0.1, intercept=False),
        "duplicated column": replace(logistic, x=np.hstack([logistic.x, logistic.x]), intercept=False),
        "columns of 1e-6 and 1e6": replace(logistic, x=two_columns * [1e-6, 1e6], intercept=False),
        "column of 1e6": replace(logistic, x=1e6 * logistic.x),
        "outliers in x": _with(logistic, x={0: 1e8, 1: -1e8}, y={0: 0.0, 1: 1.0}),
        "outliers in x, heavy": _with(logistic, x={0: 1e8, 1: -1e8}, y={0: 0.0, 1: 1.0}, weight=20.0),
        "outliers in x, linear": _with(linear, x={0: 1e8, 1: -1e8}),
        "outliers in x, poisson": _with(counts, x={0: 1e8, 1: -1e8}),
        "outliers in y, linear": _with(linear, y={0: 1e8, 1: -1e8}),
        "outliers in y, poisson": _with(counts, y={0: 1e6}),
        "large counts": replace(counts, y=np.full(40, 1e6)),
        "no counts": replace(counts, y=np.zeros(40)),
        "two groups": _clusters(-1.5, 1.5),
        "two groups, heavy": _clusters(-1.5, 1.5, floor=0.05, weight=4.0),
        "three groups": _clusters(-4.0, 0.0, 5.0, size=7, floor=0.05),
        "scale on its floor": _line("gaussian", noise=0.001, intercept=False, beta=1.3, weight=1.0),
        "scale on its floor, heavy": _line("gaussian", noise=0.001, intercept=False, beta=1.3, weight=30.0),
        "tiny weight": replace(logistic, weight=1e-8),
        "huge weight": replace(logistic, weight=1e5),
        "huge weight, linear": replace(linear, weight=1e3),
        "huge weight, poisson": replace(counts, weight=1e4),
        "no records, laplace": Case(family="laplace", x=nothing, y=np.zeros(0), floor=0.1, intercept=False),
        "three records, laplace": replace(kinked, x=kinked.x[:3], y=kinked.y[:3], weight=8.0),
        "rounded, laplace": replace(kinked, y=np.rint(kinked.y), weight=1.0),
        "outliers in y, laplace": _with(kinked, y={0: 1e8, 1: -1e8}),
        "outliers in y, student t": _with(heavy_tails, y={0: 1e8, 1: -1e8}),
        "outliers in y, negative binomial": _with(spread_counts, y={0: 1e6}),
        "heavy, laplace": replace(kinked, weight=10.0),
        "heavy, student t": replace(heavy_tails, weight=100.0),
        "heavy, negative binomial": replace(spread_counts, weight=100.0),
    }


CASES = _cases()
PROVABLE = {
    name: replace(case, box=case.box or 6.0, ceiling=min(case.ceiling, 1000.0 * (case.floor or np.inf)))
    for name, case in CASES.items()
    if FAMILIES[case.family](case).has_cell_bounds
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that ask for a ``case`` on all of them, those for a ``provable_case`` on truncated ones."""
    for fixture, cases in (("case", CASES), ("provable_case", PROVABLE)):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, list(cases.values()), ids=list(cases))


@pytest.fixture(scope="session")
def reference() -> SimpleNamespace:
    """The oracle's names, for test modules that cannot import a sibling."""
    return SimpleNamespace(Case=Case, Oracle=Oracle, CASES=CASES, PROVABLE=PROVABLE)
