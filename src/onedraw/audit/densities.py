# SPDX-License-Identifier: Apache-2.0
"""Output densities that are known in closed form, found independently of the mechanism's own arithmetic.

* Output perturbation: Laplace or spherical noise around the minimiser, which SciPy finds.
* Draws of a mean or of a logit from a conjugate posterior: a normal law, and that of the logit of a Beta.
* A tilted logistic fit of one or two parameters (``tilted_density``).
* One step of gradient descent in full batches (``step_densities``), or of a private chain (``chain_steps``).

The data sets and the mechanism's public numbers determine them, so the attacker knows them too. ``KNOWN``
lists them by the mechanism's name; one that is not there is attacked from outside.

>>> from onedraw.families import Gaussian
>>> from onedraw.mechanisms import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Gaussian(), features=()))
>>> mechanism = GaussianMeanDraw(response_bound=2.0).calibrate(Request(epsilon=1.0, delta=1e-5), shape)
>>> known_density(mechanism, Records(features=np.zeros((3, 0)), response=np.zeros(3))).location
array([0.])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import optimize, special

from onedraw._validate import positive
from onedraw.audit.chain_steps import ONE_STEP, is_one_chain_step, one_step
from onedraw.audit.closed_forms import LogitBetaDensity, NoiseDensity, NormalDensity
from onedraw.audit.step_densities import APPROXIMATE, STEPS, is_one_step
from onedraw.audit.tilted_density import has_tilted_density, tilted_density
from onedraw.errors import InvalidInput
from onedraw.mechanisms import BetaBernoulliDraw, GaussianMeanDraw, OutputPerturbation, TiltedFit
from onedraw.records import Records
from onedraw.types import Array


def mean_density(mechanism: GaussianMeanDraw, records: Records) -> NormalDensity:
    """The posterior of a mean under N(0, s^2), each response counting for the weight over r^2."""
    bound = positive(response_bound=mechanism.response_bound)
    held = np.clip(records.response, -bound, bound)
    per_record = mechanism.weight / mechanism.noise_scale**2
    precision = mechanism.prior_scale**-2 + per_record * len(held)
    location = np.array([per_record * held.sum() / precision])
    return NormalDensity(location=location, scale=1.0 / math.sqrt(precision))


def logit_density(mechanism: BetaBernoulliDraw, records: Records) -> LogitBetaDensity:
    """The weighted Beta posterior of a probability, as a logit."""
    ones, zeros = (mechanism.weight * float(np.sum(records.response == y)) for y in (1.0, 0.0))
    return LogitBetaDensity(ones=mechanism.prior[0] + ones, zeros=mechanism.prior[1] + zeros)


def output_density(mechanism: OutputPerturbation, records: Records) -> NoiseDensity:
    """The density of an output perturbation, its minimiser found independently of the mechanism's solver."""
    norm = positive(feature_norm=mechanism.feature_norm)
    intercepts = np.ones((len(records.features), int(mechanism.model.fit_intercept)))
    design = np.column_stack([records.features, intercepts])
    design /= np.maximum(1.0, np.linalg.norm(design, axis=1, keepdims=True) / norm)
    signs = 2.0 * records.response - 1.0

    def objective(theta: Array) -> tuple[float, Array]:
        margin = signs * (design @ theta)
        slope = -(design.T @ (signs * special.expit(-margin))) / len(signs)
        value = np.logaddexp(0.0, -margin).mean() + 0.5 * mechanism.regularisation * float(theta @ theta)
        return float(value), slope + mechanism.regularisation * theta

    start = np.zeros(design.shape[1])
    location = optimize.minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x
    scale = mechanism.noise_scale(num_records=len(signs), dim=len(start))
    return NoiseDensity(location=location, scale=scale, noise=mechanism.noise)


KNOWN: Mapping[str, Callable[[Any, Records], Any]] = {
    OutputPerturbation.name: output_density,
    BetaBernoulliDraw.name: logit_density,
    GaussianMeanDraw.name: mean_density,
    TiltedFit.name: tilted_density,
    **dict.fromkeys(ONE_STEP, one_step),
    **STEPS,
}
"""The law of a release on given records, by the name of the mechanism."""
CONDITIONS: Mapping[str, Callable[[Any], bool]] = {
    TiltedFit.name: has_tilted_density,
    **dict.fromkeys(ONE_STEP, is_one_chain_step),
    **dict.fromkeys(STEPS, is_one_step),
}
"""Of the mechanisms whose law is known with some options only."""


def has_known_density(mechanism: Any) -> bool:
    """Whether ``known_density`` knows the mechanism with its options."""
    fits = CONDITIONS.get(mechanism.name)
    return mechanism.name in KNOWN and (fits is None or fits(mechanism))


def has_exact_density(mechanism: Any) -> bool:
    """Whether what it knows leaves nothing out."""
    return has_known_density(mechanism) and mechanism.name not in APPROXIMATE


def known_density(mechanism: Any, records: Records) -> Any:
    """The density of the mechanism's release on the records; of several draws, that of their mean."""
    if not has_known_density(mechanism):
        raise InvalidInput(
            f"The output density of {type(mechanism).__name__} is not known here: use black_box_audit, which "
            "needs its outputs only."
        )
    return KNOWN[mechanism.name](mechanism, records)
