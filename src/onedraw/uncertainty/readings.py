# SPDX-License-Identifier: Apache-2.0
"""What a release of a tilted fit says about its own curvature and score, family by family.

``STUDIED`` lists the families for which the coverage of intervals was measured (docs/uncertainty.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Categorical, Gaussian, NegativeBinomial, Poisson
from onedraw.inference import (
    ClassWeight,
    ConstantWeight,
    CountVariance,
    CountWeight,
    DispersedScore,
    EfficientScore,
    LogisticVariance,
    LogisticWeight,
    ModelScore,
    ScoreLaw,
    Weight,
)
from onedraw.release import Release
from onedraw.tilted.linear import CUTS, REACH
from onedraw.tilted.recipes import COUNT_CUT, LARGEST_COUNT
from onedraw.tilted.softmax_loss import Softmax
from onedraw.types import Array

MOST = 1000
"""Above all caps that this or an earlier version could choose."""
USEFUL = 1.5
"""Residual scales: the longest half-width of an interval of a linear model that says something."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the inference reads a release.

    weight, score: the curvature's weight and the law of the score (``onedraw.inference``).
    unit: what the parameters are divided by before anything else: 1, or the cut of a log-cosh fit.
    score_bound: the largest score of a record, in that unit.
    level: the curvature of a typical record with a predictor of 0, where the weight does not say it; None
        where only the released curvature does.
    """

    weight: Weight | ClassWeight
    score: ScoreLaw = field(default_factory=ModelScore)
    unit: float = 1.0
    score_bound: float = 1.0
    level: float | None = 1.0
    useful: float = 3.0


def numbers_of(release: Release, name: str, size: int) -> Array:
    """Released numbers, as many as there have to be."""
    found = release.statistics.get(name)
    if found is None or len(found.values) != size:
        raise InvalidInput(
            f"Expected {size} released numbers {name!r} for intervals of this model, got "
            f"{0 if found is None else len(found.values)}: the file was changed, or made by another program."
        )
    return found.array()


def _brier(release: Release) -> float:
    """How much of Brier's score is in the loss; releases that do not say it are older, and have none."""
    return release.statistics["brier"].values[0] if "brier" in release.statistics else 0.0


def _two_classes(release: Release) -> Reading:
    brier = _brier(release)
    score = ModelScore(variance=LogisticVariance(brier))
    return Reading(weight=LogisticWeight(brier), score=score)


def _classes(release: Release) -> Reading:
    """Log odds of two classes are sqrt(2) times a contrast, so contrasts are of use up to 3/sqrt(2)."""
    classes = release.model.family.num_predictors + 1
    weight = ClassWeight(classes=classes, brier=_brier(release))
    bound = Softmax.score_bound
    return Reading(weight=weight, score=EfficientScore(), score_bound=bound, useful=3.0 / bound)


def _linear(release: Release) -> Reading:
    scale, cut = (release.statistics[name].values[0] for name in ("scale", "score_bound"))
    score: ScoreLaw = ModelScore()
    if "dispersion" in release.statistics:  # else errors are robust, and read from their own matrix
        total, noise = (release.statistics[name].values[0] for name in ("dispersion", "dispersion_noise"))
        score = DispersedScore(total=total, noise=noise, unit=1.0)
    # The mean curvature at normal errors, by the cut in residual scales.
    level = float(np.interp(cut / scale, CUTS, np.array(CUTS) / REACH))
    return Reading(weight=ConstantWeight(), score=score, unit=cut, level=level, useful=USEFUL * scale / cut)


def _counts(release: Release) -> Reading:
    """With offsets the predictors of records are not those of their rows, so nothing but the released
    curvature says how large it is: it is taken to be that at the truth. The covariance of the score, which is
    smaller (for Poisson counts E f'^2 <= E f'', ``tilted.count_loss``), is taken to be the curvature too.
    """
    if "cap" in release.statistics:  # an earlier version, whose score is as large as its cap
        cap, cut = float(numbers_of(release, "cap", 1)[0]), None
        bound = cap
    else:
        cap, cut = (float(numbers_of(release, name, 1)[0]) for name in (LARGEST_COUNT, COUNT_CUT))
        bound = cut
    if not 1.0 <= cap <= MOST:
        raise InvalidInput(
            f"Expected a largest count between 1 and {MOST}, got {cap:g}: the file was changed, or made by "
            "another program."
        )
    if release.model.offset is not None:
        return Reading(weight=ConstantWeight(), score_bound=bound, level=None)
    size = release.model.family.to_dict().get("dispersion")
    weight = CountWeight(cap=int(cap), cut=cut, dispersion=size)
    score = ModelScore(variance=CountVariance(cap=int(cap), cut=cut, dispersion=size))
    return Reading(weight=weight, score=score, score_bound=bound)


READINGS: Mapping[str, Callable[[Release], Reading]] = {
    Bernoulli.name: _two_classes,
    Categorical.name: _classes,
    Gaussian.name: _linear,
    Poisson.name: _counts,
    NegativeBinomial.name: _counts,
}
"""By the name of the family."""
