# SPDX-License-Identifier: Apache-2.0
"""The release of a tilted fit in the form that ``onedraw.inference`` reads, or why it cannot be read.

Edge cases:
    Refused, with what would help: a release without a curvature, models for which coverage has not been
    studied, columns with many categories, no records, and features whose units may have made all rows count
    for nothing.

*The number of records.* Where it is public, the effective number (the sum of the weights) has a prior
around it. Where it is private, or nothing public says how much a record curves (counts with exposures), the
prior is wide and centred at what the released curvature itself says.
"""

from __future__ import annotations

import math

import numpy as np

from onedraw.advice import Do, Set
from onedraw.errors import InvalidInput
from onedraw.inference import Layout, Released, RobustScore, ScoreLaw, TiltLaw
from onedraw.inference.curvature import row_law
from onedraw.inference.released import FramedTilt
from onedraw.inference.rows import Rows
from onedraw.release import Release
from onedraw.tilted.alignment import ALIGNED, Alignment
from onedraw.tilted.laws import GaussianLaw
from onedraw.tilted.norm_laws import norm_law
from onedraw.tilted.one_hot import ONE_HOT, OneHot
from onedraw.tilted.weights import Geometry
from onedraw.types import Array
from onedraw.uncertainty.beforehand import expected_intervals
from onedraw.uncertainty.categories import categories_of, too_many_levels
from onedraw.uncertainty.earlier import earlier_law
from onedraw.uncertainty.readings import READINGS, Reading, numbers_of

LEAST_SHARE = 0.02
"""Of the rows: the least curvature of the intercept that shows that they were not weighted away."""
BOUNDED_SD, WEIGHTED_SD, PRIVATE_SD = 0.1, 0.3, 1.0
"""Standard deviations of the logarithm of the effective number of records: rows within declared bounds, rows
that may have been weighted, and a number of rows that is private."""
MEAN_SQUARE = 1.0 / 3.0
"""Of a typical working feature."""


