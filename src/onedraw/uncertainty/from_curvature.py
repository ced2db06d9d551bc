# SPDX-License-Identifier: Apache-2.0
"""Intervals from a tilted fit and its noisy curvature: post-processing, so they cost no privacy.

The release says how it was pulled (the ridge), what noise tilted it, and a curvature with noise of a known
law. ``onedraw.inference`` samples the curvatures that fit these numbers and solves each for the truth; the
mixture gives estimates without the pull of the ridge, intervals, tests and means, in original units.

Guarantee:
    A function of the release, with a fixed seed: whoever holds the file gets the same numbers.

Edge cases:
    Refused, with what would help: whatever ``released`` cannot read, and curvatures that their noise hides.

Coverage statements assume that the model holds; with robust errors, that its best approximation is meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from scipy import special

from onedraw._validate import one_of
from onedraw.advice import Advice, LeaveOut, Set
from onedraw.errors import InvalidInput
from onedraw.inference import Inference, WaldTest, infer
from onedraw.inference.mixture import NORMAL
from onedraw.release import Release
from onedraw.tilted.aligning import without_alignment
from onedraw.types import Array
from onedraw.uncertainty.beforehand import expected_intervals
from onedraw.uncertainty.categories import has_two_groups
from onedraw.uncertainty.from_draws import public_map
from onedraw.uncertainty.released import (
    alignment_of,
    by_predictor,
    is_robust,
    released_of,
    row_units,
    unit_of,
)
from onedraw.uncertainty.table import Intervals, check_level

MIDDLES = "Estimates are the middles of what fits the release, so they differ a little from its coefficients."
NOTES = (
    "From the released fit and its noisy curvature, at no further privacy cost, if the model holds.",
    MIDDLES,
)
ROBUST_NOTES = (
    "From the released fit, its noisy curvature and noisy products of scores, at no further privacy cost. "
    "Errors are robust (sandwich): where the model does not hold, they are those of its best approximation.",
    MIDDLES,
)
ANOTHER = " in another fit, charged again, if columns nearly repeat one another or hardly vary"
BLOCK = 1000
"""Rows whose means have their intervals computed together."""
Contrasts: TypeAlias = Mapping[str, float] | Sequence[Mapping[str, float]] | Array
"""Weights by the names of parameters, several of these, or an array with one column per parameter."""


def curvature_intervals(release: Release, level: float = 0.95) -> Intervals:
    """Estimates, standard errors, intervals and p-values in original units."""
    return inference_of(release).intervals(level)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedInference:
    """What a release says about its parameters, in original units: intervals, tests, contrasts, means."""

    names: tuple[str, ...]
    found: Inference
    rows: Array  # (parameters, p): from the parameters of the inference to original units
    offset: Array  # (parameters,)
    release: Release

    def intervals(self, level: float = 0.95) -> Intervals:
        """Every parameter, with the p-value of its being 0."""
        return self._table(self.names, np.eye(len(self.names)), np.zeros(len(self.names)), level)

    def contrast(
        self,
        contrasts: Contrasts,
        value: float | Sequence[float] = 0.0,
        level: float = 0.95,
        *,
        exponentiate: bool = False,
    ) -> Intervals:
        """Linear combinations of parameters, with the p-values of their being ``value``.

        ``{"age": 10, "smoker": -1}`` is ten times the coefficient of age less that of smoker. Of three
        classes, ``{"age [b]": 1, "age [a]": -1}`` is the log odds ratio of b against a, and its exponential
        the odds ratio.
        """
        quantity = ratio_of(self.release) if exponentiate else None
        weights = self._weights(contrasts)
        values = self._values(value, len(weights))
        found = self._table(tuple(self._name(row) for row in weights), weights, values, level)
        return found if quantity is None else found.exponentiated(quantity)

    def wald_test(
        self, contrasts: Contrasts | Sequence[str], value: float | Sequence[float] = 0.0
    ) -> WaldTest:
        """The joint test that all combinations equal ``value``; names stand for single parameters."""
        weights = self._weights(contrasts)
        return self.found.wald(weights @ self.rows, self._values(value, len(weights)) - weights @ self.offset)

    def mean_interval(self, X: Array, level: float = 0.95) -> Array:
        """(n, 2): intervals of the mean response (a probability, a mean, a rate) at rows X (n, d).

        Of the mean, not of a new observation; each row by itself. Three or more classes have the intervals
        of all their probabilities, (n, classes, 2), each by itself as well.
        """
        level, model = check_level(level), self.release.model
        if model.family.num_predictors > 1:
            return self._class_probabilities(X, level)
        weights = np.zeros((len(X), len(self.names)))
        weights[:, : model.num_features] = X
        if model.fit_intercept:
            weights[:, model.num_features] = 1.0
        blocks = [weights[first : first + BLOCK] for first in range(0, len(weights), BLOCK)]
        ends = np.concatenate([np.empty((0, 2)), *(self._ends(block, level) for block in blocks)])
        # A mean that is increasing in the predictor keeps the order of its quantiles.
        return np.asarray(model.family.mean(ends))

    def _class_probabilities(self, X: Array, level: float) -> Array:
        """(n, classes, 2): quantiles of the probabilities under draws of the parameters."""
        model = self.release.model
        classes, d = model.family.num_predictors + 1, model.num_features
        draws = (self.found.draws @ self.rows.T + self.offset).T
        coefficients = draws[: classes * d].reshape(classes, d, -1)
        intercepts = draws[classes * d :] if model.fit_intercept else np.zeros((classes, 1))
        ends = np.empty((len(X), classes, 2))
        for i, row in enumerate(X):
            probability = special.softmax(row @ coefficients + intercepts, axis=0)
            tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
            ends[i] = np.quantile(probability, tails, axis=1).T
        return ends

    def _ends(self, weights: Array, level: float) -> Array:
        ends = self.found.interval(level, weights @ self.rows)
        return np.asarray(ends + (weights @ self.offset)[:, None])

    def _table(self, names: tuple[str, ...], weights: Array, values: Array, level: float) -> Intervals:
        level = check_level(level)
        rows, offset = weights @ self.rows, weights @ self.offset
        ends = self._ends(weights, level)
        usual = ends if level == 0.95 else self._ends(weights, 0.95)
        tests = self.found.law.single_tests(rows, values - offset)
        return Intervals(
            names=names,
            estimate=tuple((self.found.law.quantile(0.5, rows) + offset).tolist()),
            standard_error=tuple(((usual[:, 1] - usual[:, 0]) / (2.0 * NORMAL)).tolist()),
            low=tuple(ends[:, 0].tolist()),
            high=tuple(ends[:, 1].tolist()),
            p_value=tuple(float(test.p_value) for test in tests),
            level=level,
            notes=ROBUST_NOTES if is_robust(self.release) else NOTES,
            caveats=caveats(self.release, self.found),
        )

    def _weights(self, contrasts: Any) -> Array:
        """Contrasts (q, parameters)."""
        if isinstance(contrasts, str | Mapping):
            contrasts = [contrasts]
        if not isinstance(contrasts, np.ndarray):
            contrasts = [self._named(c) if isinstance(c, str | Mapping) else c for c in contrasts]
        weights = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
        if weights.ndim != 2 or weights.shape[1] != len(self.names) or not len(weights):
            raise InvalidInput(
                f"Expected contrasts with one weight for each of {len(self.names)} parameters, got an array "
                f"of shape {weights.shape}. Give weights by name: {{{self.names[0]!r}: 1.0}}."
            )
        if not np.isfinite(weights).all() or not np.abs(weights).sum(axis=1).all():
            raise InvalidInput("Expected contrasts of finite weights that are not all 0, got others.")
        return weights

    def _named(self, contrast: str | Mapping[str, float]) -> Array:
        weights = np.zeros(len(self.names))
        for name, weight in ({contrast: 1.0} if isinstance(contrast, str) else contrast).items():
            weights[self.names.index(one_of(self.names, parameter=name))] = weight
        return weights

    def _name(self, weights: Array) -> str:
        parts = [
            f"{weight:+g} {name}" for weight, name in zip(weights, self.names, strict=True) if weight != 0.0
        ]
        return " ".join(parts).removeprefix("+").removeprefix("1 ")

    @staticmethod
    def _values(value: float | Sequence[float], size: int) -> Array:
        values = np.asarray(value, dtype=np.float64)
        if values.shape not in ((), (size,)) or not np.isfinite(values).all():
            raise InvalidInput(f"Expected value to be a number, or {size} of them, got value={value!r}.")
        return np.broadcast_to(values, (size,))


def ratio_of(release: Release) -> str:
    """What the exponentials of the coefficients are, or an error."""
    model = release.model
    found: str | None = model.family.ratio if model.form == "regression" else None
    if found is None:
        raise InvalidInput(
            f"The coefficients of a {model.kind} model are no logarithms of odds or rates, so their "
            "exponentials have no meaning. Classes have odds ratios, counts have rate ratios.",
            advice=LeaveOut("exponentiate"),
        )
    return found


def inference_of(release: Release) -> ReleasedInference:
    """The inference from a release of a tilted fit, or an error that says why there is none."""
    made = release.mechanism.name
    if made != "tilted_fit":
        raise InvalidInput(
            f"Contrasts, tests and intervals of means follow from a tilted fit, got a release of {made!r}.",
            advice=Set("mechanism", "tilted_fit"),
        )
    return _inference(_Held(release))


@dataclass(frozen=True, eq=False)
class _Held:
    """A release by identity, so that a table, its tests and its means are computed from one sampling."""

    release: Release

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.release is self.release

    def __hash__(self) -> int:
        return id(self.release)


@lru_cache(maxsize=4)
def _inference(held: _Held) -> ReleasedInference:
    found = infer(released_of(held.release))
    if found.reason is not None:
        raise InvalidInput(
            f"Intervals could not be trusted here. {found.reason}", advice=_advice(held.release)
        )
    return original_units(held.release, found)


def _advice(release: Release) -> list[Advice]:
    """What would help where the noise hides the curvature."""
    model, advice = release.model, list[Advice]()
    if not model.num_features or has_two_groups(model):  # an answer to a question that has no such options
        return advice
    if model.feature_bounds is None:
        advice.append(Set("feature_bounds", note=" too: without, units are found privately"))
    enough = not expected_intervals(model, release.guarantee, release.num_records).reason
    if enough and alignment_of(release) is None and not without_alignment(model):
        advice.append(Set("align", True, of="TiltedFit", named="tilted_fit", note=ANOTHER))
    return advice


def original_units(release: Release, found: Inference) -> ReleasedInference:
    """An inference from what ``released_of`` made of a release, in original units."""
    model = release.model
    rows = (public_map(model) * row_units(release) * unit_of(release))[:, by_predictor(release)]
    alignment = alignment_of(release)
    if alignment is not None:
        rows = rows @ np.kron(np.eye(model.family.num_predictors), alignment.frame.T)
    fitted = np.abs(rows).sum(axis=1) > 0.0  # the intercept of a model without one is 0 by definition
    origin = model.original_units(np.zeros((1, model.dim)))
    offset = np.concatenate([origin.coef.ravel(), origin.intercept.ravel()])
    names = [name for name, kept in zip(model.parameter_names(), fitted, strict=False) if kept]
    return ReleasedInference(
        names=tuple(names), found=found, rows=rows[fitted], offset=offset[fitted], release=release
    )


def caveats(release: Release, found: Inference) -> tuple[str, ...]:
    """What a reader must know beyond the notes."""
    rows = release.guarantee.rows_per_person
    alike = f"Rows of a person may be alike, so errors are those of {rows} identical rows each: cautious."
    said = (alike if rows > 1 else None, found.caveat)
    return tuple(caveat for caveat in said if caveat is not None)
