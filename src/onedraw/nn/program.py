# SPDX-License-Identifier: Apache-2.0
"""A NumPyro model taken apart: its prior, the family of its one observed site, and the loss of each record.

Why the guarantee holds for a program that somebody else wrote: it is never shown more than one record.

* *The likelihood* of a record is computed by running the model on that record alone, so it cannot depend on
  another, whatever the program does (a batch mean, for instance, is then the mean of one).
* *The prior* is computed by running the model on a made-up record, so it cannot depend on the data.
* *The loss* of a record is a function in ``onedraw.nn.likelihood``, held within its certificate for anything
  that the program hands over; where the result is not a number it counts as the largest loss there is.

*Proof of the last.* The certificate is an interval [lower, upper] of the loss at beta, and its two widths S
and R are at most upper - lower [``onedraw.losses.beta_divergence``]. Whatever function of (record, theta) the
program defines, the loss used is a function of the same two with values in that interval, defined
everywhere. So it moves by at most S between records and by at most R between parameters, which is all that
calibration uses. []

A loss that is not a number must not stop the fit either, because that error would say something about a
record. So no error is raised, and slopes of a record that are not finite count as 0 in the gradient. Chains
only propose by it: leapfrogs along any function of the position are reversible and keep volume, so the
posterior stays invariant.

What would make such a reading differ from what the author meant is refused, with the reason: latent sites per
record, several observed sites, ``factor`` and ``param`` statements, discrete or improper latent sites,
subsampling, masks and scales, and priors that read the records.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from onedraw.errors import InvalidInput, MissingExtra
from onedraw.families import Bernoulli, Categorical, Family, Gaussian, Laplace, Poisson, StudentT
from onedraw.families._count_power import power_table
from onedraw.losses import BetaDivergence, Loss, LossBounds
from onedraw.nn import likelihood
from onedraw.samplers.nuts import double_precision
from onedraw.types import AnyArray, Array

TINY = 1e-300
KNOWN = "Bernoulli, Categorical, Normal, StudentT, Laplace and Poisson"


@dataclass(frozen=True, kw_only=True)
class DeclaredDensity:
    """What a user declares of an observed distribution that has no certificate here.

    Args:
        bound: M, which no value of the density exceeds; a density above it is read as M.
        power_integral: called with the distribution of one record and beta, the integral of its density to
            the power beta, as a JAX number; read as being between 0 and M^(beta - 1).
    """

    bound: float
    power_integral: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class _AnyDensity:
    """What the certificate of a bounded density asks of its family."""

    log_sup_density: float
    name: str = "declared"


@dataclass(frozen=True)
class DeclaredLoss:
    """The beta-divergence loss of a density that is at most exp(log_bound), and nothing more is known."""

    log_bound: float

    @property
    def family(self) -> Any:
        """A bound and a name."""
        return _AnyDensity(self.log_bound)

    def value(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array:
        """Not known outside the program."""
        raise InvalidInput("The loss of a declared density is known inside its program only.")

    derivatives: Any = value

    def loss_bounds(self, beta: float) -> LossBounds:
        """The certificate of any bounded density, which asks for no family beyond its bound."""
        return BetaDivergence(self.family).loss_bounds(beta)


def numpyro_modules() -> SimpleNamespace:
    """NumPyro's parts, imported on first use."""
    try:
        parts = {
            "handlers": importlib.import_module("numpyro.handlers"),
            "distributions": importlib.import_module("numpyro.distributions"),
            "util": importlib.import_module("numpyro.infer.util"),
            "validation_enabled": importlib.import_module("numpyro").validation_enabled,
        }
    except ImportError as error:
        raise MissingExtra("A NumPyro model", "jax") from error
    return SimpleNamespace(**parts)


