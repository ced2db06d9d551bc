# SPDX-License-Identifier: Apache-2.0
"""What every mechanism is: options, then a calibration by public facts, then one computation on the records.

A mechanism is a frozen object whose fields are its options. ``calibrate`` takes what is asked for
(``Request``) and what is publicly known (``Shape``), refuses whatever these alone rule out, and returns the
same mechanism with a guarantee. Nothing is released here: ``onedraw.publishing.publish`` is the only place
that turns private records into a ``Release``, and it asks a calibrated mechanism to compute.

A mechanism declares its ``Requirements`` as data. ``calibrate`` enforces them, the error about a missing
bound quotes them, and the table of docs/mechanisms.md is written from them: one statement, three uses.

Apart from the draw of a beta-divergence posterior, mechanisms are private only because records are bounded. A
bound is an option, never read from the data; records beyond it are shrunk to it before anything is computed
(``_bounds.py``), so the proof holds for every data set; and the release says so.

Guarantee:
    A mechanism whose proof uses the number of records as a public number is refused wherever neighbours may
    differ in it: under add/remove, and with several rows per person, of whom one with five rows may be
    replaced by one with three.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from onedraw._validate import one_of, positive
from onedraw.advice import Caution, Do, LeaveOut, Set
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.privacy.guarantee import NEIGHBOURS, Guarantee
from onedraw.privacy.request import Request
from onedraw.private import Private, opened
from onedraw.release import Grid, Made, Statistic
from onedraw.release.made import is_plain
from onedraw.samplers.base import Evidence
from onedraw.types import Array, Neighbours

NO_BOUND = {
    form: Set("mechanism", name, note=", which needs no bound on the data")
    for form, name in (("regression", "one_posterior"), ("network", "network_draw"))
}
EXACTNESS = {
    "searched": ("The search found every peak of the posterior: only then is the draw exact, and private.",),
}
"""What each level of evidence leaves to be assumed."""
SOLVED = {"solved": True}
"""Marks fields that calibration fills in; all others are options."""
M = TypeVar("M", bound="Mechanism")


TAKEN_AS_THEY_ARE = (
    "No bounds of the features are declared, so all are taken to be of order one; coefficients of features "
    "with larger values (an age in years) will be mostly noise."
)


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """What a mechanism says about itself before it is given anything.

    Attributes:
        forms: the forms of model that it fits: "regression", "network", "sites".
        families: the names of the families that it fits; empty for every family.
        needs: the options that it cannot do without, each with the reason.
        delta: "unused" (pure privacy only), "needed", "optional" (pure privacy; a delta > 0 may allow less
            noise), or "composition" (pure privacy; a delta > 0 lets several draws have more weight each).
        draws: how many draws a request may ask for: "one", "several" (any number), or "auto" (the number may
            also be left to the mechanism).
        count: why it needs the number of records to be public, or "" if it does not.
        exact_draw: whether privacy rests on the exactness of a sampler.
        floating: what is drawn in floating point, so that its law on the public grid is that of the proof up
            to rounding; "" where every number that noise is added to, and the noise, is whole and exact.
        intercept_only: whether it estimates a single number.
        offset: whether records may bring an offset or exposure.
        shares: whether responses may lie between two classes.
        prefer: when to prefer it.
    """

    forms: tuple[str, ...] = ("regression",)
    families: tuple[str, ...] = ()
    needs: Mapping[str, str] = field(default_factory=dict)
    delta: Literal["unused", "needed", "optional", "composition"] = "unused"
    draws: Literal["one", "several", "auto"] = "one"
    count: str = ""
    exact_draw: bool = False
    floating: str = "all of its randomness"
    intercept_only: bool = False
    offset: bool = False
    shares: bool = False
    prefer: str

    @property
    def neighbours(self) -> tuple[Neighbours, ...]:
        """The relations under which it has a guarantee."""
        return ("replace_one",) if self.count else NEIGHBOURS

    def fits(self, model: Any) -> bool:
        """Whether the mechanism is made for such a model."""
        return model.form in self.forms and (not self.families or model.family.name in self.families)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What is publicly known of the data: the model, and the number of records where neighbours share it."""

    model: Any
    """A ``PublicModel``."""
    num_records: int | None = None


