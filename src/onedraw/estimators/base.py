# SPDX-License-Identifier: Apache-2.0
"""What the private regression estimators share: validation, calibration, one release, attributes.

An estimator is thin: ``__init__`` stores, ``fit`` validates, builds the mechanism from public facts,
releases once, and exposes the release. Nothing else computed from the data is kept on the object, so
pickling or printing it leaks nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from onedraw._random import generator
from onedraw._validate import one_of, positive
from onedraw.errors import CalibrationError, InvalidInput, LedgerError
from onedraw.estimators.bounds import each_bounds
from onedraw.estimators.discreet import silent, unquoted
from onedraw.estimators.offered import DEFAULT, OFFERS, build, checked_settings, offered, refuse_unused
from onedraw.ledger import Ledger
from onedraw.losses import BetaDivergence
from onedraw.mechanisms import LinearNoiseAware, Mechanism, OnePosteriorSample, Records
from onedraw.mechanisms._base import BoundedMechanism
from onedraw.mechanisms.records import held
from onedraw.model import Bounds, RegressionModel
from onedraw.priors import Prior, ScalePrior
from onedraw.privacy import Guarantee
from onedraw.privacy.guarantee import NEIGHBOURS, records_are_public
from onedraw.release import Release
from onedraw.samplers import BoxSampler, GridSampler, RejectionSampler, Sampler
from onedraw.types import AnyArray, Array
from onedraw.uncertainty import DrawsChoice, Intervals, choose_draws, credible_intervals, intervals
from onedraw.uncertainty.choice import CANDIDATES

PROVED_BOX = 6.0
"""Half-width, in prior scales, of the public box to which evidence='proved' truncates the prior."""
PROVED_CEILING = 1000.0
"""Largest residual scale under evidence='proved', in multiples of its floor."""
PUBLIC_WORK = 1 << 21
FEWEST_PROPOSALS, MOST_PROPOSALS = 64, 1024


class PrivateRegression(BaseEstimator):
    """Base of the estimators; see ``LogisticRegression`` for the parameters they share."""

    _kinds: ClassVar[tuple[str, ...]] = ()
    """The kinds of model that the estimator fits, for which it offers other mechanisms too."""

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        mechanism: str = DEFAULT,
        mechanism_options: Mapping[str, Any] | None = None,
        beta: float | str = "auto",
        weight: float | None = None,
        neighbours: str = "replace_one",
        rows_per_person: int = 1,
        prior_scale: float = 3.0,
        fit_intercept: bool = True,
        feature_bounds: Any = None,
        engine: str = "auto",
        evidence: str = "searched",
        draws: int | str = 1,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.mechanism_options = mechanism_options
        self.beta = beta
        self.weight = weight
        self.neighbours = neighbours
        self.rows_per_person = rows_per_person
        self.prior_scale = prior_scale
        self.fit_intercept = fit_intercept
        self.feature_bounds = feature_bounds
        self.engine = engine
        self.evidence = evidence
        self.draws = draws
        self.ledger = ledger
        self.dataset = dataset
        self.random_state = random_state

    # -- what subclasses say

    def _outline(self) -> RegressionModel:
        """The model as far as the options alone describe it, without features."""
        return RegressionModel(kind=self._kinds[0], features=())

    def _read_response(self, y: AnyArray) -> tuple[dict[str, Any], Array, tuple[str, ...]]:
        """Public model facts, the response in the family's coding, and the assumptions this rests on."""
        raise NotImplementedError

    def _publish(self, release: Release) -> None:
        """Set the learned attributes from the release, and from nothing else."""
        raise NotImplementedError

    # -- fitting

    def fit(self, X: Any, y: Any, **unsupported: Any) -> Any:
        """Draw from the private posterior of (X, y) and keep only the release.

        ``sample_weight`` is refused: a weight multiplies one person's influence, which the guarantee fixes.
        It is not a named parameter either, so that scikit-learn's meta-estimators do not pass it on.

        Edge cases:
            No rows at all is an error where the number of rows is public (``replace_one`` with one row per
            person). Elsewhere an error would tell an empty table from one with a single person, so the
            release is a draw from the prior.
        """
        if unsupported.pop("sample_weight", None) is not None:
            raise InvalidInput(
                "sample_weight is not supported: a weight would multiply one person's influence on the "
                "release beyond what epsilon allows. Leave it out; for several rows of one person set "
                "rows_per_person."
            )
        if unsupported:
            raise TypeError(
                f"fit() takes X and y only, got {sorted(unsupported)}. Set options in the constructor."
            )
        self.check_budget()
        mechanism, model, data, assumptions = self._prepare(X, y)
        mechanism.check(data, model=model)
        rng, _ = generator(self.random_state)
        receipt = None
        if self.ledger is not None and self.dataset is not None:
            # Charge first: if sampling fails, budget is lost but no release goes unrecorded.
            charged = self.ledger.charge(self.dataset, mechanism.guarantee, mechanism=type(self).__name__)
            receipt = charged.to_dict()
        with silent():
            self.release_ = mechanism.release(
                data, model=model, random_state=rng, assumptions=assumptions, receipt=receipt
            )
        self._publish(self.release_)
        return self

    def check_budget(self) -> None:
        """Refuse options that cannot be, and a fit beyond the ledger's budget, before any data are read.

        ``fit`` begins with it: who has no budget left learns nothing from error messages about the data. It
        charges nothing and reserves nothing.
        """
        self._check_options()
        if self.ledger is None or self.dataset is None:
            return
        refusals = []
        for guarantee in self._possible_guarantees():
            try:
                self.ledger.check_affordable(self.dataset, guarantee)
            except LedgerError as error:
                refusals.append(error)
            else:
                return
        raise refusals[0]

    def _possible_guarantees(self) -> Iterator[Guarantee]:
        """What ``fit`` may be charged for: none of it depends on the data or on the features."""
        model, auto = self._outline(), self.draws == "auto"
        for draws in (1, *CANDIDATES) if auto else (self.draws,):
            try:
                yield self._calibrated(model, 1, draws).guarantee  # type: ignore[arg-type]
            except CalibrationError:  # a weight fixed by the user may not allow several draws
                if not auto or draws == 1:
                    raise

    @property
    def guarantee_(self) -> Guarantee:
        """What the release promises; ``str()`` of it is one plain sentence."""
        check_is_fitted(self, "release_")
        return self.release_.guarantee

    # -- uncertainty, from the release alone

    def summary(self, level: float = 0.95) -> Intervals:
        """Coefficients, standard errors and intervals in original units; ``str()`` of it is an aligned table.

        Needs several draws: fit with ``draws="auto"``, or with mechanism="noise_aware". See
        ``onedraw.uncertainty`` for what is assumed.
        """
        check_is_fitted(self, "release_")
        made = self.release_.mechanism.get("name")
        if made == LinearNoiseAware.name:
            return credible_intervals(self.release_, level)
        if made != OnePosteriorSample.name:
            raise InvalidInput(
                f"A release of {made!r} has no intervals: it does not show how much of its spread is noise. "
                f"Use mechanism={DEFAULT!r} with draws='auto', or, for a linear model, 'noise_aware'."
            )
        choice: DrawsChoice | None = getattr(self, "draws_choice_", None)
        if choice is not None and not choice.trusted and choice.draws == self.release_.guarantee.draws:
            raise InvalidInput(f"This release has no intervals. {choice.explanation}")
        return intervals(self.release_, level)

    def conf_int(self, level: float = 0.95, *, as_frame: bool = False) -> Any:
        """(p, 2): low and high of each parameter, in the order of ``summary()``; ``as_frame`` for pandas."""
        found = self.summary(level)
        return found.to_frame()[["low", "high"]] if as_frame else found.array()

    @property
    def standard_errors_(self) -> Array:
        """(p,), in the order of ``summary()``."""
        return np.array(self.summary().standard_error)

    def _num_draws(self, model: RegressionModel, num_records: int) -> int:
        """The number of draws; "auto" chooses it from public facts and keeps the reason."""
        self.__dict__.pop("draws_choice_", None)
        if not isinstance(self.draws, str):
            return self.draws
        self.draws_choice_ = choose_draws(
            model.family(),
            epsilon=self.epsilon,  # type: ignore[arg-type]
            delta=self.delta,
            neighbours=self.neighbours,  # type: ignore[arg-type]
            rows_per_person=self.rows_per_person,
            num_features=model.num_features,
            num_records=num_records if self._num_records_is_public() else None,
            fit_intercept=model.fit_intercept,
            prior_scale=self.prior_scale,
            beta=self.beta,
            weight=self.weight,
            noise_scale=self._noise_scale(model),
        )
        return self.draws_choice_.draws

    def _prepare(self, X: Any, y: Any) -> tuple[Mechanism, RegressionModel, Records, tuple[str, ...]]:
        """The calibrated mechanism, the public model, the private records and the assumptions."""
        self._check_options()
        features, target = self._read_records(X, y)
        with silent():
            facts, response, assumptions = self._read_response(target)
        model = self._model(facts, self._feature_bounds())
        mechanism = self._mechanism(model, num_records=len(response))
        with silent():
            # Held before they are checked: in working units a finite number may overflow.
            data = Records(
                features=held(model.scale_features(features)), response=held(model.scale_response(response))
            )
        return mechanism, model, data, (*self._standing_assumptions(), *assumptions)

    def _model(self, facts: dict[str, Any], feature_bounds: tuple[Bounds, ...] | None) -> RegressionModel:
        """The public description of what is fitted."""
        return RegressionModel(
            features=self._feature_names(),
            fit_intercept=bool(self.fit_intercept),
            feature_bounds=feature_bounds,
            **facts,
        )

    def _read_records(self, X: Any, y: Any) -> tuple[Array, AnyArray]:
        """X as floats and y as an array, finite and of one length."""
        fewest = 1 if self._num_records_is_public() else 0
        with unquoted("X and y"), np.errstate(all="ignore"):  # the sum of extreme records would warn
            return validate_data(  # type: ignore[no-any-return]
                self, X, y, dtype=np.float64, order="C", ensure_min_samples=fewest
            )

    def _mechanism(self, model: RegressionModel, num_records: int) -> Mechanism:
        return self._calibrated(model, num_records, self._num_draws(model, num_records))

    def _calibrated(self, model: RegressionModel, num_records: int, draws: int) -> Mechanism:
        """The chosen mechanism; ``num_records`` decides nothing but the size of a batch of proposals."""
        promise: dict[str, Any] = {
            "epsilon": self.epsilon,  # None is refused there, with advice
            "delta": self.delta,
            "neighbours": self.neighbours,
            "rows_per_person": self.rows_per_person,
        }
        if self.mechanism != DEFAULT:
            return self._other_mechanism(model, num_records).calibrate(**promise)
        return self._posterior_sample(model, num_records).calibrate(
            **promise,
            draws=draws,
            beta=self.beta,
            weight=self.weight,
            noise_scale=self._noise_scale(model),
        )

    def _other_mechanism(self, model: RegressionModel, num_records: int) -> BoundedMechanism:
        """The mechanism named by ``mechanism``, not the default one, before calibration."""
        options, sampler = self._mechanism_options(model), self._sampler(num_records)
        return build(self.mechanism, options, model=model, sampler=sampler)

    def _posterior_sample(self, model: RegressionModel, num_records: int) -> OnePosteriorSample:
        """The default mechanism, before calibration."""
        proved = self.evidence == "proved"
        noise = None
        if model.scale_floor is not None:
            ceiling = PROVED_CEILING * model.scale_floor if proved else np.inf
            noise = ScalePrior(floor=model.scale_floor, ceiling=ceiling)
        return OnePosteriorSample(
            loss=BetaDivergence(model.family()),
            prior=Prior(scale=self.prior_scale, noise=noise, box=PROVED_BOX if proved else None),
            sampler=self._sampler(num_records),
        )

    def _mechanism_options(self, model: RegressionModel) -> dict[str, Any]:
        """The options of a mechanism other than the default, those that were given, in working units."""
        offer = OFFERS[self.mechanism]
        given = {name: getattr(self, name) for name in offer.options}
        settings = checked_settings(self.mechanism, offer.settings, self.mechanism_options)
        return {**{name: value for name, value in given.items() if value is not None}, **settings}

    def _sampler(self, num_records: int) -> Sampler:
        if self.engine == "grid":
            return GridSampler()
        if self.evidence == "proved":
            return BoxSampler()
        # The evidence quotes this number, so it may depend on n only where n is public.
        public_records = num_records if self._num_records_is_public() else PUBLIC_WORK // 256
        proposals = PUBLIC_WORK // max(1, public_records)
        return RejectionSampler(num_proposals=min(max(proposals, FEWEST_PROPOSALS), MOST_PROPOSALS))

    def _noise_scale(self, model: RegressionModel) -> float | None:
        return None

    # -- public facts

    def _num_records_is_public(self) -> bool:
        return records_are_public(self.neighbours, self.rows_per_person)

    def _check_mechanism(self) -> None:
        """Refuse a mechanism that is not offered, and options that the chosen one would ignore."""
        one_of(offered(self._kinds), mechanism=self.mechanism)
        refuse_unused(self)

    def _check_options(self) -> None:
        """What no later step checks; calibration has its own say on epsilon, delta, beta and the rest."""
        self._check_mechanism()
        if isinstance(self.draws, str):
            if self.draws != "auto":
                raise InvalidInput(f"Expected draws to be a whole number >= 1 or 'auto', got {self.draws!r}.")
            if self.engine == "grid":
                raise InvalidInput(
                    "draws='auto' is for intervals, and draws of engine='grid' are too coarse for them. Give "
                    "a whole number, or engine='exact'."
                )
            if self.mechanism != DEFAULT:
                raise InvalidInput(
                    f"draws='auto' is for mechanism={DEFAULT!r}, got mechanism={self.mechanism!r}. Give a "
                    "whole number."
                )
        one_of(("auto", "exact", "grid"), engine=self.engine)
        one_of(("searched", "proved"), evidence=self.evidence)
        one_of(NEIGHBOURS, neighbours=self.neighbours)
        positive(prior_scale=self.prior_scale)
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise InvalidInput(f"Expected ledger to be an onedraw.Ledger, got {type(self.ledger).__name__}.")
        if (self.ledger is None) != (self.dataset is None):
            raise InvalidInput(
                "Expected ledger and dataset together: the ledger holds the budget, and dataset names whose "
                "it is. Give both, or neither."
            )
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InvalidInput(
                f"Expected fit_intercept to be True or False, got fit_intercept={self.fit_intercept!r}."
            )

    def _feature_names(self) -> tuple[str, ...]:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{i}" for i in range(self.n_features_in_)]
        return tuple(str(name) for name in names)

    def _feature_bounds(self) -> tuple[Bounds, ...] | None:
        return (
            None if self.feature_bounds is None else each_bounds(self.feature_bounds, self._feature_names())
        )

    def _standing_assumptions(self) -> tuple[str, ...]:
        person = (
            "Each person holds one row."
            if self.rows_per_person == 1
            else f"Each person holds at most {self.rows_per_person} rows."
        )
        public = (
            "The names and number of the features, and every option of the fit, were chosen without looking "
            "at the data."
        )
        size = ("The number of rows is public.",) if self._num_records_is_public() else ()
        return (person, public, *size, "The running time of the fit is not observed by an attacker.")

    # -- prediction

    def _read_new(self, X: Any) -> Array:
        """Rows to predict, with the features of the fit, as floats."""
        check_is_fitted(self, "release_")
        with unquoted("X"):
            return validate_data(self, X, dtype=np.float64, reset=False)  # type: ignore[no-any-return]

    def _linear_predictor(self, X: Any) -> Array:
        """X @ coef' + intercept in original units, (n, outputs)."""
        features = self._read_new(X)
        estimate = self.release_.estimate
        return np.asarray(features @ estimate.coef[0].T + estimate.intercept[0])
