# SPDX-License-Identifier: Apache-2.0
"""Whether draws carry enough information for intervals: the variance of the linear predictor under one draw.

A draw is close to normal, and the drift of the mean is well described by its first-order rate, when the
linear predictor of a typical record varies little between draws. That variance is

    predictor variance = (parameters per predictor) / (n * weight * curvature),

in units of the squared residual scale for a linear model. For more than two classes it is twice the mean
squared length by which the vector of orthonormal contrasts varies, 2 (all parameters) / (n * weight *
curvature): for two classes that is the variance of the log odds. Above ``LARGEST_VARIANCE`` intervals are
refused: there the posterior is wide, skewed and partly the prior, and the study of docs/uncertainty.md finds
them not to cover. (With 22 parameters, three classes and a variance of 0.56, flanks of the posterior forty
standard deviations out held as much mass as its mode in one of three simulated data sets.)

Before the data are seen, n is known (if it is public) and the curvature is that of a reference:
coefficients of a usual size. After the release the curvature is evaluated at the released estimate, and
where n is private n * weight * curvature is read from the spread of the released intercept, whose variance
given the coefficients is its inverse. All of this is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from onedraw.families import Family
from onedraw.types import Array
from onedraw.uncertainty.drift import DriftRate, drift_rate
from onedraw.uncertainty.residual_scale import ScaleLaw

LARGEST_VARIANCE = 0.5
"""Intervals are given if the linear predictor has at most this variance under one draw."""
LARGEST_SPREAD = 4.0
"""The spread of a linear predictor over records is sought below this."""
TOLERANCE = 1e-5
"""Of shares of the largest spread, and of released intercepts."""


@dataclass(frozen=True, kw_only=True)
class Information:
    """What one draw knows: ``rate`` is None where there is no drift (location-scale families)."""

    per_parameter: float
    """The precision of a standardised coefficient under one draw: n * weight * curvature, or less where a
    residual scale widens it."""
    effective_records: float
    """n * weight."""
    predictor_variance: float
    rate: DriftRate | None

    @property
    def growth(self) -> float:
        """Relative drift of the coefficients, away from 0 if positive."""
        return 0.0 if self.rate is None else self.rate.growth / self.effective_records

    @property
    def shift(self) -> Array:
        """Drift of the intercepts, (q,)."""
        return np.zeros(1) if self.rate is None else np.array(self.rate.shift) / self.effective_records


def reference_information(
    family: Family,
    beta: float,
    *,
    num_features: int,
    fit_intercept: bool,
    effective_records: float,
    prior_scale: float = 3.0,
    noise_scale: float | None = None,
) -> Information:
    """What one draw knows under the public reference. Nothing of the data but n enters."""
    size = num_features + int(fit_intercept)
    if family.has_scale:
        scale = family.reference_scale(noise_scale)
        law = ScaleLaw(
            family=family,
            beta=beta,
            num_location=size,
            effective_records=effective_records,
            prior_scale=prior_scale,
        )
        at_scale = _location(family, beta, scale, size, effective_records)
        return replace(at_scale, per_parameter=1.0 / law.location_variance(scale))
    q = family.num_predictors
    rate = drift_rate(
        family,
        beta,
        num_features=num_features,
        intercept=[family.usual_intercept(fit_intercept)] * q,
        spread=[family.usual_spread / math.sqrt(q)] * q,
    )
    return _described(family, rate, size, effective_records)


def released_information(
    family: Family,
    beta: float,
    *,
    coefficients: Array,
    variances: Array,
    intercepts: Array,
    noise: float,
    draws: int,
    effective_records: float | None,
    intercept_variance: float | None,
    scale: float | None,
) -> Information | None:
    """What one draw knows at the released estimate; None if neither n nor an intercept tells.

    ``coefficients`` (q, d) are the means of the draws and ``variances`` (q, d) their sample variances;
    ``noise`` times a variance is the variance of a mean around its target. A feature of unknown spread t has
    1/variance = n w h t^2, so its part of the predictor's variance, t^2 coefficient^2, is
    coefficient^2/(variance n w h). The inverse of a sample variance is too large by (k-1)/(k-3), the square
    of a mean by the mean's own variance.
    """
    d = coefficients.shape[1]
    size = d + int(intercept_variance is not None)
    if effective_records is None and intercept_variance is None:
        return None
    if family.has_scale:
        assert scale is not None
        if effective_records is None:
            assert intercept_variance is not None
            effective_records = 1.0 / (intercept_variance * family.location_information(beta, scale))
        return _location(family, beta, scale, size, effective_records)
    unbiased = (draws - 3.0) / (draws - 1.0)
    signal = (unbiased * np.square(coefficients) / np.maximum(variances, 1e-300)).sum(axis=1) - noise * d
    released = np.sqrt(np.maximum(signal, 0.0))

    def at(kept: float, share: float) -> Information:
        """Where the intercepts were ``kept`` of the released ones, and the spread a share of the largest."""
        rate = drift_rate(
            family,
            beta,
            num_features=d,
            intercept=(kept * intercepts).tolist(),
            spread=(share * LARGEST_SPREAD * _direction(released)).tolist(),
        )
        records = effective_records
        if records is None:
            assert intercept_variance is not None
            records = 1.0 / (intercept_variance * rate.curvature)
        return _described(family, rate, size, records)

    def found(kept: float) -> Information:
        # A spread s is released as s sqrt(n w h) (1 + growth); curvature h and growth depend on s.
        def surplus(share: float) -> float:
            known = at(kept, share)
            size_of = share * LARGEST_SPREAD * math.sqrt(known.per_parameter)
            return size_of * max(1.0, 1.0 + known.growth) - float(np.linalg.norm(released))

        return at(kept, _root(surplus))

    def outside(kept: float) -> float:
        """How far these intercepts would have drifted beyond the released ones, relative to them."""
        square = float(intercepts @ intercepts)
        shift = found(kept).shift
        return kept - 1.0 + (float(shift @ intercepts) / square if square else 0.0)

    return found(_root(outside))


def _direction(released: Array) -> Array:
    """The direction of a vector; all entries alike where it is zero."""
    length = float(np.linalg.norm(released))
    return released / length if length else np.full(len(released), 1.0 / math.sqrt(len(released)))


def _root(function: Callable[[float], float]) -> float:
    """Where an increasing function, negative at 0, crosses 0 in [0, 1]; 1 where it does not.

    Bracketed: curvature, spread and drift depend on one another so steeply where one outcome is rare that
    putting one into the other again and again goes back and forth between too little and too much for ever.
    """
    if function(1.0) <= 0.0:
        return 1.0
    if function(0.0) >= 0.0:
        return 0.0
    return float(optimize.brentq(function, 0.0, 1.0, xtol=TOLERANCE))


def _described(family: Family, rate: DriftRate, size: int, effective_records: float) -> Information:
    per_parameter = effective_records * rate.curvature
    return Information(
        per_parameter=per_parameter,
        effective_records=effective_records,
        predictor_variance=family.predictor_multiple * size / per_parameter,
        rate=rate,
    )


def _location(family: Family, beta: float, scale: float, size: int, effective_records: float) -> Information:
    per_parameter = effective_records * family.location_information(beta, scale)
    return Information(
        per_parameter=per_parameter,
        effective_records=effective_records,
        predictor_variance=size / (per_parameter * scale**2),
        rate=None,
    )