class Program:
    """A model that passed inspection. ``like`` are records whose shapes and types (not values) are public."""

    def __init__(
        self,
        model: Callable[..., Any],
        like: Mapping[str, AnyArray],
        public: Mapping[str, Any],
        *,
        noise_floor: float | None,
        declared: DeclaredDensity | None,
    ) -> None:
        self._parts = numpyro_modules()
        self._jax = importlib.import_module("jax")
        self._model, self._public = self._unchecked(model), dict(public)
        self._floor, self._declared = noise_floor, declared
        with double_precision():
            self._dummies = [_dummy(like, 1, variant) for variant in (0, 1)]
            try:
                first, longer = self._trace(self._dummies[0], 0), self._trace(_dummy(like, 3, 0), 0)
            except (NotImplementedError, TypeError, ValueError) as error:
                raise InvalidInput(
                    f"The model could not be run on made-up records ({type(error).__name__}: {error}). It is "
                    "called with the records and the public arguments by name. Take the size of a plate from "
                    "the records, for example x.shape[0], and give every latent site a proper prior."
                ) from error
            self.observed = self._inspect(first, longer)
            self.sites = self._latent(first)
            self._kind, self.loss, self._df = self._certificate(first)
            template = self.draw_prior(0)
            flat, self._unravel = importlib.import_module("jax.flatten_util").ravel_pytree(template)
            self.dim = int(flat.size)
            self._refuse_data_in_prior(template)

    # -- running the model

    def _unchecked(self, model: Callable[..., Any]) -> Callable[..., Any]:
        """The model without NumPyro's checks of arguments, whose errors would depend on a private draw."""

        def run(**arguments: Any) -> Any:
            with self._parts.validation_enabled(False):
                return model(**arguments)

        return run

    def _trace(self, records: Mapping[str, Any], seed: int, values: Mapping[str, Any] | None = None) -> Any:
        handlers = self._parts.handlers
        model = handlers.seed(self._model, seed)
        if values is not None:
            model = handlers.substitute(model, data=dict(values))
        return handlers.trace(model).get_trace(**records, **self._public)

    def _prior_model(self) -> Callable[..., Any]:
        return self._parts.handlers.block(self._model, hide=[self.observed])  # type: ignore[no-any-return]

    def draw_prior(self, seed: int) -> dict[str, Any]:
        """A draw from the prior, in unconstrained coordinates by site."""
        trace = self._trace(self._dummies[0], seed)
        values = {name: trace[name]["value"] for name, _ in self.sites}
        handlers = self._parts.handlers
        model = handlers.seed(self._prior_model(), 0)
        found = self._parts.util.unconstrain_fn(model, (), {**self._dummies[0], **self._public}, values)
        return {name: found[name] for name, _ in self.sites}

    def flat_prior_draw(self, seed: int) -> Array:
        """The same as one vector."""
        flatten = importlib.import_module("jax.flatten_util").ravel_pytree
        return np.asarray(flatten(self.draw_prior(seed))[0], dtype=np.float64)

    def log_prior(self, unconstrained: Mapping[str, Any], variant: int = 0) -> Any:
        """Log density of the unconstrained latent sites, Jacobians included, of a made-up record."""
        handlers = self._parts.handlers
        model = handlers.seed(self._prior_model(), 0)
        arguments = {**self._dummies[variant], **self._public}
        return -self._parts.util.potential_energy(model, (), arguments, dict(unconstrained))

    def constrain(self, theta: Any) -> dict[str, Any]:
        """The latent sites as the model sees them, from one unconstrained vector."""
        model = self._parts.handlers.seed(self._prior_model(), 0)
        arguments = {**self._dummies[0], **self._public}
        found = self._parts.util.constrain_fn(model, (), arguments, self._unravel(theta))
        return {name: found[name] for name, _ in self.sites}

    def loss_of(self, values: Mapping[str, Any], record: Mapping[str, Any], data: Any) -> Any:
        """The loss of one record (without leading axis) at constrained latent sites, within its bounds."""
        jnp, (lower, upper) = self._jax.numpy, data["bounds"]
        loss = self._loss_of(values, record, data)
        return jnp.clip(jnp.where(jnp.isnan(loss), upper, loss), lower, upper)

    def _loss_of(self, values: Mapping[str, Any], record: Mapping[str, Any], data: Any) -> Any:
        alone = {name: value[None] for name, value in record.items()}
        site = self._trace(alone, 0, values)[self.observed]
        jnp = self._jax.numpy
        y = jnp.reshape(site["value"], ())
        law, beta = _bare(site["fn"], self._parts.distributions), data["beta"]
        kind = self._kind

        def single(value: Any) -> Any:
            return jnp.reshape(jnp.asarray(value), ())

        if kind == "declared":
            assert self._declared is not None
            assert isinstance(self.loss, DeclaredLoss)
            integral = single(self._declared.power_integral(law, beta))
            return likelihood.declared_loss(single(law.log_prob(y)), integral, beta, self.loss.log_bound)
        if kind == "bernoulli":
            return likelihood.bernoulli_loss(y, single(_log_odds(law)), beta)
        if kind == "categorical":
            logits = jnp.reshape(_logits(law), (-1,))
            return likelihood.categorical_loss(jnp.clip(y, 0, logits.shape[0] - 1), logits, beta)
        if kind == "poisson":
            log_mean = jnp.log(jnp.maximum(single(law.rate), TINY))
            return likelihood.poisson_loss(y, log_mean, beta, data["table"])
        location, scale = single(law.loc), single(law.scale)
        if kind == "student_t":
            return likelihood.student_t_loss(y, location, scale, beta, self._floor, self._df)
        loss = {"gaussian": likelihood.gaussian_loss, "laplace": likelihood.laplace_loss}[kind]
        return loss(y, location, scale, beta, self._floor)

    def losses(self, theta: Any, records: Mapping[str, Any], data: Any) -> Any:
        """The loss of every record, (n,), each from a run of the model on that record alone."""
        values = self.constrain(theta)
        return self._jax.vmap(lambda record: self.loss_of(values, record, data))(dict(records))

    def __call__(self, theta: Any, data: Any) -> Any:
        return self.log_prior(self._unravel(theta)) - data["weight"] * self._total_loss(theta, data)

    @functools.cached_property
    def _total_loss(self) -> Any:
        """The sum of all losses; slopes that are not finite count as 0, record by record."""
        jax, jnp = self._jax, self._jax.numpy

        def total(theta: Any, data: Any) -> Any:
            return self.losses(theta, data["records"], data).sum()

        def careful(theta: Any, data: Any) -> Any:
            def of_record(record: Any) -> Any:
                return jax.grad(lambda at: self.loss_of(self.constrain(at), record, data))(theta)

            slopes = jax.vmap(of_record)(data["records"])
            return jnp.where(jnp.isfinite(slopes), slopes, 0.0).sum(axis=0)

        def forward(theta: Any, data: Any) -> tuple[Any, Any]:
            value, gradient = jax.value_and_grad(total)(theta, data)
            # Rarely needed, and n times as much to keep: the gradient of every record by itself.
            return value, jax.lax.cond(
                jnp.isfinite(gradient).all(), lambda: gradient, lambda: careful(theta, data)
            )

        summed = jax.custom_vjp(total)
        summed.defvjp(forward, lambda gradient, slope: (slope * gradient, None))
        return summed

    def table(self, beta: float) -> dict[str, Any]:
        """What the loss of counts needs beside beta."""
        return likelihood.log_power_table(power_table(Poisson(), beta)) if self._kind == "poisson" else {}

    # -- inspection: public facts only

    def _inspect(self, one: Any, three: Any) -> str:
        """The name of the observed site of a model that can be read record by record."""
        for name, site in one.items():
            if site["type"] == "param":
                raise InvalidInput(
                    f"Site {name!r} is a numpyro.param, which has no prior. Sample it instead."
                )
            if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
                raise InvalidInput(f"Plate {name!r} subsamples the records. Use the whole plate.")
        sampled = {name: site for name, site in one.items() if site["type"] == "sample"}
        observed = [name for name, site in sampled.items() if site["is_observed"]]
        if len(observed) != 1:
            raise InvalidInput(
                f"Expected one observed site, got {observed}: the certificate is of one response per record. "
                "Leave numpyro.factor out, and give one site obs=..."
            )
        name = str(observed[0])
        if one[name].get("scale") is not None:
            raise InvalidInput(
                f"Site {name!r} is rescaled, which would change its sensitivity. Do not scale it."
            )
        for records, trace in ((1, one), (3, three)):
            shape = tuple(trace[name]["fn"].batch_shape)
            if trace[name]["fn"].event_shape or shape not in ((records,), *(((),) if records == 1 else ())):
                raise InvalidInput(
                    f"Expected one response per record at site {name!r}: shape ({records},) for {records} "
                    f"records, got {shape + tuple(trace[name]['fn'].event_shape)}. Take the size of the "
                    "plate from the records themselves, for example x.shape[0]."
                )
        for latent in sampled:
            if latent == name:
                continue
            shapes = [tuple(np.shape(trace[latent]["value"])) for trace in (one, three)]
            if shapes[0] != shapes[1]:
                raise InvalidInput(
                    f"Latent site {latent!r} has one value per record: releasing it would release something "
                    "about each person. Use latent sites whose shape does not depend on the records."
                )
        return name

    def _latent(self, trace: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and shapes of the latent sites, in the order of the program."""
        improper = self._parts.distributions.ImproperUniform
        found = []
        for name, site in trace.items():
            if site["type"] != "sample" or site["is_observed"]:
                continue
            law = _bare(site["fn"], self._parts.distributions)
            if getattr(site["fn"].support, "is_discrete", False):
                raise InvalidInput(f"Latent site {name!r} is discrete, which NUTS cannot sample. Sum it out.")
            if isinstance(law, improper):
                raise InvalidInput(f"Latent site {name!r} has an improper prior. Give it a proper one.")
            found.append((name, tuple(int(size) for size in np.shape(site["value"]))))
        if not found:
            raise InvalidInput("Expected a model with a latent site; this one has nothing to release.")
        return tuple(found)

    def _certificate(self, trace: Any) -> tuple[str, Loss, float]:
        """The kind of loss, the loss with its certificate, and the degrees of freedom if there are any."""
        site = trace[self.observed]
        law = _bare(site["fn"], self._parts.distributions)
        name = type(law).__name__
        if self._declared is not None:
            bound = self._declared.bound
            if not 0.0 < bound < np.inf:
                raise InvalidInput(f"Expected a bound > 0 and finite on the density, got {bound!r}.")
            return "declared", DeclaredLoss(float(np.log(bound))), 0.0
        if name in ("BernoulliLogits", "BernoulliProbs"):
            return "bernoulli", BetaDivergence(Bernoulli()), 0.0
        if name in ("CategoricalLogits", "CategoricalProbs"):
            return "categorical", BetaDivergence(Categorical(num_classes=int(_logits(law).shape[-1]))), 0.0
        if name == "Poisson":
            return "poisson", BetaDivergence(Poisson()), 0.0
        if name not in ("Normal", "StudentT", "Laplace"):
            raise InvalidInput(
                f"The observed site has the distribution {name}, for which no bound of the loss is proved "
                f"here; known are {KNOWN}. Pass declared=DeclaredDensity(bound=..., power_integral=...) if "
                "its density is bounded, and a beta."
            )
        if self._floor is None:
            raise InvalidInput(
                f"A {name} density is bounded only if its scale is. Pass noise_floor=..., the smallest scale "
                "that the model may use; smaller ones are read as that."
            )
        family: Family
        if name == "StudentT":
            df = self._constant_df(law)
            family = StudentT(df=df, scale_floor=self._floor)
            return "student_t", BetaDivergence(family), df
        family = Gaussian(scale_floor=self._floor) if name == "Normal" else Laplace(scale_floor=self._floor)
        return family.name, BetaDivergence(family), 0.0

    def _constant_df(self, law: Any) -> float:
        """The degrees of freedom, which must be a public constant: free ones have another certificate."""
        values = {float(np.ravel(law.df)[0])}
        for seed, dummy in ((1, 0), (2, 1)):
            other = self._trace(self._dummies[dummy], seed)[self.observed]["fn"]
            values.add(float(np.ravel(_bare(other, self._parts.distributions).df)[0]))
        if len(values) > 1:
            raise InvalidInput(
                "The degrees of freedom of the observed StudentT vary; its certificate needs a public "
                "constant. Fix them."
            )
        return values.pop()

    def _refuse_data_in_prior(self, at: Mapping[str, Any]) -> None:
        first, second = (float(self.log_prior(at, variant)) for variant in (0, 1))
        if not np.isclose(first, second, rtol=1e-12, atol=1e-12):
            raise InvalidInput(
                "The prior of a latent site depends on the records. Priors must be public: pass what they "
                "need as public=..."
            )


def _bare(law: Any, distributions: Any) -> Any:
    """The distribution inside expansions; masks change what is summed and are refused."""
    while isinstance(law, distributions.ExpandedDistribution | distributions.Independent):
        law = law.base_dist
    if isinstance(law, distributions.MaskedDistribution):
        raise InvalidInput("The observed site is masked. Leave out the records that should not count.")
    return law


def _log_odds(law: Any) -> Any:
    if type(law).__name__ == "BernoulliLogits":
        return law.logits
    jnp = importlib.import_module("jax.numpy")
    return jnp.log(jnp.maximum(law.probs, TINY)) - jnp.log(jnp.maximum(1.0 - law.probs, TINY))


def _logits(law: Any) -> Any:
    if type(law).__name__ == "CategoricalLogits":
        return law.logits
    jnp = importlib.import_module("jax.numpy")
    return jnp.log(jnp.maximum(law.probs, TINY))


def _dummy(like: Mapping[str, AnyArray], count: int, variant: int) -> dict[str, Any]:
    """Made-up records of the right shapes and types; the two variants differ in every number."""
    found = {}
    for name, value in like.items():
        number = (1.0, 0.5)[variant] if value.dtype.kind == "f" else variant
        found[name] = np.full((count, *value.shape[1:]), number, dtype=value.dtype)
    return found
