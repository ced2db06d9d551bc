# SPDX-License-Identifier: Apache-2.0
"""The losses of the families in JAX, for densities that are differentiated by machine.

Each ``..._loss`` returns the beta-divergence loss of ``onedraw.families`` (same constant, same bounds),
record by record, as a function of arrays; ``beta`` may be traced, so one compiled density serves every
calibration. ``LOSSES`` is the one table of the families that JAX knows, by name: networks and NumPyro models
look their family up in it, and nothing else asks which family it is.

Guarantee:
    Every finite input gives a value within the certificate of the family, whatever the model hands over:
    a scale below the floor is read as the floor, probabilities are normalised here, log f and log I of
    counts and of declared densities are held at their bounds.

>>> import pytest; _ = pytest.importorskip("jax")
>>> import numpy as np
>>> from onedraw.families import Bernoulli
>>> ours = bernoulli_loss(np.array([1.0]), np.array([0.5]), 2.0)
>>> bool(np.isclose(ours, Bernoulli().beta_loss(np.array([1.0]), np.array([0.5]), 2.0), rtol=1e-6))
True
>>> sorted(LOSSES)
['bernoulli', 'categorical', 'gaussian', 'laplace', 'poisson', 'student_t']
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Categorical, Family, Gaussian, Laplace, Poisson, StudentT
from onedraw.families._count_power import PowerTable, power_table

LARGEST_LOG_MEAN = 340.0
"""exp of it has a finite square, and under it every count has probability 0 to working precision."""


def _numpy() -> Any:
    return importlib.import_module("jax.numpy")


def bernoulli_loss(y: Any, logit: Any, beta: Any) -> Any:
    """Of y in {0, 1} with that log odds."""
    return _margin_loss()((2.0 * y - 1.0) * logit, beta)


@functools.cache
def _margin_loss() -> Any:
    """The Bernoulli loss of a margin, with its derivative written out: half the time of an automatic one."""
    jax, jnp = importlib.import_module("jax"), _numpy()

    def pieces(margin: Any, beta: Any) -> tuple[Any, Any, Any, Any, Any]:
        small = jnp.exp(-jnp.abs(margin))
        larger = 1.0 / (1.0 + small)
        p = jnp.where(margin >= 0.0, larger, small * larger)
        q = jnp.where(margin >= 0.0, small * larger, larger)
        log_p = jnp.minimum(margin, 0.0) - jnp.log1p(small)
        p_gain, q_gain = jnp.expm1((beta - 1.0) * log_p), jnp.expm1((beta - 1.0) * (log_p - margin))
        # sum_k p_k (p_k^b - 1) = I - 1
        return p, q, p_gain, q_gain, (p * p_gain + q * q_gain) / beta - p_gain / (beta - 1.0)

    def value_alone(margin: Any, beta: Any) -> Any:
        return pieces(margin, beta)[-1]

    def with_derivative(primals: Any, tangents: Any) -> Any:
        # In the margin only: beta is a constant of every density here.
        p, q, p_gain, q_gain, value = pieces(*primals)
        return value, -q * (q * (1.0 + p_gain) + p * (1.0 + q_gain)) * tangents[0]

    loss = jax.custom_jvp(value_alone)
    loss.defjvp(with_derivative)
    return loss


def categorical_loss(y: Any, logits: Any, beta: Any) -> Any:
    """Of class codes y (...,) with logits (..., K), which need not be normalised."""
    jnp, nn = _numpy(), importlib.import_module("jax.nn")
    log_p = nn.log_softmax(logits, axis=-1)
    gain = jnp.expm1((beta - 1.0) * log_p)
    return (jnp.exp(log_p) * gain).sum(axis=-1) / beta - _of_class(gain, y) / (beta - 1.0)


def _of_class(values: Any, y: Any) -> Any:
    """The value (...,) of class y (...,) among values (..., K); a code out of range counts as the nearest."""
    jnp = _numpy()
    codes = jnp.clip(jnp.asarray(y, dtype=int), 0, values.shape[-1] - 1)
    return jnp.take_along_axis(values, codes[..., None], axis=-1)[..., 0]


def _location_scale_loss(log_kernel: Any, scale: Any, beta: Any, log_sup: Any, log_power: Any) -> Any:
    """From log(g/sup g) at the standardised residual and the logs of sup g and of the integral of g^beta."""
    jnp = _numpy()
    b, log_scale = beta - 1.0, jnp.log(scale)
    gain = jnp.expm1(b * (log_kernel + log_sup - log_scale))
    return jnp.expm1(log_power - b * log_scale) / beta - gain / b


def gaussian_loss(y: Any, location: Any, scale: Any, beta: Any, floor: Any) -> Any:
    """Of a normal response; a scale below ``floor`` counts as the floor."""
    jnp = _numpy()
    scale = jnp.maximum(scale, floor)
    log_sup = -0.5 * math.log(2.0 * math.pi)
    log_power = (beta - 1.0) * log_sup - 0.5 * jnp.log(beta)
    return _location_scale_loss(-0.5 * jnp.square((y - location) / scale), scale, beta, log_sup, log_power)


def laplace_loss(y: Any, location: Any, scale: Any, beta: Any, floor: Any) -> Any:
    """Of a double-exponential response; a scale below ``floor`` counts as the floor."""
    jnp = _numpy()
    scale = jnp.maximum(scale, floor)
    log_power = -(beta - 1.0) * math.log(2.0) - jnp.log(beta)
    return _location_scale_loss(-jnp.abs((y - location) / scale), scale, beta, -math.log(2.0), log_power)


def student_t_loss(y: Any, location: Any, scale: Any, beta: Any, floor: Any, df: Any) -> Any:
    """Of a Student-t response with public degrees of freedom."""
    jnp, special = _numpy(), importlib.import_module("jax.scipy.special")
    scale = jnp.maximum(scale, floor)
    half_log = 0.5 * jnp.log(df * math.pi)
    log_sup = special.gammaln(0.5 * (df + 1.0)) - special.gammaln(0.5 * df) - half_log
    exponent = 0.5 * beta * (df + 1.0)
    log_power = beta * log_sup + half_log + special.gammaln(exponent - 0.5) - special.gammaln(exponent)
    kernel = -0.5 * (df + 1.0) * jnp.log1p(jnp.square((y - location) / scale) / df)
    return _location_scale_loss(kernel, scale, beta, log_sup, log_power)


def poisson_loss(y: Any, log_mean: Any, beta: Any, table: dict[str, Any]) -> Any:
    """Of a count; ``table`` is ``log_power_table`` of the family at this beta."""
    jnp, special = _numpy(), importlib.import_module("jax.scipy.special")
    mean = jnp.exp(jnp.minimum(log_mean, LARGEST_LOG_MEAN))
    log_f = jnp.minimum(y * log_mean - mean - special.gammaln(y + 1.0), 0.0)
    log_integral = jnp.minimum(_read_table(log_mean, beta, table), 0.0)
    loss = jnp.expm1(log_integral) / beta - jnp.expm1((beta - 1.0) * log_f) / (beta - 1.0)
    return jnp.maximum(loss, 0.0)


def log_power_table(table: PowerTable) -> dict[str, Any]:
    """The package's table of log I as plain arrays: piecewise quintics inside, a settling tail beyond."""
    quintic = table.quintic
    return {
        "nodes": np.asarray(quintic.x),
        "coefficients": np.asarray(quintic.c),
        "rate": table.rate,
        "c_1": table.c_1,
        "c_2": table.c_2,
    }


