# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals from released draws alone: post-processing, so they cost no privacy.

With weight w, k independent draws of the posterior are about N(m, A^-1), where A = n w H + P0, P0 is the
prior precision and m the posterior mean. The draws' sample covariance C estimates A^-1. Their mean misses
the true parameters theta_0 for four reasons:

* drawing, variance A^-1/k;
* sampling, variance A^-1 (n w^2 K) A^-1 <= w kappa (A^-1 - A^-1 P0 A^-1), see ``noise_ratio``;
* the prior, a bias of -A^-1 P0 theta_0, whose mean square is A^-1 P0 A^-1 if theta_0 is as large as the
  prior says;
* skewness, a drift of m from the mode, see ``drift``; it is subtracted, and half of it is counted as
  error.

Together, for a linear function a'theta,

    V = (w kappa + 1/k) a'Ca + (1 - w kappa)_+ a'C P0 C a + (drift'a / 2)^2,
    interval: a'(mean - drift) -+ t_(k-1) sqrt(V).

a'C P0 C a of a sample covariance is too large; it is replaced by its unbiased estimate under the Wishart
law, but not less than (a'Ca)^2/(a'a prior_scale^2), which A^-1 obeys by the Cauchy-Schwarz inequality.

Original units are a public linear map of working units. The residual scale has an interval of its own, on
the logarithm of its excess over the floor; at the model its curvature does not mix with the coefficients'.

Guarantee:
    ``intervals`` takes a ``Release`` and nothing else: whatever it says is as private as the release.

Edge cases:
    Fewer than 4 draws, or draws too wide for these approximations, are refused with the remedy.

Coverage statements assume that the model holds; the prior's part is right on average over true parameters
of the prior's size, and too wide for smaller ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from onedraw._extras import optional
from onedraw.errors import InvalidInput
from onedraw.families import Family
from onedraw.model import RegressionModel
from onedraw.priors import ScalePrior
from onedraw.release import Release
from onedraw.types import Array
from onedraw.uncertainty.drift import gaussian_scale_drift
from onedraw.uncertainty.information import LARGEST_VARIANCE, Information, released_information
from onedraw.uncertainty.noise_ratio import gaussian_scale_ratio, noise_ratio

FEWEST_DRAWS = 4
PRIOR_DOMINATED = 0.25
"""A coefficient whose draws have more than this share of the prior variance was hardly informed."""
NEAR_FLOOR = 4.0
DRIFT_DOUBT = 0.5
"""The share of the estimated drift that is counted as error after it is taken off."""
REMEDY = "Fit with draws='auto', which says what is missing, or with more records or a larger epsilon."


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """Estimates with standard errors and intervals, in original units; ``str`` is an aligned table.

    The estimate is the mean of the draws. An interval need not be centred on it: the drift of the mean is
    taken off.
    """

    names: tuple[str, ...]
    estimate: tuple[float, ...]
    standard_error: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: float
    draws: int
    caveats: tuple[str, ...] = ()

    def array(self) -> Array:
        """(p, 2): low and high of each parameter."""
        return np.stack([self.low, self.high], axis=1).astype(np.float64)

    def to_frame(self) -> Any:
        """A pandas frame with one row per parameter (pandas must be installed)."""
        pd = optional("pandas", "A table as a pandas frame", "all")
        columns = {
            "estimate": self.estimate,
            "standard error": self.standard_error,
            "low": self.low,
            "high": self.high,
        }
        return pd.DataFrame(columns, index=pd.Index(self.names, name="parameter"))

    def __str__(self) -> str:
        header = ("", "estimate", "std. error", f"{100 * self.level:.6g}% low", "high")
        columns = zip(self.estimate, self.standard_error, self.low, self.high, strict=True)
        rows = [
            (name, *(f"{value:.4g}" for value in values))
            for name, values in zip(self.names, columns, strict=True)
        ]
        widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in (header, *rows)
        ]
        lines.append(f"From {self.draws} private draws, at no further privacy cost, if the model holds.")
        lines += [f"Caveat: {caveat}" for caveat in self.caveats]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """The public numbers of a release that its intervals rest on."""

    family: Family
    beta: float
    weight: float
    prior_scale: float
    records: int | None
    kappa: float

    @classmethod
    def of(cls, release: Release, scale: float | None) -> _Facts:
        made = release.mechanism.get("name"), release.mechanism.get("loss")
        if made != ("one_posterior_sample", "BetaDivergence"):
            raise InvalidInput(
                "Intervals are known for draws of a beta-divergence posterior only, got a release of "
                f"{made[0]!r} with loss {made[1]!r}."
            )
        numbers = {name: float(release.mechanism[name] or 0.0) for name in ("beta", "weight", "prior_scale")}
        family = release.model.family()
        return cls(
            family=family,
            records=release.num_records,
            kappa=noise_ratio(family, numbers["beta"], scale),
            **numbers,
        )


