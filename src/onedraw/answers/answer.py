# SPDX-License-Identifier: Apache-2.0
"""The answer to a simple question, read from a release alone: one number, or two groups and their difference.

The release is that of a regression with no feature, or with one that says which of two groups a record is of.
Its inference (``onedraw.uncertainty``) is about the parameters; the number asked for is a function of them.

* One group: the mean of the family at the intercept. It increases with the intercept, so the ends of the
  interval are those of the intercept's interval, mapped.
* Two groups: the means of both, likewise; their difference and ratio, by quantiles of draws from the law of
  the parameters. The p-value of no difference is that of a coefficient of zero, which is the same statement.

Guarantee:
    A function of the release: it costs no privacy, and whoever holds the file gets the same numbers.

Edge cases:
    Where the release does not allow intervals, ``estimate`` is the released number and ``summary`` says why.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.inference.mixture import NORMAL
from onedraw.release import Release
from onedraw.release.html import Markup, element
from onedraw.types import Array
from onedraw.uncertainty import Intervals
from onedraw.uncertainty.categories import AGAINST, UNIT, has_two_groups
from onedraw.uncertainty.from_curvature import ReleasedInference, inference_of
from onedraw.uncertainty.table import check_level


@dataclass(frozen=True)
class Answer:
    """What a release says about one number, or about two groups; ``str`` is an aligned table."""

    release: Release

    def __post_init__(self) -> None:
        if not isinstance(self.release, Release):
            raise InvalidInput(
                f"Expected a release, got {type(self.release).__name__}. Read a file first: "
                "Answer(Release.from_json(path))."
            )
        model = self.release.model
        fits = (
            model.form == "regression"
            and model.family.question is not None
            and model.fit_intercept
            and (model.num_features == 0 or (model.num_features == 1 and model.feature_bounds == (UNIT,)))
        )
        if not fits:
            raise InvalidInput(
                "Expected a release of onedraw.mean, proportion, rate or compare, got one of a model with "
                "other features. Use release.summary()."
            )

    @property
    def groups(self) -> tuple[str, str] | None:
        """The names of the two groups that are compared, the first one being the baseline."""
        if not self.release.model.features:
            return None
        other, _, baseline = self.release.model.features[0].partition(AGAINST)
        return baseline, other

    @property
    def kind(self) -> str:
        """What the number is: "mean", "proportion" or "rate"."""
        model = self.release.model
        # Earlier versions tossed a coin for each value, which is one of two numbers then.
        by_range = model.shares or (model.classes is not None and _values(model.classes) != UNIT)
        return "mean" if by_range else str(model.family.question)

    @property
    def estimate(self) -> float:
        """The number; of two groups the difference, the second less the first."""
        try:
            found = self.summary()
        except InvalidInput:
            coefficient, intercept = self._released()
            first = self._mean(np.array([intercept]))
            if self.groups is None:
                return float(first[0])
            return float(self._mean(np.array([intercept + coefficient]))[0] - first[0])
        return found.estimate[self._main]

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval of ``estimate``."""
        found = self.summary(level)
        return found.low[self._main], found.high[self._main]

    @property
    def _main(self) -> int:
        return 0 if self.groups is None else 2

    def summary(self, level: float = 0.95) -> Intervals:
        """The number with its standard error and interval; for two groups both, difference and ratio."""
        return self.read(inference_of(self.release), level)

    def read(self, law: ReleasedInference, level: float = 0.95) -> Intervals:
        """``summary`` from an inference of the release that is there already: studies make many at once."""
        level = check_level(level)
        table = law.intervals(level)
        if self.groups is None:
            names, p_value = [self.kind], None
            values, ends, usual = self._at(law, [[1.0]], level)
        else:
            names, p_value = self._compared(*self.groups, table)
            both, differ = self._at(law, [[0.0, 1.0], [1.0, 1.0]], level), self._between(law, level)
            values, ends, usual = (np.concatenate(parts) for parts in zip(both, differ, strict=True))
        assumed = self.release.model.family.question_assumes
        return Intervals(
            names=tuple(names),
            estimate=tuple(values.tolist()),
            standard_error=tuple(((usual[:, 1] - usual[:, 0]) / (2.0 * NORMAL)).tolist()),
            low=tuple(ends[:, 0].tolist()),
            high=tuple(ends[:, 1].tolist()),
            p_value=p_value,
            level=level,
            notes=(f"From the release alone, at no further privacy cost, if {assumed}.",),
            caveats=table.caveats,
            title=self.title,
            guarantee=str(self.release.guarantee),
        )

    def _compared(
        self, baseline: str, other: str, table: Intervals
    ) -> tuple[list[str], tuple[float | None, ...]]:
        """The names of the rows, and the p-value of no difference, which is that of the coefficient."""
        assert table.p_value is not None
        names = [
            f"{self.kind} of {baseline}",
            f"{self.kind} of {other}",
            f"difference, {other} less {baseline}",
        ]
        if self.kind == "mean":
            return names, (None, None, table.p_value[0])
        return [*names, f"ratio, {other} over {baseline}"], (None, None, table.p_value[0], None)

    def _at(
        self, law: ReleasedInference, weights: list[list[float]], level: float
    ) -> tuple[Array, Array, Array]:
        """The means at predictors, (q,), their intervals and their 95% intervals, (q, 2)."""
        tables = [law.contrast(np.array([row]), level=at) for row in weights for at in (level, 0.95)]
        middle = np.array([table.estimate[0] for table in tables[::2]])
        ends = np.concatenate([table.array() for table in tables[::2]])
        usual = np.concatenate([table.array() for table in tables[1::2]])
        return self._mean(middle), self._mean(ends), self._mean(usual)

    def _between(self, law: ReleasedInference, level: float) -> tuple[Array, Array, Array]:
        """The difference of the means and, where they are positive, their ratio, as ``_at``."""
        drawn = law.found.draws @ law.rows.T + law.offset  # coefficient, intercept
        first, second = self._mean(drawn[:, 1]), self._mean(drawn[:, 0] + drawn[:, 1])
        found = [second - first]
        if self.kind != "mean":
            found.append(second / first)
        columns = np.stack(found, axis=1)
        tails = [np.quantile(columns, [0.5 - 0.5 * at, 0.5 + 0.5 * at], axis=0).T for at in (level, 0.95)]
        return np.median(columns, axis=0), tails[0], tails[1]

    def _mean(self, predictor: Array) -> Array:
        """The number asked for, at values of the linear predictor."""
        model = self.release.model
        mean = np.asarray(model.family.mean(predictor))
        if model.classes is None:
            return mean
        low, high = _values(model.classes)
        return (1.0 - mean) * low + mean * high

    def _released(self) -> tuple[float, float]:
        """The released coefficient (0 without groups) and intercept."""
        found = self.release.estimate
        return float(found.coef.sum()), float(found.intercept[0, 0])

    @property
    def title(self) -> str:
        """What was asked."""
        classes = self.release.model.classes
        of = f" of {classes[1]!r}" if self.kind == "proportion" and classes is not None else ""
        return f"{self.kind}{of}{'' if self.groups is None else ', two groups compared'}"

    def __str__(self) -> str:
        try:
            return str(self.summary())
        except InvalidInput as error:
            lines = [f"{self.title}: {self.estimate:.6g}", f"No interval: {error}"]
            return "\n".join([*lines, f"Guarantee: {self.release.guarantee}"])

    def _repr_html_(self) -> Markup:
        try:
            return self.summary()._repr_html_()
        except InvalidInput:
            return element("pre", str(self), class_="onedraw")


def answer_of(release: Release) -> Answer | None:
    """The answer that a release holds; None where its parameters are those of a regression on features."""
    model = release.model
    if model.form != "regression" or model.family.question is None or not model.fit_intercept:
        return None
    return Answer(release) if model.num_features == 0 or has_two_groups(model) else None


def _values(classes: tuple[object, ...] | None) -> tuple[float, float]:
    """What two classes count as: numbers as they are, labels as 0 and 1."""
    low, high = classes or UNIT
    if isinstance(low, float) and isinstance(high, float):
        return low, high
    return UNIT
