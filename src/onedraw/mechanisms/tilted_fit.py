# SPDX-License-Identifier: Apache-2.0
"""The tilted fit: a convex, weighted fit with a random tilt in its objective, whose noise vanishes with n.

Released is the minimiser of

    sum_i omega_i f(y_i, z_i.theta + o_i) + (R/2) |theta - theta_0|^2 + b.theta

with a random b of known law, a public ridge R, and weights omega that keep far-out rows from counting too
much; o is the offset of a record (of counts, the logarithm of its exposure), 0 where it has none. The error
is that of the non-private fit plus noise of order p/(n epsilon). With ``inference`` a noisy curvature of the
objective at the minimiser is released as well: together they give intervals, and estimates without the pull
of the ridge, which are then released in place of the minimiser. A model with a residual scale adds the total
of its squared scores, robust errors the matrix of their products.

Guarantee:
    Pure epsilon-DP for every data set, without bounds on features or response, under both relations and with
    several rows per person; the number of records is never used. With delta > 0 a noise is Gaussian where
    that is smaller. [proofs: ``onedraw.tilted.calibration``, ``weights``, ``recipes`` and ``curvature``]
    Nothing rests on a sampler: the evidence is ``accounted``.

Edge cases:
    n = 0 releases noise. Features with declared bounds are mapped to [-1, 1] and have the law of the cube;
    without bounds they are divided by units that are found privately, or by the public ``cut``, and have
    the law of the ball. A residual scale is found privately and has no floor.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> bounds = ((-1.0, 1.0),) * 5
>>> model = RegressionModel(family=Bernoulli(), features=tuple("abcde"), feature_bounds=bounds)
>>> shape = Shape(model=model, num_records=1000)
>>> mechanism = TiltedFit(inference=False).calibrate(Request(epsilon=1.0), shape)
>>> mechanism.terms.epsilon, mechanism.guarantee.epsilon
(1.0, 1.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import one_of, positive
from onedraw.advice import Caution, Set
from onedraw.errors import InvalidInput
from onedraw.mechanisms._for_intervals import ForIntervals
from onedraw.mechanisms._tilted_words import (
    DRAW_IS_CLOSER,
    FEWEST_FOR_LINEAR,
    ONE_UNIT,
    of_alignment,
    of_intervals,
)
from onedraw.mechanisms.base import SOLVED, Computed, Mechanism, Requirements, uncalibrated
from onedraw.privacy.request import Request
from onedraw.release import Grid, Statistic, coefficient_step, scale_step
from onedraw.samplers.base import Evidence
from onedraw.tables.base import Sums, Table
from onedraw.tables.foresight import staged
from onedraw.tilted.aligning import aligned, without_alignment
from onedraw.tilted.alignment import ALIGNED
from onedraw.tilted.laws import GaussianLaw
from onedraw.tilted.one_hot import ONE_HOT, OneHot, one_hot_of
from onedraw.tilted.quantiles import Drawn
from onedraw.tilted.recipes import RECIPES, Fitted, recipe_of
from onedraw.tilted.terms import Terms
from onedraw.tilted.units import UnitTerms
from onedraw.tilted.unpulled import unpulled
from onedraw.tilted.weights import Geometry, Weighing
from onedraw.types import Array
from onedraw.uncertainty.beforehand import expected_intervals
from onedraw.uncertainty.categories import too_many_levels
from onedraw.uncertainty.released import symmetric

AUTO, ROBUST = "auto", "robust"
CURVATURE_SHARE = 0.25
"""Of epsilon, for the curvature."""
ALIGNMENT_SHARE = 0.15
"""Of epsilon, for an alignment."""
LEAST_SCALE = 2.0**-200
"""A residual scale that is found privately has no floor but this."""
EVIDENCE = Evidence(
    level="accounted",
    statement=(
        "The objective was tilted by noise of a known law, and its minimiser computed to a public tolerance "
        "that further noise covers; nothing rests on a sampler."
    ),
)


@dataclass(frozen=True, kw_only=True)
class TiltedFit(Mechanism):
    """A randomly tilted convex fit.

    Args:
        inference: whether to release a noisy curvature too, from which intervals are computed; it takes
            ``curvature_share`` of epsilon. "auto": where intervals usually follow, by public facts. True is
            refused where none could follow. "robust" releases the products of the scores as well, at the
            same price again, for errors that hold if the model's variances do not.
        curvature_share: the part of epsilon, and of delta, that the curvature takes.
        align: whether to find with a part of epsilon how columns go together, and fit rows in which they do
            not (``onedraw.tilted.aligning``): for columns that nearly repeat one another, or hardly vary
            within their declared ranges.
        cut: what features without declared bounds are divided by: a public guess of how far they spread, or
            None for units that are found privately with a part of epsilon.
    """

    name: ClassVar[str] = "tilted_fit"
    requirements: ClassVar[Requirements] = Requirements(
        families=tuple(RECIPES),
        delta="optional",
        offset=True,
        shares=True,
        prefer="accuracy: its noise vanishes as the number of records grows",
    )

    inference: bool | str = "auto"
    curvature_share: float = CURVATURE_SHARE
    align: bool = False
    cut: float | None = None
    terms_of_alignment: Terms | None = field(default=None, repr=False, metadata=SOLVED)
    terms_of_units: UnitTerms | None = field(default=None, repr=False, metadata=SOLVED)
    terms_of_fit: Terms | None = field(default=None, repr=False, metadata=SOLVED)
    terms_of_curvature: Terms | None = field(default=None, repr=False, metadata=SOLVED)
    remark: str | None = field(default=None, repr=False, metadata=SOLVED)

    # -- calibration

    def _check_options(self) -> None:
        if self.cut is not None:
            positive(cut=self.cut)
        if not 0.0 < self.curvature_share < 1.0:
            raise InvalidInput(
                f"Expected curvature_share between 0 and 1, got curvature_share={self.curvature_share!r}. "
                "inference=False releases no curvature."
            )
        if self.inference == ROBUST and self.curvature_share >= 0.5:
            raise InvalidInput(
                f"Expected curvature_share below 0.5 for robust errors, which take it twice, got "
                f"curvature_share={self.curvature_share!r}."
            )
        if not isinstance(self.align, bool):
            raise InvalidInput(f"Expected align to be True or False, got align={self.align!r}.")
        if not isinstance(self.inference, bool):
            one_of((AUTO, ROBUST), inference=self.inference, remedy="True and False are the others.")

    def _described(self, model: Any) -> Any:
        if not model.family.has_scale:
            return model
        return model.with_scale(replace(model.family, scale_floor=LEAST_SCALE))

    def _check_model(self, model: Any) -> None:
        if not model.num_location:
            raise InvalidInput("Expected a model with a parameter, got no features and no intercept.")
        unmet = without_alignment(model) if self.align else ""
        if unmet:
            raise InvalidInput(unmet, advice=Set("align", False, of="TiltedFit", named="tilted_fit"))

    def _solve(self, request: Request) -> TiltedFit:
        offered = {name: value for name, value in request.terms.items() if name != "draws"}
        assert self.shape is not None
        whole, alignment = Terms(**offered, num_records=self.shape.num_records), None
        if self.align:
            whole, alignment = whole.part(1.0 - ALIGNMENT_SHARE), whole.part(ALIGNMENT_SHARE)
        fit, curvature, remark = self._with_curvature(whole, request)
        fit, units = fit.paying_for_a_count(), None
        if not self._declared and self.cut is None:
            units = UnitTerms.planned(fit, self.model.num_features, self._dim)
            fit = replace(fit, epsilon=fit.epsilon - units.epsilon)
        return replace(
            self,
            promise=request.guarantee(),
            terms_of_alignment=alignment,
            terms_of_units=units,
            terms_of_fit=fit,
            terms_of_curvature=curvature,
            remark=remark,
        )

    def _with_curvature(self, whole: Terms, request: Request) -> tuple[Terms, Terms | None, str]:
        """What is left for the fit, what each released matrix may spend, and a word about it for the plan."""
        unmet = ""
        if self.inference == ROBUST:
            unmet = recipe_of(self.model).without_robust or too_many_levels(self.model, robust=True)
        known = expected_intervals(self.model, request, whole.num_records, without_robust=unmet)
        if self.inference is True or self.inference == ROBUST:
            known.refuse()
        alignment = ALIGNMENT_SHARE if self.align else 0.0
        if self.inference is False or (self.inference == AUTO and known.reason):
            words = [f"{of_alignment(alignment)}." if alignment else ""]
            words.append(known.reason if self.inference == AUTO else "")
            return replace(whole, raw=True), None, " ".join(filter(None, words))
        spent = (2.0 if self.inference == ROBUST else 1.0) * self.curvature_share
        remark = of_intervals(spent, alignment=alignment, offered=not without_alignment(self.model))
        return whole.part(1.0 - spent), whole.part(self.curvature_share), remark

    @property
    def outlook(self) -> str:
        """Whether intervals will follow, what they cost, and whether another mechanism would be closer."""
        return " ".join(filter(None, [self.remark, self._closer]))

    @property
    def _closer(self) -> str:
        """Where a draw had less error in simulations (docs/tilted.md); by public facts."""
        assert self.shape is not None
        n, promise = self.shape.num_records, self.guarantee
        if n is None or not self.model.family.has_scale:
            return ""
        room = n * promise.epsilon / (self.model.num_location * promise.rows_per_person)
        return DRAW_IS_CLOSER if room < FEWEST_FOR_LINEAR else ""

    @property
    def terms(self) -> Terms:
        """What the fit may spend."""
        if self.terms_of_fit is None:
            raise uncalibrated()
        return self.terms_of_fit

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        offset = self.model.offset
        if offset is None or offset.is_log:
            return ()
        return (f"Exposures ({offset.name!r}) below {offset.bounds[0]:g} count as {offset.bounds[0]:g}.",)

    @property
    def cautions(self) -> tuple[Caution, ...]:
        units = self.terms_of_units
        if units is None:
            return super().cautions
        if units.own or self.model.num_features == 1:
            return ()
        return (Caution(ONE_UNIT, Set("feature_bounds", note=" to their public ranges")),)

    # -- computation

    @property
    def reads_anywhere(self) -> bool:
        """Every stage needs sums only."""
        return True

    @property
    def _declared(self) -> bool:
        """Whether working features within their bounds lie in a cube."""
        return self.model.feature_bounds is not None or not self.model.num_features

    @cached_property
    def _one_hot(self) -> OneHot | None:
        """Columns of categories whose rows have an entry for each.

        Robust errors, and the curvature of several classes, know indicators only.
        """
        classes = self.model.family.num_predictors > 1 and self.terms_of_curvature is not None
        return None if self.align or self.inference == ROBUST or classes else one_hot_of(self.model)

    @property
    def _geometry(self) -> Geometry:
        return self._one_hot or ("cube" if self._declared and not self.align else "ball")

    @property
    def _before(self) -> str:
        """Before the names of numbers of rows that are not those of the model's parameters."""
        if self._one_hot is not None:
            return ONE_HOT
        return ALIGNED if self.align else ""

    @property
    def _dim(self) -> int:
        """Entries of a working row."""
        if self._one_hot is not None:
            return self._one_hot.dim
        return int(self.model.num_features) + int(self.model.fit_intercept)

    def _computed(self, records: Table, rng: np.random.Generator) -> Computed:
        terms_of_units, num_records = self.terms_of_units, records.shape[0]
        if terms_of_units is None:
            unit = 1.0 if self._declared or self.cut is None else self.cut
            return self._fitted((unit,) * self.model.num_features, records, rng)
        noise = Drawn(rng)

        def chosen(sums: Sums) -> tuple[float, ...]:
            return tuple(terms_of_units.chosen(sums[0], num_records, noise.again()).tolist())

        def fitted(units: tuple[float, ...], table: Table) -> Computed:
            return self._fitted(units, table, rng)

        return staged(records, terms_of_units.kernel, chosen, fitted, rng)

    def _fitted(self, given: tuple[float, ...], records: Table, rng: np.random.Generator) -> Computed:
        """The fit of features that are divided by these numbers: public or private, 1 within bounds."""
        units = np.array(given)
        weighing = Weighing(
            fit_intercept=self.model.fit_intercept,
            units=None if self._declared else given,
            one_hot=self._one_hot,
        )
        if self.terms_of_alignment is not None:
            noise = self.terms.noise(self._dim)
            weighing = aligned(records, weighing, self.terms_of_alignment, rng, noise=noise)
        rows: Table = records.map(weighing)
        terms = self.terms.counted(records.shape[0], rng)
        intervals = self._for_intervals
        wanted = () if intervals is None else intervals.wanted
        found = recipe_of(self.model)(rows, weighing.geometry, terms, rng, wanted)
        unit = found.published.get("window_scale", 1.0)
        statistics = {name: Statistic.rounded([value], unit=unit) for name, value in found.published.items()}
        if self._one_hot is not None:
            statistics["one_hot"] = Statistic.rounded(self._one_hot.numbers, unit=1.0)
        if weighing.alignment is not None:
            statistics["alignment"] = weighing.alignment.statistic
        stated = units if weighing.alignment is None else np.ones(len(units))
        centre = self._in_units(found.centre, stated)
        statistics[f"{self._before}centre"] = Statistic.rounded(centre, unit=unit)
        statistics["ridge"] = Statistic.rounded([found.calibration.ridge], unit=1.0)
        statistics["tilt_sd"] = Statistic.rounded([found.calibration.tilt_sd], unit=unit)
        statistics["tilt_scale"] = Statistic.rounded([found.calibration.law.scale], unit=unit)
        if self.terms_of_units is not None:
            statistics["feature_units"] = Statistic.rounded(units, unit=float(units.min()))
        statistics["score_bound"] = Statistic.rounded([found.loss.score_bound], unit=unit)
        statistics["tilt_is_gaussian"] = Statistic.rounded(
            [float(isinstance(found.calibration.law, GaussianLaw))], unit=1.0
        )
        values = found.theta
        if intervals is not None:
            statistics |= intervals.released(found, rng)
            minimiser = self._in_units(found.theta, stated)
            statistics[f"{self._before}minimiser"] = Statistic.rounded(minimiser, unit=unit)
            values = self._corrected(found, statistics)
        frame = self._one_hot or weighing.alignment
        values = self._in_units(values if frame is None else values @ frame.frame, units)
        scale = None
        if self.model.has_scale:
            values, scale = np.append(values, found.published["scale"]), scale_step(unit)
        grid = Grid(coefficient=coefficient_step(unit), scale=scale)
        return Computed.rounded(values[None, :], EVIDENCE, grid=grid, statistics=statistics)

    @property
    def _for_intervals(self) -> ForIntervals | None:
        """What is released beside the parameters."""
        if self.terms_of_curvature is None:
            return None
        return ForIntervals(
            geometry=self._geometry,
            before=self._before,
            terms=self.terms_of_curvature,
            robust=self.inference == ROBUST,
            has_scale=self.model.family.has_scale,
        )

    def _corrected(self, found: Fitted, statistics: Mapping[str, Statistic]) -> Array:
        """The minimiser without the pull of its ridge, from what is released: see ``unpulled``."""
        name = f"{self._before}curvature"
        middle = found.theta[:, -1] if self.model.fit_intercept else np.zeros(len(found.theta))
        corrected = unpulled(
            found.theta.ravel(),
            found.centre.ravel(),
            found.calibration.ridge / found.loss.steepness(middle),
            symmetric(statistics[name].array()),
            noise=statistics[f"{name}_sd"].values[-1 if found.theta.size > 1 else 0],
        )
        return corrected.reshape(found.theta.shape)

    def _in_units(self, theta: Array, units: Array) -> Array:
        """Parameters (q, p) in the units of working features, then the others."""
        d = self.model.num_features
        return np.concatenate([(theta[:, :d] / units).ravel(), theta[:, d:].ravel()])

    @property
    def grid(self) -> Grid:
        """2^-40 of a working unit; a linear model, whose unit is found privately, has a grid of its own."""
        return Grid(coefficient=coefficient_step(1.0))

    def _numbers(self) -> Mapping[str, Any]:
        loss, known = recipe_of(self.model).loss, {"epsilon_of_fit": self.terms.epsilon}
        if self.terms_of_units is not None:
            known["epsilon_of_units"] = self.terms_of_units.epsilon
        if self.terms_of_alignment is not None:
            known["epsilon_of_alignment"] = self.terms_of_alignment.epsilon
        if loss is None:  # the rest depends on a scale or a size that is found privately
            return known
        tilted = self.terms.calibrated(loss, self._dim, self._geometry)
        return known | {
            "tilt_law": type(tilted.law).__name__,
            "tilt_scale": tilted.law.scale,
            "ridge": tilted.ridge,
        }