def intervals(release: Release, level: float = 0.95) -> Intervals:
    """Intervals for every fitted parameter of a release, in original units.

    Args:
        release: as returned by a fit or read by ``Release.from_json``.
        level: nominal coverage of each interval, between 0 and 1.
    """
    if not 0.0 < level < 1.0:
        raise InvalidInput(f"Expected level between 0 and 1, got level={level!r}. For example 0.95.")
    model, draws = release.model, np.array(release.draws)
    k = len(draws)
    if k < FEWEST_DRAWS:
        raise InvalidInput(
            f"Intervals need at least {FEWEST_DRAWS} draws to show their spread, got a release of {k}. "
            + REMEDY
        )
    has_scale = model.scale_floor is not None
    location = draws[:, :-1] if has_scale else draws
    facts = _Facts.of(release, float(draws[:, -1].mean()) if has_scale else None)
    known = _information(model, location, facts, draws[:, -1] if has_scale else None)
    if known is not None and known.predictor_variance > LARGEST_VARIANCE:
        raise InvalidInput(
            f"These {k} draws are too wide for intervals: under one draw the linear predictor has a variance "
            f"of about {known.predictor_variance:.2g}; above {LARGEST_VARIANCE:g}, intervals are not known "
            f"to cover. {REMEDY}"
        )

    quantile = float(special.stdtrit(k - 1, 0.5 + 0.5 * level))
    rows = _public_map(model)
    drift, error = _errors(location, rows, facts, _drift(model, location, known))
    fitted = np.abs(rows).sum(axis=1) > 0.0  # the intercept of a model without one is 0 by definition
    estimate = release.estimate.flat()[0][: len(rows)]
    centre = estimate - drift
    table = np.stack([estimate, error, centre - quantile * error, centre + quantile * error], axis=1)[fitted]
    names = [name for name, kept in zip(model.parameter_names(), fitted, strict=False) if kept]
    if has_scale:
        names.append(model.parameter_names()[-1])
        table = np.vstack([table, _scale_row(draws[:, -1], model, facts, known, quantile)])
    columns = [tuple(column.tolist()) for column in table.T]
    return Intervals(
        names=tuple(names),
        estimate=columns[0],
        standard_error=columns[1],
        low=columns[2],
        high=columns[3],
        level=float(level),
        draws=k,
        caveats=tuple(_caveats(model, draws, facts, known)),
    )


def _public_map(model: RegressionModel) -> Array:
    """(outputs, location parameters): the linear part of the map from working to original units."""
    size = model.dim - int(model.scale_floor is not None)
    points = np.zeros((size + 1, model.dim))
    points[1:, :size] = np.eye(size)
    values = model.original_units(points)
    flat = np.concatenate([values.coef.reshape(size + 1, -1), values.intercept], axis=1)
    return np.asarray((flat[1:] - flat[0]).T)


def _split(model: RegressionModel, values: Array) -> tuple[Array, Array]:
    """Working location parameters (p,) as coefficients (q, d) and intercepts (q,), 0 if none are fitted."""
    q, d = max(1, model.num_outputs - 1), model.num_features
    intercepts = values[q * d :] if model.fit_intercept else np.zeros(q)
    return values[: q * d].reshape(q, d), intercepts


def _information(
    model: RegressionModel, location: Array, facts: _Facts, scales: Array | None
) -> Information | None:
    k = len(location)
    coefficients, intercepts = _split(model, location.mean(axis=0))
    variances, intercept_variances = _split(model, location.var(axis=0, ddof=1))
    return released_information(
        facts.family,
        facts.beta,
        coefficients=coefficients,
        variances=variances,
        intercepts=intercepts,
        noise=facts.weight * facts.kappa + 1.0 / k,
        draws=k,
        effective_records=None if facts.records is None else facts.records * facts.weight,
        intercept_variance=float(intercept_variances.mean()) if model.fit_intercept else None,
        scale=None if scales is None else float(scales.mean()),
    )