def released_of(release: Release) -> Released:
    """The release in units of the working rows, predictor by predictor, the intercept last in each."""
    model = release.model
    if model.family.name not in READINGS:
        raise InvalidInput(
            f"The intervals of a tilted fit have not been studied for a {model.kind} model yet, so none are "
            "given.",
            advice=Set(
                "draws", "auto", note=" with the mechanism one_posterior; another fit is charged again"
            ),
        )
    one_hot = _one_hot(release)
    unmet = too_many_levels(model, robust=is_robust(release), apart=one_hot is not None)
    if unmet:
        raise InvalidInput(
            f"Intervals could not be trusted here. {unmet}",
            advice=Do("join categories beforehand; another fit is charged again"),
        )
    if release.num_records is not None and release.num_records < 1:
        raise InvalidInput("There are no records to infer from.", advice=Do("use a table with rows"))
    alignment, before = alignment_of(release), _before(release)
    if f"{before}curvature" not in release.statistics:
        raise _without_curvature(release)
    reading, size = READINGS[model.family.name](release), model.num_location
    entries = size if one_hot is None else one_hot.dim
    found = numbers_of(release, f"{before}minimiser", entries)
    centre = numbers_of(release, f"{before}centre", entries)
    if one_hot is None:
        units = (row_units(release) if alignment is None else 1.0) * reading.unit
        places = by_predictor(release)
        theta, pulled = (found / units)[places], ((found - centre) / units)[places]
    else:  # parameters of other rows, which say the same: no feature has a unit, and there is one predictor
        theta = (found @ one_hot.frame) / reading.unit
        pulled = one_hot.back @ (found - centre) / reading.unit
    curvature = symmetric(numbers_of(release, f"{before}curvature", entries * (entries + 1) // 2))
    diagonal_sd, offdiagonal_sd = numbers_of(release, f"{before}curvature_sd", 2).tolist()
    if model.feature_bounds is None and model.num_features:
        _check_units(release, curvature, diagonal_sd)
    described = categories_of(model, row_units(release)[: model.num_features], apart=one_hot is not None)
    layout = Layout(
        intercept=model.num_features if model.fit_intercept else None,
        categories=described if alignment is None else (),
    )
    of_rows = curvature if one_hot is None else one_hot.back @ curvature @ one_hot.back.T
    count, count_sd = _count(release, reading, theta, of_rows, diagonal_sd)
    return Released(
        theta=theta,
        centre=theta - pulled,
        ridge=release.statistics["ridge"].values[0],
        tilt=_tilt(release, reading.unit, one_hot),
        curvature=curvature,
        diagonal_sd=diagonal_sd,
        offdiagonal_sd=offdiagonal_sd,
        count=count,
        count_sd=count_sd,
        weight=reading.weight,
        layout=layout,
        score=_robust(release, reading, layout) or reading.score,
        noise_ratio=float(release.guarantee.rows_per_person),
        useful=reading.useful,
        aligned=alignment is not None,
        frame=None if one_hot is None else one_hot.frame,
    )


def _one_hot(release: Release) -> OneHot | None:
    """How the rows of the fit had an entry for every category, if they had."""
    if "one_hot" not in release.statistics:
        return None
    return OneHot.of_numbers(numbers_of(release, "one_hot", release.model.num_features).tolist())


def alignment_of(release: Release) -> Alignment | None:
    """How the rows of the fit were made of the features in their units, if they were aligned."""
    if "alignment" not in release.statistics:
        return None
    d = release.model.num_features
    return Alignment.of_numbers(numbers_of(release, "alignment", d * (d + 1)), d)


def _before(release: Release) -> str:
    """Before the names of numbers of rows that are not those of the parameters."""
    if "alignment" in release.statistics:
        return ALIGNED
    return ONE_HOT if "one_hot" in release.statistics else ""


def is_robust(release: Release) -> bool:
    """Whether the products of the scores were released, for robust errors."""
    return f"{_before(release)}score_products" in release.statistics


def _robust(release: Release, reading: Reading, layout: Layout) -> ScoreLaw | None:
    """The covariance of the score as it was released, if it was."""
    if not is_robust(release):
        return None
    matrix, sd = (release.statistics[f"{_before(release)}score_products{end}"].array() for end in ("", "_sd"))
    diagonal_sd, offdiagonal_sd = sd.tolist()
    return RobustScore(
        matrix=symmetric(matrix),
        diagonal_sd=diagonal_sd,
        offdiagonal_sd=offdiagonal_sd,
        unit=reading.score_bound**2,
        layout=layout,
        predictors=release.model.family.num_predictors,
    )


def symmetric(upper: Array) -> Array:
    """The matrix whose upper triangle was released."""
    size = (math.isqrt(8 * len(upper) + 1) - 1) // 2
    out = np.zeros((size, size))
    out[np.triu_indices(size)] = upper
    return np.asarray(out + np.triu(out, 1).T)


def unit_of(release: Release) -> float:
    """What the parameters were divided by, beside the units of the rows."""
    return READINGS[release.model.family.name](release).unit


def row_units(release: Release) -> Array:
    """Working coefficients over those of the rows (p,): features without bounds were divided by a unit."""
    model = release.model
    units, features = np.ones(model.num_location), model.family.num_predictors * model.num_features
    if "feature_units" in release.statistics:
        found = release.statistics["feature_units"].array()
        units[:features] = np.tile(1.0 / found, model.family.num_predictors)
    elif model.feature_bounds is None and model.num_features:
        units[:features] = 1.0 / float(release.mechanism.options["cut"])
    return units


def by_predictor(release: Release) -> Array:
    """Where the parameters of a release are, predictor by predictor, the intercept last in each.

    A release has all coefficients first. With one predictor nothing moves.
    """
    model = release.model
    q, d = model.family.num_predictors, model.num_features
    places = np.arange(model.num_location)
    return np.concatenate([places[: q * d].reshape(q, d), places[q * d :].reshape(q, -1)], axis=1).ravel()


def _tilt(release: Release, unit: float, one_hot: OneHot | None) -> TiltLaw:
    """The law of the tilt, in units of the parameters' unit."""
    if one_hot is not None:
        return FramedTilt(law=_of_rows(release, unit, one_hot.dim, one_hot), back=one_hot.back)
    model = release.model
    return _of_rows(release, unit, model.num_location, "cube" if _in_cube(release) else "ball")


def _in_cube(release: Release) -> bool:
    """Whether no row within declared bounds counts for less than another."""
    model = release.model
    bounded = model.feature_bounds is not None or not model.num_features
    return bounded and "alignment" not in release.statistics


def _of_rows(release: Release, unit: float, size: int, geometry: Geometry) -> TiltLaw:
    """The law in the rows to which it was added, ``size`` numbers in all."""
    q = release.model.family.num_predictors
    sd, gaussian = (release.statistics[name].values[0] for name in ("tilt_sd", "tilt_is_gaussian"))
    if gaussian:
        return GaussianLaw(dim=size, scale=sd / unit)
    if "tilt_scale" not in release.statistics:
        return earlier_law(predictors=q, columns=size // q, sd=sd / unit, geometry=geometry)
    scale = release.statistics["tilt_scale"].values[0] / unit
    return norm_law(predictors=q, columns=size // q, scale=scale, geometry=geometry)


def _count(
    release: Release, reading: Reading, theta: Array, curvature: Array, sd: float
) -> tuple[float, float]:
    """The centre and the spread of the prior of the effective number of records."""
    if release.num_records is not None and reading.level is not None:
        known = reading.level == 1.0 and _in_cube(release)
        return reading.level * release.num_records, BOUNDED_SD if known else WEIGHTED_SD
    intercept = release.model.fit_intercept
    rows = np.maximum(curvature.diagonal(), sd).reshape(release.model.family.num_predictors, -1)
    points = np.roll(theta.reshape(rows.shape), 1, axis=1) if intercept else theta  # the intercept first
    moments = np.full(rows.shape[1], MEAN_SQUARE)
    moments[:1] = 1.0 if intercept else MEAN_SQUARE
    rows_law = Rows.of_moments(np.diag(moments)[None], intercept=intercept)
    law = row_law(reading.weight, rows_law, points.reshape(1, -1))
    each = law.curvature[0].diagonal().reshape(rows.shape)
    if intercept:
        rows, each = rows[:, -1:], each[:, :1]
    return float(rows.sum() / max(each.sum(), 1e-3 * rows.shape[1])), PRIVATE_SD


def _without_curvature(release: Release) -> InvalidInput:
    """What to say of a release that holds no curvature: whether another fit would give intervals."""
    known = expected_intervals(release.model, release.guarantee, release.num_records)
    wanted = Set("inference", True, of="TiltedFit", named="tilted_fit", note=" in another fit, charged again")
    return InvalidInput(
        f"Intervals need the curvature of the fit, which this release does not hold. {known.reason}".rstrip(),
        advice=known.advice if known.reason else wanted,
    )


def _check_units(release: Release, curvature: Array, diagonal_sd: float) -> None:
    """Refuse where rows may have been weighted away: features in other units than the cut assumes.

    Each row adds its weight times the slope of its mean to the curvature of the intercept, so a sum of less
    than ``LEAST_SHARE`` of the rows leaves too few of them, or an outcome too rare to be told from that.
    Several predictors have an intercept each, and their curvatures add up.
    """
    q = release.model.family.num_predictors
    intercept = curvature.diagonal().reshape(q, -1)[:, -1].sum() - 2.0 * np.sqrt(q) * diagonal_sd
    least = 0.0 if release.num_records is None else LEAST_SHARE * release.num_records
    if not release.model.fit_intercept or intercept < least:
        raise InvalidInput(
            "Intervals could not be trusted here: features without declared bounds may be so large in their "
            "units that nearly all rows were weighted away.",
            advice=Set("feature_bounds"),
        )
