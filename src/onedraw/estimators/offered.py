# SPDX-License-Identifier: Apache-2.0
"""The mechanisms that an estimator offers by name, and which of its options each of them uses.

Every mechanism uses the privacy options (``epsilon``, ``delta``, ``neighbours``, ``rows_per_person``), the
description of the model and the ledger. The options listed here belong to some mechanisms only: changed from
its default, one that the chosen mechanism does not use is a mistake, and refused. Finer settings of a
mechanism come together, in ``mechanism_options``, a dict.

>>> sorted(offered(("linear",)))
['adassp', 'beta_divergence', 'noise_aware', 'sufficient_statistics']
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from onedraw._validate import one_of
from onedraw.errors import InvalidInput
from onedraw.mechanisms import (
    AdaSSP,
    GibbsPosterior,
    LinearNoiseAware,
    LinearSSP,
    LipschitzGibbs,
    ObjectivePerturbation,
    OutputPerturbation,
)
from onedraw.mechanisms._base import BoundedMechanism
from onedraw.model import RegressionModel
from onedraw.priors import Prior
from onedraw.release import Release
from onedraw.samplers import Sampler

DEFAULT = "beta_divergence"
DEFAULT_OPTIONS = (
    *("beta", "weight", "prior_scale", "engine", "evidence", "draws"),
    *("noise_floor", "noise_scale"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Offer:
    """A mechanism that is private for bounded records, and the estimator's options that it uses.

    ``settings`` are the fields of the mechanism that ``mechanism_options`` may hold.
    """

    mechanism: type[BoundedMechanism]
    options: tuple[str, ...]
    settings: tuple[str, ...] = ()

    @property
    def used(self) -> tuple[str, ...]:
        """Every option of the estimator that the mechanism uses."""
        return (*self.options, "mechanism_options") if self.settings else self.options


OFFERS: Mapping[str, Offer] = {
    "gibbs": Offer(mechanism=GibbsPosterior, options=("feature_norm", "prior_box", "prior_scale", "draws")),
    "lipschitz_gibbs": Offer(
        mechanism=LipschitzGibbs,
        options=("feature_norm", "prior_scale", "draws"),
        settings=("draw", "formula"),
    ),
    "output_perturbation": Offer(
        mechanism=OutputPerturbation,
        options=("feature_norm", "regularisation"),
        settings=("noise", "tolerance"),
    ),
    "objective_perturbation": Offer(
        mechanism=ObjectivePerturbation,
        options=("feature_norm", "regularisation"),
        settings=("solver_share", "tolerance"),
    ),
    "adassp": Offer(mechanism=AdaSSP, options=("feature_norm", "response_bound"), settings=("failure",)),
    "sufficient_statistics": Offer(
        mechanism=LinearSSP,
        options=("feature_norm", "response_bound", "noise_scale", "prior_scale"),
        settings=("draws",),
    ),
    "noise_aware": Offer(
        mechanism=LinearNoiseAware,
        options=("feature_norm", "response_bound", "noise_scale", "prior_scale"),
        settings=("draws", "thin", "warm_up"),
    ),
}
"""By the name that an estimator's ``mechanism`` takes, apart from the default."""


def offered(kinds: tuple[str, ...]) -> tuple[str, ...]:
    """The names that suit models of these kinds."""
    suited = (name for name, offer in OFFERS.items() if set(offer.mechanism.requirements.kinds) & set(kinds))
    return (DEFAULT, *suited)


def refuse_unused(estimator: Any, options: Mapping[str, tuple[str, ...]] | None = None) -> None:
    """Refuse options that the chosen mechanism would ignore; ``options`` lists what each of them uses."""
    name, given = estimator.mechanism, estimator.get_params(deep=False)
    if options is None:
        options = {DEFAULT: DEFAULT_OPTIONS, **{name: offer.used for name, offer in OFFERS.items()}}
    used, every = options[name], {option for listed in options.values() for option in listed}
    defaults = inspect.signature(type(estimator)).parameters
    for option, value in given.items():
        if option in every and option not in used and not _same(value, defaults[option].default):
            uses = ", ".join(o for o in used if o in given)
            reason = ", which needs no bound on the data" if name == DEFAULT else ""
            raise InvalidInput(
                f"{option}={value!r} is not used by mechanism={name!r}{reason}; it uses {uses}. "
                f"Leave {option} out, or choose another mechanism."
            )


def checked_settings(mechanism: str, known: Iterable[str], given: Any) -> dict[str, Any]:
    """``mechanism_options`` as a dict of settings that the mechanism has; None is an empty one."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidInput(
            f"Expected mechanism_options to be a dict, for example {{{sorted(known)[0]!r}: ...}}, got "
            f"{type(given).__name__}."
        )
    chosen = dict(given or {})
    for setting in chosen:
        one_of(sorted(known), option=setting, remedy=f"These are the settings of {mechanism!r}.")
    return chosen


def build(
    name: str, given: Mapping[str, Any], *, model: RegressionModel, sampler: Sampler
) -> BoundedMechanism:
    """The mechanism, not yet calibrated, from the options given, in working units."""
    kind = OFFERS[name].mechanism
    if model.kind not in kind.requirements.kinds:
        raise InvalidInput(
            f"mechanism={name!r} is for {' and '.join(kind.requirements.kinds)} models, got a {model.kind} "
            f"one. Use mechanism={DEFAULT!r}."
        )
    fields = {field.name for field in dataclasses.fields(kind)}
    settings = dict(given)
    if "prior" in fields:
        settings["prior"] = Prior(scale=settings.pop("prior_scale"), box=settings.pop("prior_box", None))
    if "sampler" in fields:
        settings["sampler"] = sampler
    if "num_parameters" in fields:
        settings["num_parameters"] = model.dim
    return kind(**settings)


def options_of(release: Release) -> dict[str, Any]:
    """``mechanism`` and its options, in working units, as far as a release tells."""
    told = {"draws": release.guarantee.draws, **release.mechanism}
    told["noise_scale"] = told.get("residual_scale")
    for name, offer in OFFERS.items():
        if offer.mechanism.name == release.mechanism.get("name"):
            options: dict[str, Any] = {option: told.get(option) for option in offer.options}
            if offer.settings:
                settings = {setting: told[setting] for setting in offer.settings if setting in told}
                options["mechanism_options"] = settings
            return {"mechanism": name, **options}
    return {}


def _same(value: Any, default: Any) -> bool:
    return value is default or bool(value == default)