def _drift(model: RegressionModel, location: Array, known: Information | None) -> Array:
    """How far the mean of the draws lies from the mode, in working units (p,)."""
    mean = location.mean(axis=0)
    if known is None:
        return np.zeros_like(mean)
    coefficients, _ = _split(model, mean)
    drifted = (coefficients * known.growth / (1.0 + known.growth)).ravel()
    return np.concatenate([drifted, known.shift]) if model.fit_intercept else drifted


def _errors(location: Array, rows: Array, facts: _Facts, drift: Array) -> tuple[Array, Array]:
    """Drift and standard error of each output; see the module docstring."""
    k = len(location)
    covariance = np.atleast_2d(np.cov(location, rowvar=False))
    spread = np.einsum("oi,ij,oj->o", rows, covariance, rows)
    squared = np.square(rows @ covariance).sum(axis=1)
    df = k - 1.0
    unbiased = (squared - np.trace(covariance) * spread / df) / (1.0 + 1.0 / df - 2.0 / df**2)
    length = np.maximum(np.square(rows).sum(axis=1), 1e-300)
    prior = np.maximum(unbiased, spread**2 / length) / facts.prior_scale**2
    sampling = facts.weight * facts.kappa
    moved = rows @ drift
    variance = (sampling + 1.0 / k) * spread + max(0.0, 1.0 - sampling) * prior
    return moved, np.sqrt(variance + np.square(DRIFT_DOUBT * moved))


def _scale_row(
    scales: Array, model: RegressionModel, facts: _Facts, known: Information | None, quantile: float
) -> Array:
    """Estimate, standard error and interval of the scale, from the log of its excess over the floor."""
    assert model.scale_floor is not None
    k, floor = len(scales), model.scale_floor
    mean = float(scales.mean())
    u = np.log(np.maximum(scales - floor, 1e-9 * floor))
    centre, variance = float(u.mean()), float(u.var(ddof=1))
    pull = ScalePrior(floor=floor).derivatives(np.array([centre]))[0]
    drift = variance * float(pull[0])
    if known is not None:
        size = model.dim - 1
        at = floor + float(np.exp(centre))
        rate = gaussian_scale_drift(facts.beta, scale=at, floor=floor, num_location=size)
        drift += rate / known.effective_records
    doubt = DRIFT_DOUBT * drift
    if abs(drift) > variance**0.5:
        # Too far for a first-order correction: left in, and counted as error in full.
        drift, doubt = 0.0, drift
    noise = facts.weight * gaussian_scale_ratio(facts.beta, mean) + 1.0 / k
    error = np.sqrt(noise * variance + doubt**2)
    ends = centre - drift + quantile * error * np.array([-1.0, 1.0])
    low, high = floor + np.exp(np.minimum(ends, 300.0))
    if mean < NEAR_FLOOR * floor:
        low = floor  # close to the floor the draws lie above the truth by more than can be corrected
    point = np.zeros((1, model.dim))
    point[0, -1] = 1.0
    unit = model.original_units(point).scale
    assert unit is not None
    return np.asarray(unit[0] * np.array([mean, (mean - floor) * error, low, high]))


def _caveats(model: RegressionModel, draws: Array, facts: _Facts, known: Information | None) -> Iterator[str]:
    location = draws[:, : len(_public_map(model).T)]
    share = location.var(axis=0, ddof=1) / facts.prior_scale**2
    if (share > PRIOR_DOMINATED).any():
        yield (
            f"{int((share > PRIOR_DOMINATED).sum())} of {len(share)} working parameters were hardly informed "
            "by the data; their intervals hold only if the prior's size is right."
        )
    if facts.records is None:
        yield (
            "The number of records is private, so whether the draws are narrow enough could not be checked."
            if known is None
            else "The number of records is private; the draws were judged narrow enough by their intercept."
        )
    if model.scale_floor is not None and draws[:, -1].mean() < NEAR_FLOOR * model.scale_floor:
        yield (
            f"The residual scale is within {NEAR_FLOOR:g} times its floor, so its interval begins there. "
            "Lower noise_floor if the true scale may be smaller."
        )
