# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals from released draws alone: post-processing, so they cost no privacy.

With weight w, k independent draws of the posterior are about N(m, A^-1), where A = n w H + P0, P0 is the
prior precision and m the posterior mean. The draws' sample covariance C estimates A^-1. Their mean misses
the true parameters theta_0 for four reasons:

* drawing, variance A^-1/k;
* sampling, variance A^-1 (n w^2 K) A^-1 <= w kappa (A^-1 - A^-1 P0 A^-1), see ``noise_ratio``;
* the prior, a bias of -A^-1 P0 theta_0, whose mean square is A^-1 P0 A^-1 if theta_0 is as large as the
  prior says;
* skewness, a drift of m from the mode, see ``drift``; it is subtracted from what is printed too, and half
  of it is counted as error.

Together, for a linear function a'theta,

    V = (w kappa + 1/k) a'Ca + (1 - w kappa)_+ a'C P0 C a + (drift'a / 2)^2,
    interval: a'(mean - drift) -+ t_(k-1) sqrt(V).

a'C P0 C a of a sample covariance is too large; it is replaced by its unbiased estimate under the Wishart
law, but not less than (a'Ca)^2/(a'a prior_scale^2), which A^-1 obeys by the Cauchy-Schwarz inequality.

Original units are a public linear map of working units. The residual scale has an interval of its own, from
the mean of its logarithm: the true scales whose draws would have such a mean, see ``residual_scale``. At the
model its curvature does not mix with the coefficients'.

Guarantee:
    ``intervals`` takes a ``Release`` and nothing else: whatever it says is as private as the release.

Edge cases:
    Fewer than 4 draws, or draws too wide for these approximations, are refused with the remedy.

Coverage statements assume that the model holds; the prior's part is right on average over true parameters
of the prior's size, and too wide for smaller ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from onedraw.advice import Do, Set
from onedraw.errors import InvalidInput
from onedraw.families import Family
from onedraw.model import RegressionModel
from onedraw.release import Release
from onedraw.types import AnyArray, Array
from onedraw.uncertainty.information import LARGEST_VARIANCE, Information, released_information
from onedraw.uncertainty.residual_scale import ScaleLaw
from onedraw.uncertainty.table import Intervals, check_level

FEWEST_DRAWS = 4
PRIOR_DOMINATED = 0.25
"""A coefficient whose draws have more than this share of the prior variance was hardly informed."""
FAR_OUTSIDE = 2.0
DRIFT_DOUBT, SCALE_DOUBT = 0.5, 0.25
"""The share of a drift that is counted as error after it is taken off: of a first-order expansion for the
location, of a law that is integrated for the scale."""


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """The public numbers of a release that its intervals rest on."""

    family: Family
    beta: float
    weight: float
    prior_scale: float
    records: int | None
    rows_per_person: int
    kappa: float

    def sampling(self, ratio: float) -> float:
        """w kappa, for a ``ratio`` kappa of the variance of the records' gradients to curvature. The variance
        of the sum of a person's rows is at most their number times the sum of the variances."""
        return self.rows_per_person * self.weight * ratio

    @classmethod
    def of(cls, release: Release, scale: float | None) -> _Facts:
        if release.mechanism.name != "one_posterior":
            raise InvalidInput(
                "Intervals are known for draws of a beta-divergence posterior only, got a release of "
                f"{release.mechanism.name!r}."
            )
        numbers = {name: float(release.mechanism.numbers[name]) for name in ("beta", "weight")}
        numbers["prior_scale"] = float(release.mechanism.options["prior_scale"])
        family = release.model.family
        if not family.has_intervals:
            raise InvalidInput(f"No intervals are known for draws of the {family.name} family.")
        return cls(
            family=family,
            records=release.num_records,
            rows_per_person=release.guarantee.rows_per_person,
            kappa=family.noise_ratio(numbers["beta"], scale),
            **numbers,
        )


def intervals(release: Release, level: float = 0.95) -> Intervals:
    """Intervals for every fitted parameter of a release, in original units.

    Args:
        release: as returned by a fit or read by ``Release.from_json``.
        level: nominal coverage of each interval, between 0 and 1.
    """
    if not isinstance(release, Release):
        raise InvalidInput(
            f"Expected a Release, got {type(release).__name__}. Use model.release_, or Release.from_json."
        )
    level = check_level(level)
    model, draws = release.model, np.array(release.draws)
    k = len(draws)
    if k < FEWEST_DRAWS:
        raise InvalidInput(
            f"Intervals need at least {FEWEST_DRAWS} draws to show their spread, got a release of {k}. "
            "Another fit spends epsilon again.",
            advice=Set("draws", "auto", note=" then: its plan says whether records are too few"),
        )
    has_scale, scale = model.scale_floor is not None, None
    location = draws[:, :-1] if has_scale else draws
    facts = _Facts.of(release, float(draws[:, -1].mean()) if has_scale else None)
    _check_resolution(location)
    known = _information(model, location, facts, draws[:, -1] if has_scale else None)
    if known is None and not has_scale:
        raise InvalidInput(
            "Intervals need to know how far the mean of the draws has drifted, which follows from the number "
            "of records or from the spread of the intercept. In this release the number of records is "
            "private and there is no intercept.",
            advice=[Set("fit_intercept", True), Set("neighbours", "replace_one", note=", with one row each")],
        )
    if known is not None and known.predictor_variance > LARGEST_VARIANCE:
        raise InvalidInput(
            f"These {k} draws are too wide for intervals: under one draw the linear predictor has a variance "
            f"of about {known.predictor_variance:.2g}; above {LARGEST_VARIANCE:g}, intervals are not known "
            "to cover.",
            advice=[
                Do("use fewer draws, more records or a larger epsilon"),
                Set("feature_bounds", note=" that bring the data to their working range"),
                Set("target_bounds"),
            ],
        )

    _check_units(model, location, facts)
    quantile = float(special.stdtrit(k - 1, 0.5 + 0.5 * level))
    rows = public_map(model)
    moved, error = _errors(location, rows, facts, _drift(model, location, known))
    fitted = np.abs(rows).sum(axis=1) > 0.0  # the intercept of a model without one is 0 by definition
    centre = release.estimate.flat()[0][: len(rows)] - moved
    table = np.stack([centre, error, centre - quantile * error, centre + quantile * error], axis=1)[fitted]
    names = [name for name, kept in zip(model.parameter_names(), fitted, strict=False) if kept]
    if has_scale:
        names.append(model.parameter_names()[-1])
        scale = _scale_row(draws[:, -1], model, facts, known, quantile)
        table = np.vstack([table, _scale_unit(model) * scale])
    columns = [tuple(column.tolist()) for column in table.T]
    return Intervals(
        names=tuple(names),
        estimate=columns[0],
        standard_error=columns[1],
        low=columns[2],
        high=columns[3],
        p_value=_p_values(centre[fitted] / error[fitted], k, has_scale),
        level=level,
        notes=(
            f"From {k} private draws, at no further privacy cost, if the model holds.",
            "The mean of wide draws drifts; estimates and intervals are corrected for it.",
        ),
        caveats=tuple(_caveats(model, draws, facts, known, scale)),
    )


def _check_units(model: RegressionModel, location: Array, facts: _Facts) -> None:
    """Refuse intervals that rest on units nobody declared: where the prior tells a parameter, not the data.

    Its size is then a guess, and what it pulls away from one coefficient the correlated ones take over: on a
    public table of proteins, intervals of three columns covered in 0, 13 and 27% of 15 releases.
    """
    if model.feature_bounds is not None:
        return
    unknown = (_prior_share(location, facts) > PRIOR_DOMINATED) | _pulled(location, facts)
    if unknown.any():
        raise InvalidInput(
            f"No bounds of the features are declared, and {int(unknown.sum())} of {len(unknown)} parameters "
            "of this release are told by the prior, whose size is then a guess: no interval can be trusted. "
            "Another fit spends epsilon again.",
            advice=Set("feature_bounds", note=" before it"),
        )


def _prior_share(location: Array, facts: _Facts) -> Array:
    """The variance of the draws of each parameter, over that of its prior."""
    return np.asarray(location.var(axis=0, ddof=1) / facts.prior_scale**2)


def _pulled(location: Array, facts: _Facts) -> AnyArray:
    """Which parameters lie so far from 0 that the prior pulls them noticeably."""
    return np.asarray(np.abs(location.mean(axis=0)) > FAR_OUTSIDE * facts.prior_scale)


def _p_values(statistic: Array, k: int, has_scale: bool) -> tuple[float | None, ...]:
    """Of zero, by the Student law of the intervals: below 5% exactly if the 95% interval excludes zero."""
    found = (2.0 * special.stdtr(k - 1, -np.abs(statistic))).tolist()
    return (*found, None) if has_scale else tuple(found)  # a scale is never zero


def point_estimate(release: Release) -> Any:
    """The parameters to print, in original units with a leading axis of 1: the mean of the draws less its
    drift, which is the estimate of ``intervals``; where the drift is not known, ``release.estimate``.
    """
    model, draws = release.model, np.array(release.draws)
    known_draws = release.mechanism.name == "one_posterior" and len(draws) >= FEWEST_DRAWS
    if not known_draws or not model.family.has_intervals:
        return release.estimate
    has_scale = model.scale_floor is not None
    location, scales = (draws[:, :-1], draws[:, -1]) if has_scale else (draws, None)
    facts = _Facts.of(release, None if scales is None else float(scales.mean()))
    known = _information(model, location, facts, scales)
    corrected = location.mean(axis=0) - _drift(model, location, known)
    if scales is not None:
        corrected = np.append(corrected, _scale_row(scales, model, facts, known, 0.0)[0])
    return model.original_units(corrected[None, :])


def named_estimates(release: Release) -> dict[str, float]:
    """Name -> ``point_estimate``, in the order of ``release.named_parameters``."""
    names = release.model.parameter_names()
    return dict(zip(names, point_estimate(release).flat()[0].tolist(), strict=True))


def public_map(model: RegressionModel) -> Array:
    """(outputs, location parameters): the linear part of the map from working to original units."""
    size = model.dim - int(model.scale_floor is not None)
    points = np.zeros((size + 1, model.dim))
    points[1:, :size] = np.eye(size)
    values = model.original_units(points)
    flat = np.concatenate([values.coef.reshape(size + 1, -1), values.intercept], axis=1)
    return np.asarray((flat[1:] - flat[0]).T)


def _split(model: RegressionModel, values: Array) -> tuple[Array, Array]:
    """Working location parameters (p,) as coefficients (q, d) and intercepts (q,), 0 if none are fitted."""
    q, d = model.family.num_predictors, model.num_features
    intercepts = values[q * d :] if model.fit_intercept else np.zeros(q)
    return values[: q * d].reshape(q, d), intercepts


def _information(
    model: RegressionModel, location: Array, facts: _Facts, scales: Array | None
) -> Information | None:
    k = len(location)
    coefficients, intercepts = _split(model, location.mean(axis=0))
    variances, _ = _split(model, location.var(axis=0, ddof=1))
    return released_information(
        facts.family,
        facts.beta,
        coefficients=coefficients,
        variances=variances,
        intercepts=intercepts,
        noise=facts.sampling(facts.kappa) + 1.0 / k,
        draws=k,
        effective_records=None if facts.records is None else facts.records * facts.weight,
        intercept_variance=_intercept_variance(location, coefficients.size) if model.fit_intercept else None,
        scale=None if scales is None else float(scales.mean()),
    )


def _intercept_variance(location: Array, num_coefficients: int) -> float:
    """The variance of the intercepts over draws, given the coefficients if there are draws enough for that.

    Given the coefficients it does not matter whether features are centred. The sum of squares is divided by
    the degrees of freedom that a regression on the coefficients leaves, so the estimate is unbiased.
    """
    gaps = location - location.mean(axis=0)
    coefficients, intercepts = gaps[:, :num_coefficients], gaps[:, num_coefficients:]
    left = len(location) - 1 - num_coefficients
    if left < FEWEST_DRAWS - 1:
        return float(location[:, num_coefficients:].var(axis=0, ddof=1).mean())
    rest = intercepts - coefficients @ np.linalg.lstsq(coefficients, intercepts, rcond=None)[0]
    return float(np.square(rest).sum(axis=0).mean() / left)


def _check_resolution(location: Array) -> None:
    """Refuse draws of an enumerated grid that fall on so few of its points that they show no spread."""
    distinct = min(len(np.unique(column)) for column in location.T)
    if 2 * distinct < len(location):
        raise InvalidInput(
            f"Intervals need draws that show their spread, got {len(location)} draws on {distinct} points of "
            "a grid. Fit with evidence='searched'."
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
    sampling = facts.sampling(facts.kappa)
    moved = rows @ drift
    variance = (sampling + 1.0 / k) * spread + max(0.0, 1.0 - sampling) * prior
    return moved, np.sqrt(variance + np.square(DRIFT_DOUBT * moved))


def _scale_row(
    scales: Array, model: RegressionModel, facts: _Facts, known: Information | None, quantile: float
) -> Array:
    """Estimate, standard error and interval of the scale in working units, from the mean of its logarithm."""
    assert model.scale_floor is not None
    centre, variance = float(np.log(scales).mean()), float(np.log(scales).var(ddof=1))
    ratio = facts.family.scale_noise_ratio(facts.beta, float(scales.mean()))
    noise = facts.sampling(ratio) + 1.0 / len(scales)
    if known is None:  # how far the draws lie above the scale depends on n
        estimate, error = float(scales.mean()), math.sqrt(noise * variance)
        low, high = model.scale_floor, math.exp(centre + quantile * error)
    else:
        law = ScaleLaw(
            family=facts.family,
            beta=facts.beta,
            num_location=model.dim - 1,
            effective_records=known.effective_records,
            prior_scale=facts.prior_scale,
        )
        estimate = law.true_scale(centre)
        error = math.sqrt(noise * variance + (SCALE_DOUBT * (centre - math.log(estimate))) ** 2)
        low, high = (law.true_scale(centre + sign * quantile * error) for sign in (-1.0, 1.0))
    return np.array([estimate, estimate * error, low, high])


def _scale_unit(model: RegressionModel) -> float:
    point = np.zeros((1, model.dim))
    point[0, -1] = 1.0
    unit = model.original_units(point).scale
    assert unit is not None
    return float(unit[0])


def _caveats(
    model: RegressionModel, draws: Array, facts: _Facts, known: Information | None, scale: Array | None
) -> Iterator[str]:
    location = draws[:, : len(public_map(model).T)]
    share = _prior_share(location, facts)
    if (share > PRIOR_DOMINATED).any():
        yield (
            f"{int((share > PRIOR_DOMINATED).sum())} of {len(share)} working parameters were hardly informed "
            "by the data; their intervals hold only if the prior's size is right."
        )
    outside = _pulled(location, facts)
    if outside.any():
        yield (
            f"{int(outside.sum())} of {len(outside)} working parameters lie more than {FAR_OUTSIDE:g} prior "
            "scales from 0, and the prior pulls their intervals towards 0. Declare feature_bounds and "
            "target_bounds, or a larger prior_scale."
        )
    if facts.records is None:
        yield (
            "The number of records is private, so whether the draws are narrow enough could not be checked."
            if known is None
            else "The number of records is private; the draws were judged narrow enough by their intercept."
        )
    if scale is not None and scale[3] < draws[:, -1].mean():
        yield "Wide draws overstate the residual scale: their mean lies above its interval."
    if scale is not None and scale[2] <= model.scale_floor:
        yield (
            "The residual scale may be as small as its floor, so its interval begins there. "
            "Lower noise_floor if the true scale may be smaller."
        )
