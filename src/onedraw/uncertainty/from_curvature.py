# SPDX-License-Identifier: Apache-2.0
"""Intervals from a tilted fit and its noisy curvature: post-processing, so they cost no privacy.

The release says how it was pulled (the ridge), what noise tilted it, and a curvature with noise of a known
law. ``onedraw.inference`` samples the curvatures that fit these numbers and solves each for the truth; the
mixture gives estimates without the pull of the ridge, intervals and p-values.

Guarantee:
    A function of the release, with a fixed seed: whoever holds the file gets the same numbers.

Edge cases:
    Refused, with what would help: a release without a curvature, a private number of records, models for
    which coverage has not been studied (all but two classes), and curvatures that their noise hides.

Coverage statements assume that the model holds.
"""

from __future__ import annotations

import numpy as np

from onedraw.advice import Do, Set
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli
from onedraw.inference import Inference, Released, infer
from onedraw.release import Release
from onedraw.tilted.laws import BallLaw, CubeLaw, GaussianLaw
from onedraw.types import Array
from onedraw.uncertainty.from_draws import public_map
from onedraw.uncertainty.table import Intervals, check_level

LAWS = {law.__name__: law for law in (BallLaw, CubeLaw, GaussianLaw)}
STUDIED = (Bernoulli.name,)
"""Families for which the coverage of these intervals has been measured."""
LEAST_SHARE = 0.02
"""Of the rows: the least curvature of the intercept that shows that they were not weighted away."""
NOTES = (
    "From the released fit and its noisy curvature, at no further privacy cost, if the model holds.",
    "Estimates are corrected for the pull of the ridge, so they differ from the released coefficients.",
)


def curvature_intervals(release: Release, level: float = 0.95) -> Intervals:
    """Estimates, standard errors, intervals and p-values in original units."""
    level = check_level(level)
    found, rows = infer(_released(release)), _contrasts(release)
    if found.reason is not None:
        raise InvalidInput(f"Intervals could not be trusted here. {found.reason}")
    fitted = np.abs(rows).sum(axis=1) > 0.0  # the intercept of a model without one is 0 by definition
    names = [n for n, kept in zip(release.model.parameter_names(), fitted, strict=True) if kept]
    return _table(found, rows[fitted], tuple(names), level)


def _table(found: Inference, rows: Array, names: tuple[str, ...], level: float) -> Intervals:
    ends, middle = found.interval(level, rows), rows @ found.estimate
    errors = np.sqrt(np.einsum("oi,ij,oj->o", rows, found.covariance, rows))
    return Intervals(
        names=names,
        estimate=tuple(middle.tolist()),
        standard_error=tuple(errors.tolist()),
        low=tuple(ends[:, 0].tolist()),
        high=tuple(ends[:, 1].tolist()),
        p_value=tuple(float(found.wald(row).p_value) for row in rows),
        level=level,
        notes=NOTES,
    )


def _released(release: Release) -> Released:
    """The release in the units of the working rows, the intercept last."""
    model, made = release.model, release.mechanism
    # First what no curvature would change, so that nobody pays for one in vain.
    if model.family.name not in STUDIED:
        raise InvalidInput(
            f"The intervals of a tilted fit have not been studied for a {model.kind} model yet, so none are "
            "given.",
            advice=Set(
                "draws", "auto", note=" with the mechanism one_posterior; another fit is charged again"
            ),
        )
    if release.num_records is None:
        raise InvalidInput(
            "The intervals of a tilted fit have not been studied where the number of records is private.",
            advice=Set("neighbours", "replace_one", note=", with one row each"),
        )
    if release.num_records < 1:
        raise InvalidInput("There are no records to infer from.", advice=Do("use a table with rows"))
    if "curvature" not in release.statistics:
        raise InvalidInput(
            "Intervals of a tilted fit need its curvature, which this release does not hold.",
            advice=Set(
                "inference",
                True,
                of="TiltedFit",
                named="tilted_fit",
                note=" beforehand; another fit is charged again",
            ),
        )
    theta, size = np.array(release.draws[0]) / _units(release), model.num_location
    curvature = np.zeros((size, size))
    curvature[np.triu_indices(size)] = release.statistics["curvature"].values
    curvature += np.triu(curvature, 1).T
    diagonal_sd, offdiagonal_sd = release.statistics["curvature_sd"].values
    if model.feature_bounds is None:
        _check_units(release, curvature[-1, -1] - 2.0 * diagonal_sd)
    return Released(
        theta=theta,
        ridge=float(made.numbers["ridge"]),
        tilt=LAWS[made.numbers["tilt_law"]](dim=size, scale=float(made.numbers["tilt_scale"])),
        curvature=curvature,
        diagonal_sd=diagonal_sd,
        offdiagonal_sd=offdiagonal_sd,
        count=float(release.num_records),
        intercept=size - 1 if model.fit_intercept else None,
        noise_ratio=float(release.guarantee.rows_per_person),
    )


def _check_units(release: Release, intercept: float) -> None:
    """Refuse where rows may have been weighted away: features in other units than the cut assumes.

    Each row adds its weight times p (1 - p) to the curvature of the intercept, so a sum of less than
    ``LEAST_SHARE`` of the rows leaves too few of them, or an outcome too rare to be told from that.
    """
    assert release.num_records is not None
    if not release.model.fit_intercept or intercept < LEAST_SHARE * release.num_records:
        raise InvalidInput(
            "Intervals could not be trusted here: features without declared bounds may be so large in their "
            "units that nearly all rows were weighted away.",
            advice=Set("feature_bounds"),
        )


def _units(release: Release) -> Array:
    """Working coefficients over those of the rows (p,): features without bounds were divided by the cut."""
    model = release.model
    units = np.ones(model.num_location)
    if model.feature_bounds is None:
        units[: model.num_features] = 1.0 / float(release.mechanism.options["cut"])
    return units


def _contrasts(release: Release) -> Array:
    """(outputs, p): parameters of the rows to original units."""
    return public_map(release.model) * _units(release)
