# SPDX-License-Identifier: Apache-2.0
"""Inference from a release alone: sample the curvature it may have had, solve for the truth, mix.

1. The noisy curvature gives a posterior of the law of the rows (``noisy``, ``space``), sampled by Hamiltonian
   Monte Carlo (``sampling``, ``hmc``).
2. For every draw of that law and a fresh tilt b (and its mirror image -b), the true parameters are normal
   (``components``, ``score``). The released parameters tell nothing more about the moments: the ridge and
   the tilt stand between them and the truth.
3. The mixture of these normals gives estimates, standard errors, intervals and tests (``mixture``).

Where noise hides the curvature, step 1 varies more and the mixture is wider by itself. ``inflation`` says by
how much: the width of an interval over the median width given the moments. Beyond ``INFLATION`` the width is
mostly what the prior of the moments says, and ``reason`` refuses. (By the prior a column may be constant, a
category empty and a column the sum of others; where noise does not say otherwise, inflation is large.) It
also refuses 95% intervals that reach further than ``Released.useful`` to either side: they say nothing that
was not known before. Intervals that are given rest on the prior all the same where the smallest eigenvalue
does not stand out of the noise (``resolution``): then ``caveat`` says so.

Guarantee:
    Post-processing: a function of released numbers, public facts and a fixed seed. It costs no privacy, and
    everybody who holds the release gets the same numbers.

Edge cases:
    One parameter (p = 1) has no correlations. A released matrix need not be positive definite.

>>> import numpy as np
>>> from onedraw.inference.released import NormalTilt, Released
>>> result = infer(Released(
...     theta=np.array([0.0, 1.0]), ridge=4.0, tilt=NormalTilt(dim=2, scale=5.0), diagonal_sd=5.0,
...     offdiagonal_sd=5.0, curvature=np.array([[2300.0, 0.0], [0.0, 700.0]]), count=10_000.0))
>>> result.estimate.round(2)[1].item(), result.standard_error.round(3).tolist(), result.reason
(1.01, [0.021, 0.039], None)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onedraw.cautions import rounded
from onedraw.errors import InvalidInput
from onedraw.inference.classes import ClassWeight
from onedraw.inference.components import solved
from onedraw.inference.curvature import row_law
from onedraw.inference.hmc import Chains
from onedraw.inference.misfit import ratios, variances
from onedraw.inference.mixture import NORMAL, NormalMixture, WaldTest
from onedraw.inference.noisy import NoisyCurvature
from onedraw.inference.released import Released
from onedraw.inference.resolution import RESOLVED, resolution
from onedraw.inference.sampling import sample_moments
from onedraw.inference.space import RowPoint, RowSpace
from onedraw.inference.weight import CountWeight, SeveralCounts, Weight
from onedraw.types import Array

SEED = 1
TILTS = 2
"""Tilts for every draw of the moments, each with its mirror image."""
INFLATION = 1.5
"""Intervals are refused beyond this ratio of their width to the median width given the moments."""
COULD_HIDE = (
    "The noise could hide that a column hardly varies, or is nearly the sum of others. That is held for "
    "unlikely; if it is so, errors are larger than these. The option align of a tilted fit gives intervals "
    "only where it is not so."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Inference:
    """Estimates, standard errors, intervals and tests of the true parameters, in the order of the release."""

    law: NormalMixture
    inflation: Array  # (p,)
    reason: str | None
    caveat: str | None

    @property
    def estimate(self) -> Array:
        return self.law.estimate

    @property
    def standard_error(self) -> Array:
        return self.law.standard_error

    @property
    def covariance(self) -> Array:
        return self.law.covariance

    @property
    def draws(self) -> Array:
        """Draws of the parameters (at least 20,000, p)."""
        return self.law.draws

    def interval(self, level: float = 0.95, contrasts: Array | None = None) -> Array:
        """Intervals (p, 2) of the parameters, or (q, 2) of contrasts (q, p)."""
        return self.law.interval(level, contrasts)

    def wald(self, contrasts: Array, value: Array | float = 0.0) -> WaldTest:
        """The test that contrasts (q, p) of the parameters equal ``value``."""
        return self.law.wald(contrasts, value)

    @property
    def p_values(self) -> Array:
        """Two-sided p-values of the parameters being 0 (p,)."""
        return np.array([test.p_value for test in self._tests])

    @property
    def z(self) -> Array:
        """The normal deviates of the p-values, with the sign of the estimate (p,)."""
        return np.array([test.z for test in self._tests], dtype=float)

    @property
    def _tests(self) -> list[WaldTest]:
        return self.law.single_tests(np.eye(self.law.dim), np.zeros(self.law.dim))


def infer(released: Released) -> Inference:
    """The inference from one release."""
    return infer_many([released])[0]


def infer_many(releases: Sequence[Released]) -> list[Inference]:
    """Inferences from releases of one model (same p, weight and intercept), sampled as one batch.

    Counts may have several caps. It is for studies: numbers differ from those of ``infer`` by the Monte Carlo
    error.
    """
    first = releases[0]
    common = _model(first)
    if any(_model(r) != common for r in releases):
        raise InvalidInput("Expected releases of one model (dimension, classes, layout), got several.")
    space = first.layout.space(first.columns, count_sd=first.count_sd)
    rng = np.random.default_rng(SEED)
    chains = _sample(releases, space, rng)
    return [_mix(r, space, draws, rng) for r, draws in zip(releases, chains.draws, strict=True)]


def _model(released: Released) -> tuple[object, ...]:
    """What releases that are sampled together have in common."""
    frame = None if released.frame is None else released.frame.tobytes()
    return released.dim, released.columns, released.layout, released.count_sd, frame


def _sample(releases: Sequence[Released], space: RowSpace, rng: np.random.Generator) -> Chains:
    first = releases[0]
    # Rows of a frame keep their order, and come from the columns of the rows in theirs.
    frame = None if first.frame is None else first.frame[:, first.order]
    places = first.order if frame is None else np.arange(len(first.curvature))
    matrix = np.stack([r.curvature[np.ix_(places, places)] for r in releases])
    diagonal_sd = np.array([r.diagonal_sd for r in releases])
    sizes = np.maximum(np.diagonal(matrix, axis1=1, axis2=2), diagonal_sd[:, None])
    noisy = NoisyCurvature(
        matrix=matrix,
        diagonal_sd=diagonal_sd,
        offdiagonal_sd=np.array([r.offdiagonal_sd for r in releases]),
        misfit=variances(sizes) if first.predictors > 1 else None,
        frame=frame,
    )
    theta = np.stack([r.theta[r.order] for r in releases])
    count = np.array([r.count for r in releases])
    return sample_moments(noisy, space, _weight(releases), theta, count, rng)


def _weight(releases: Sequence[Released]) -> Weight | ClassWeight:
    """The weight of all releases, or those of their counts one by one."""
    first = releases[0].weight
    if all(r.weight == first for r in releases):
        return first
    counts = tuple(r.weight for r in releases if isinstance(r.weight, CountWeight))
    if len(counts) < len(releases):
        raise InvalidInput("Expected releases of one model, got several weights of other data than counts.")
    return SeveralCounts(counts)


def _mix(released: Released, space: RowSpace, draws: Array, rng: np.random.Generator) -> Inference:
    point = space.read(draws.reshape(-1, space.size))
    order, half = released.order, TILTS * len(point.log_count)
    tilt = released.tilt.draws(half, rng)[:, order]
    # The law of b is symmetric: with every b its mirror image, so that the centre has no noise of its own.
    shift = released.pull[order] + np.concatenate([tilt, -tilt])
    ratio = _ratios(released, point, rng)
    truth = solved(
        released.weight,
        point.rows.repeated(2 * TILTS),
        released.count * np.exp(np.tile(point.log_count, 2 * TILTS)),
        np.repeat(released.theta[order][None], 2 * half, axis=0),
        shift,
        ratio=None if ratio is None else np.concatenate([ratio] * 2 * TILTS),
    )
    covariances = released.noise_ratio * released.score.errors(truth, rng)
    back = np.argsort(order)
    mixture = NormalMixture(means=truth.point[:, back], covariances=covariances[:, back][:, :, back])
    known = covariances + truth.inverse @ released.tilt.covariance[np.ix_(order, order)] @ truth.inverse
    # The median over the components of the standard errors that a known curvature would give (p,).
    given = np.sqrt(np.median(np.diagonal(known, axis1=1, axis2=2), axis=0))[back]
    inflation = mixture.standard_error / given
    seen = resolution(released.curvature, released.diagonal_sd, released.offdiagonal_sd, released.frame)
    return Inference(
        law=mixture,
        inflation=inflation,
        reason=_reason(released, mixture, inflation, seen),
        caveat=None if seen >= RESOLVED else COULD_HIDE,
    )


def _ratios(released: Released, point: RowPoint, rng: np.random.Generator) -> Array | None:
    """How the curvature differs from that of the rows, a draw for each of theirs; None for one predictor."""
    if released.predictors == 1:
        return None
    order, draws = released.order, len(point.log_count)
    theta = np.repeat(released.theta[order][None], draws, axis=0)
    law = row_law(released.weight, point.rows, theta)
    model = (released.count * np.exp(point.log_count))[:, None, None] * law.curvature
    matrix = released.curvature[np.ix_(order, order)]
    return ratios(matrix, released.diagonal_sd, released.offdiagonal_sd, model, rng)


def _reason(released: Released, law: NormalMixture, inflation: Array, seen: float) -> str | None:
    """Why no intervals are given, and what would help; None if they are. ``seen`` is the resolution."""
    half, largest = NORMAL * float(law.standard_error.max()), float(inflation.max())
    if largest <= INFLATION and half <= released.useful:
        if seen >= RESOLVED or not released.aligned:
            return None
        return (
            "The noise could hide that a column hardly varies, or is nearly the sum of others, though they "
            f"were aligned. {_least(released, RESOLVED / max(seen, 0.1 * RESOLVED))}"
        )
    if half > released.useful:
        step = "one combination of the aligned columns" if released.aligned else "half the range of a feature"
        per = f" for {step}" if released.columns > 1 else ""
        return (
            f"A 95% interval would reach {half:.3g} to either side{per}, more than the "
            f"{released.useful:g} that could be of use. {_least(released, half / released.useful)}"
        )
    # The part of the width that is due to the curvature's noise falls like that noise, which is 1/(n epsilon)
    # relative to the curvature; the more slowly, the more of the width the prior still hides.
    least = _least(released, (largest - 1.0) / (INFLATION - 1.0))
    return (
        f"The noise of the released curvature hides it: intervals would be {largest:.1f} times as wide as "
        f"with a known curvature, mostly by assumption. {least}"
    )


def _least(released: Released, factor: float) -> str:
    """What intervals would take; a bound from below, as a release that hides much hides also how much."""
    least = f"It would take {rounded(max(1.2, factor))} times the records, or epsilon, at least"
    if released.columns == 1 and released.layout.intercept == 0:
        return f"{least}."
    if released.columns == 2 and released.layout.categories:
        return f"{least}: more where one of the groups is small."
    if released.aligned:  # wide ranges hide nothing then
        return f"{least}: more where columns nearly repeat one another. Leave such columns out."
    return (
        f"{least}: more where columns nearly repeat one another or vary little within their declared ranges, "
        "or a category is rare. Leave such columns out, declare narrower ranges, or merge such categories."
    )