def _read_table(eta: Any, beta: Any, table: dict[str, Any]) -> Any:
    jnp = _numpy()
    nodes, coefficients = jnp.asarray(table["nodes"]), jnp.asarray(table["coefficients"])
    inside = jnp.clip(eta, nodes[0], nodes[-1])
    piece = jnp.clip(jnp.searchsorted(nodes, inside, side="right") - 1, 0, len(nodes) - 2)
    step = inside - nodes[piece]
    value = jnp.zeros_like(step)
    for power in range(coefficients.shape[0]):
        value = value * step + coefficients[power, piece]
    # The Poisson's leading term is -b/2 eta; ``CountFamily`` explains the rest.
    beyond = jnp.maximum(eta - nodes[-1], 0.0)
    settling = table["c_1"] * jnp.expm1(-table["rate"] * beyond)
    settling += table["c_2"] * jnp.expm1(-2.0 * table["rate"] * beyond)
    return value - 0.5 * (beta - 1.0) * beyond + settling


def declared_loss(log_f: Any, power_integral: Any, beta: Any, log_bound: Any) -> Any:
    """From a density declared to be at most exp(log_bound), with the integral of its beta-th power."""
    jnp = _numpy()
    b = beta - 1.0
    integral = jnp.clip(power_integral, 0.0, jnp.exp(b * log_bound))
    return (integral - 1.0) / beta - jnp.expm1(b * jnp.minimum(log_f, log_bound)) / b


# -- the table