@dataclass(frozen=True, kw_only=True)
class Computed:
    """What a computation on private records may hand over: numbers on public grids, and the evidence."""

    draws: tuple[tuple[float, ...], ...]
    grid: Grid
    evidence: Evidence
    statistics: Mapping[str, Statistic] = field(default_factory=dict)

    @classmethod
    def rounded(
        cls,
        values: Array,
        evidence: Evidence,
        *,
        grid: Grid,
        statistics: Mapping[str, Statistic] | None = None,
    ) -> Computed:
        """From values (k, p) that are not on the grid yet."""
        draws = tuple(tuple(row) for row in grid.round(values).tolist())
        return cls(draws=draws, grid=grid, evidence=evidence, statistics=statistics or {})


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """Options; after ``calibrate`` also a guarantee. Subclasses are final or abstract."""

    name: ClassVar[str]
    requirements: ClassVar[Requirements]

    promise: Guarantee | None = field(default=None, repr=False, metadata=SOLVED)
    shape: Shape | None = field(default=None, repr=False, metadata=SOLVED)
    settled: tuple[Any, ...] | None = field(default=None, repr=False, metadata=SOLVED)
    """The options and the shape that the promise was made for."""

    def __post_init__(self) -> None:
        if self.settled is not None and self.settled != self._settings():
            raise CalibrationError(
                f"This {type(self).__name__} was calibrated with other options or for another model, and its "
                "guarantee holds for these only. Set the options first, then call calibrate(request, shape)."
            )

    def _settings(self) -> tuple[Any, ...]:
        return tuple(self.options.items()), self.shape

    # -- what a mechanism says

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What the reader of a release must know: clipping and anything taken on trust."""
        return ()

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What to say before a charge, from public facts: features in units that nobody declared."""
        model = self.model
        if model.form != "regression" or not model.num_features or model.feature_bounds is not None:
            return ()
        return (Caution(TAKEN_AS_THEY_ARE, Set("feature_bounds", note=" to their public ranges")),)

    @property
    def evidence_level(self) -> str:
        """The level of the evidence that a release will state."""
        return "accounted"

    @property
    def outlook(self) -> str:
        """What to expect of the computation, from public facts, for the plan; empty where there is no more to
        say."""
        return ""

    @abstractmethod
    def _numbers(self) -> Mapping[str, str | float | None]:
        """The public numbers that calibration has solved for, for the release."""

    @abstractmethod
    def _computed(self, records: Any, rng: np.random.Generator) -> Computed:
        """What is made of the records, on public grids."""

    # -- what a mechanism may check beyond its requirements

    def _check_options(self) -> None:  # noqa: B027  # most have nothing to add
        """Refuse options that no request and no model could make sense of."""

    def _described(self, model: Any) -> Any:
        """The model as this mechanism releases it, for instance with a residual scale."""
        return model

    def _check_model(self, model: Any) -> None:  # noqa: B027
        """Refuse a model of the right family that the mechanism does not fit all the same."""

    def _solve(self: M, request: Request) -> M:
        """This mechanism, which knows its shape, with its promise and all numbers that follow from it."""
        return replace(self, promise=request.guarantee(draws=self._draws(request)))

    def _draws(self, request: Request) -> int:
        """How many draws a release holds."""
        assert not isinstance(request.draws, str)
        return request.draws

    # -- what all do alike

    @property
    def options(self) -> dict[str, Any]:
        """The options by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if "solved" not in f.metadata}

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """The names of the options."""
        return tuple(f.name for f in fields(cls) if "solved" not in f.metadata)

    def calibrate(self: M, request: Request, shape: Shape) -> M:
        """The same mechanism with its noise or weight set for the request, or an error that says why not."""
        blank: dict[str, Any] = {f.name: None for f in fields(self) if "solved" in f.metadata}
        fresh = replace(self, **blank)
        fresh._check_options()
        fresh._check_fit(shape.model)
        for need in self.requirements.needs:
            fresh._needed(need)
        fresh._check_request(request)
        placed = replace(fresh, shape=replace(shape, model=fresh._described(shape.model)))
        placed._check_model(placed.model)
        return replace(placed._solve(request), settled=placed._settings())

    @property
    def guarantee(self) -> Guarantee:
        """What a release of this mechanism promises, or an error that says how to get a promise."""
        if self.promise is None:
            raise uncalibrated()
        return self.promise

    @property
    def model(self) -> Any:
        """The public description of what will be released."""
        if self.shape is None:
            raise uncalibrated()
        return self.shape.model

    @property
    def made(self) -> Made:
        """Name, options and solved numbers, for the release; options that no file can hold are left out."""
        # Lists, as JSON has no tuples: a release that was read from a file equals the one written to it.
        options = {name: value for name, value in self.options.items() if is_plain(value)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
        return Made(name=self.name, options=plain, numbers=dict(self._numbers()))

    def check_plan(self) -> None:  # noqa: B027  # most can be charged for whatever is known
        """Refuse, from public facts, what cannot be charged for because a fact is missing."""

    def check_records(self, records: Any) -> None:
        """Refuse records that are not of the model, before any budget is spent; quotes none of them."""
        if records.features.shape[1] != self.model.num_features:
            raise InvalidInput(
                f"Expected records with the {self.model.num_features} features of the model, got "
                f"{records.features.shape[1]}."
            )
        self.model.check_response(records.response)
        if (getattr(self.model, "offset", None) is None) != (getattr(records, "offset", None) is None):
            raise InvalidInput("Expected records with an offset where the model has one, and only there.")

    @property
    def reads_anywhere(self) -> bool:
        """Whether it needs no more of a large table than sums and a look, wherever the records are."""
        return False

    def check_place(self) -> None:
        """Refuse a table that is not in memory, if the mechanism needs it there."""
        if not self.reads_anywhere:
            raise InvalidInput(
                f"{type(self).__name__} reads a {self.model.kind} table of this size in memory only.",
                advice=Do("load it into memory: a NumPy array, a frame"),
            )

    def compute(self, records: Private[Any], rng: np.random.Generator) -> Computed:
        """What the mechanism finds for the records in the box."""
        return self._computed(opened(records), rng)

    # -- checks

    def _check_fit(self, model: Any) -> None:
        """Refuse a model that the mechanism is not made for."""
        mechanism, required = type(self).__name__, self.requirements
        if not required.fits(model):
            listed = ", ".join(required.families or required.forms)
            raise InvalidInput(
                f"{mechanism} is for these models: {listed}; got a {model.kind} model.",
                advice=Do("choose another mechanism"),
            )
        if getattr(model, "offset", None) is not None and not required.offset:
            raise InvalidInput(
                f"{mechanism} has no place for an exposure or offset.",
                advice=Set("mechanism", "tilted_fit", note=", which has"),
            )
        if getattr(model, "shares", False) and not required.shares:
            raise InvalidInput(
                f"{mechanism} is for responses that are one of two classes, not between them.",
                advice=Set("mechanism", "tilted_fit", note=", which takes both"),
            )
        if required.intercept_only and (model.num_features or not model.fit_intercept):
            raise InvalidInput(
                f"{mechanism} estimates one number: describe it as a model with an intercept and no "
                f"features, got {model.num_features} features."
            )

    def _check_request(self, request: Request) -> None:
        mechanism, required = type(self).__name__, self.requirements
        if required.delta == "unused" and request.delta > 0.0:
            raise InvalidInput(
                f"{mechanism} gives pure epsilon-differential privacy and cannot use "
                f"delta={request.delta:g}.",
                advice=LeaveOut("delta"),
            )
        if required.delta == "needed" and request.delta == 0.0:
            raise CalibrationError(
                f"{mechanism} has no guarantee at delta=0: the log ratio of neighbouring releases is "
                "unbounded.",
                advice=[
                    Set("delta", 1e-6, note=", or whatever is far below one in the number of records"),
                    Do("choose a pure mechanism"),
                ],
                requested=request.epsilon,
            )
        if required.count:
            public_count_only(request, mechanism, required.count)
        if request.draws == "auto" and required.draws != "auto":
            raise InvalidInput(
                f"{mechanism} does not choose the number of draws.",
                advice=[Set("draws", note=" to a whole number"), LeaveOut("draws")],
            )
        if request.draws != 1 and required.draws == "one":
            own = [Set("draws", of=mechanism)] if "draws" in self.option_names() else []
            raise InvalidInput(
                f"{mechanism} makes one release, got draws={request.draws!r}.",
                advice=[LeaveOut("draws"), *own],
            )

    def _needed(self, name: str) -> float:
        """An option that must be given, or an error that says why this mechanism needs it."""
        why = self.requirements.needs[name]
        value = getattr(self, name)
        if value is None:
            kind = type(self).__name__
            advice = [Set(name, of=kind), NO_BOUND[self.requirements.forms[0]]]
            raise InvalidInput(f"{kind} needs {name}: {why}", advice=advice)
        return positive(**{name: value}, remedy=why)


def uncalibrated() -> CalibrationError:
    """The error of a mechanism that is asked for a promise too early."""
    return CalibrationError("This mechanism has no guarantee yet: call calibrate(request, shape) first.")


def public_count_only(request: Request | Guarantee, mechanism: str, why: str) -> None:
    """Refuse neighbours that may differ in the number of records, where the mechanism uses it as public."""
    if request.num_records_is_public:
        return
    if request.neighbours != "replace_one":
        only, got = "neighbours='replace_one'", f"neighbours={request.neighbours!r}"
    else:
        only, got = "rows_per_person=1", f"rows_per_person={request.rows_per_person}"
    raise InvalidInput(
        f"{mechanism} is private for {only} only, got {got}: {why} Such neighbours may differ in the number "
        "of records.",
        advice=Set("mechanism", "one_posterior", note=", which offers both"),
    )


def build(kind: type[M], options: Mapping[str, Any]) -> M:
    """The mechanism with these options; an unknown one is refused, and the nearest known one named."""
    for name in options:
        one_of(kind.option_names(), option=name, remedy=f"These are the options of {kind.name!r}.")
    for f in fields(kind):
        if f.default is MISSING and f.default_factory is MISSING and f.name not in options:
            raise InvalidInput(f"{kind.__name__} needs {f.name}.", advice=Set(f.name, of=kind.__name__))
    return kind(**options)