@dataclass(frozen=True)
class FamilyLoss:
    """What JAX knows of a family: its public numbers, its predictor, and two losses of a response.

    Attributes:
        facts: from the family and beta, the numbers that the losses need beside y, eta, scale and beta.
        eta: from outputs (q, ...) of a network and the facts, what the losses take for ``eta``.
        beta_loss: of y, eta, scale, beta and the facts, the beta-divergence loss.
        log_loss: of y, eta, scale and the facts, -log f up to a constant.
    """

    facts: Callable[[Any, float], dict[str, Any]]
    eta: Callable[[Any, Any], Any]
    beta_loss: Callable[[Any, Any, Any, Any, Any], Any]
    log_loss: Callable[[Any, Any, Any, Any], Any]


def _first(outputs: Any, facts: Any) -> Any:
    return outputs[0]


def _binary_log_loss(y: Any, eta: Any, scale: Any, facts: Any) -> Any:
    return importlib.import_module("jax.nn").softplus((1.0 - 2.0 * y) * eta)


def _class_log_loss(y: Any, eta: Any, scale: Any, facts: Any) -> Any:
    return -_of_class(importlib.import_module("jax.nn").log_softmax(eta, axis=-1), y)


def _count_log_loss(y: Any, eta: Any, scale: Any, facts: Any) -> Any:
    jnp, special = _numpy(), importlib.import_module("jax.scipy.special")
    return jnp.exp(jnp.minimum(eta, LARGEST_LOG_MEAN)) - y * eta + special.gammaln(y + 1.0)


def _gaussian_log_loss(y: Any, eta: Any, scale: Any, facts: Any) -> Any:
    jnp = _numpy()
    scale = jnp.maximum(scale, facts["floor"])
    return 0.5 * jnp.square((y - eta) / scale) + jnp.log(scale)


def _laplace_log_loss(y: Any, eta: Any, scale: Any, facts: Any) -> Any:
    jnp = _numpy()
    scale = jnp.maximum(scale, facts["floor"])
    return jnp.abs((y - eta) / scale) + jnp.log(scale)


def _student_t_log_loss(y: Any, eta: Any, scale: Any, facts: Any) -> Any:
    jnp, df = _numpy(), facts["df"]
    scale = jnp.maximum(scale, facts["floor"])
    return 0.5 * (df + 1.0) * jnp.log1p(jnp.square((y - eta) / scale) / df) + jnp.log(scale)


def _floor(family: Any, beta: float) -> dict[str, Any]:
    return {"floor": family.scale_floor}


LOSSES: Mapping[str, FamilyLoss] = {
    Bernoulli.name: FamilyLoss(
        facts=lambda family, beta: {},
        eta=_first,
        beta_loss=lambda y, eta, scale, beta, facts: bernoulli_loss(y, eta, beta),
        log_loss=_binary_log_loss,
    ),
    Categorical.name: FamilyLoss(
        facts=lambda family, beta: {"contrasts": family.contrasts},
        eta=lambda outputs, facts: (facts["contrasts"] @ outputs).T,
        beta_loss=lambda y, eta, scale, beta, facts: categorical_loss(y, eta, beta),
        log_loss=_class_log_loss,
    ),
    Gaussian.name: FamilyLoss(
        facts=_floor,
        eta=_first,
        beta_loss=lambda y, eta, scale, beta, facts: gaussian_loss(y, eta, scale, beta, facts["floor"]),
        log_loss=_gaussian_log_loss,
    ),
    Laplace.name: FamilyLoss(
        facts=_floor,
        eta=_first,
        beta_loss=lambda y, eta, scale, beta, facts: laplace_loss(y, eta, scale, beta, facts["floor"]),
        log_loss=_laplace_log_loss,
    ),
    StudentT.name: FamilyLoss(
        facts=lambda family, beta: {"floor": family.scale_floor, "df": family.df},
        eta=_first,
        beta_loss=lambda y, eta, scale, beta, facts: student_t_loss(
            y, eta, scale, beta, facts["floor"], facts["df"]
        ),
        log_loss=_student_t_log_loss,
    ),
    Poisson.name: FamilyLoss(
        facts=lambda family, beta: log_power_table(power_table(family, beta)),
        eta=_first,
        beta_loss=lambda y, eta, scale, beta, facts: poisson_loss(y, eta, beta, facts),
        log_loss=_count_log_loss,
    ),
}
"""By the name of the family."""


def known_loss(family: Family) -> FamilyLoss:
    """The losses of a family in JAX, or an error that names the families that have them."""
    if family.name not in LOSSES:
        raise InvalidInput(
            f"The {family.name} family has no loss in JAX, which networks need. Known are "
            f"{', '.join(LOSSES)}."
        )
    return LOSSES[family.name]
