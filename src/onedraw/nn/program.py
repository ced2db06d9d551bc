# SPDX-License-Identifier: Apache-2.0
"""A NumPyro model taken apart: its prior, the family of its one observed site, and the loss of each record.

Why the guarantee holds for a program that somebody else wrote: it is never shown more than one record.

* *The likelihood* of a record is computed by running the model on that record alone, so it cannot depend on
  another, whatever the program does (a batch mean, for instance, is then the mean of one).
* *The prior* is computed by running the model on a made-up record, so it cannot depend on the data.
* *The loss* of a record is computed by ``onedraw.nn.observed``, within its certificate for anything that the
  program hands over.

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
from types import SimpleNamespace
from typing import Any

import numpy as np

from onedraw._extras import optional
from onedraw.errors import InvalidInput
from onedraw.nn.columns import Outline
from onedraw.nn.observed import DeclaredDensity, ObservedLaw, bare
from onedraw.samplers.nuts import double_precision
from onedraw.types import Array


def numpyro_modules() -> SimpleNamespace:
    """NumPyro's parts, imported on first use."""
    names = {
        "numpyro": "numpyro",
        "handlers": "numpyro.handlers",
        "distributions": "numpyro.distributions",
        "util": "numpyro.infer.util",
    }
    return SimpleNamespace(
        **{short: optional(name, "A NumPyro model", "jax") for short, name in names.items()}
    )


class Program:
    """A model that passed inspection.

    ``outline`` are names, shapes and types of the columns that its records have; no record is needed, and
    none is kept. ``sites`` are names and shapes of the latent sites, ``law`` is that of the observed one.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        outline: Outline,
        public: Mapping[str, Any],
        *,
        noise_floor: float | None = None,
        declared: DeclaredDensity | None = None,
    ) -> None:
        self._parts = numpyro_modules()
        self._jax = importlib.import_module("jax")
        self._model, self._public = self._unchecked(model), dict(public)
        self.outline, self.noise_floor, self.declared = outline, noise_floor, declared
        with double_precision():
            self._dummies = [_dummy(outline, 1, variant) for variant in (0, 1)]
            try:
                first, longer = self._trace(self._dummies[0], 0), self._trace(_dummy(outline, 3, 0), 0)
            except (NotImplementedError, TypeError, ValueError) as error:
                raise InvalidInput(
                    f"The model could not be run on made-up records ({type(error).__name__}: {error}). It is "
                    "called with the records and the public arguments by name. Take the size of a plate from "
                    "the records, for example x.shape[0], and give every latent site a proper prior."
                ) from error
            self.observed = self._inspect(first, longer)
            self.sites = self._latent(first)
            self.law = ObservedLaw.of(bare(first[self.observed]["fn"], self.observed), noise_floor, declared)
            self._refuse_varying_tails()
            template = self.draw_prior(0)
            flat, self._unravel = importlib.import_module("jax.flatten_util").ravel_pytree(template)
            self.dim = int(flat.size)
            self._refuse_data_in_prior(template)
            self._refuse_what_jax_cannot_follow()

    # -- running the model

    def _unchecked(self, model: Callable[..., Any]) -> Callable[..., Any]:
        """The model without NumPyro's checks of arguments, whose errors would depend on a private draw."""

        def run(**arguments: Any) -> Any:
            with self._parts.numpyro.validation_enabled(False):
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
        alone = {name: value[None] for name, value in record.items()}
        site = self._trace(alone, 0, values)[self.observed]
        return self.law.loss_of(bare(site["fn"], self.observed), site["value"], data)

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
            if np.shape(trace[name]["value"]) != (records,):
                raise InvalidInput(
                    f"Site {name!r} observes an array of another length than the records have. Pass the "
                    "response among the records, not as public=..."
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
            law = bare(site["fn"], name)
            if getattr(site["fn"].support, "is_discrete", False):
                raise InvalidInput(f"Latent site {name!r} is discrete, which NUTS cannot sample. Sum it out.")
            if isinstance(law, improper):
                raise InvalidInput(f"Latent site {name!r} has an improper prior. Give it a proper one.")
            found.append((name, tuple(int(size) for size in np.shape(site["value"]))))
        if not found:
            raise InvalidInput("Expected a model with a latent site; this one has nothing to release.")
        return tuple(found)

    def _refuse_what_jax_cannot_follow(self) -> None:
        """Before anything is charged: the gradient is traced for records of these shapes, not computed."""
        data = {
            "records": _dummy(self.outline, 3, 0),
            "beta": 2.0,
            "bounds": np.zeros(2),
            "facts": self.law.facts(2.0),
        }
        try:
            self._jax.eval_shape(self._jax.grad(self._total_loss), np.zeros(self.dim), data)
        except (NotImplementedError, TypeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InvalidInput(
                f"The model cannot be differentiated by JAX ({type(error).__name__}: {reason}) Compute with "
                "jax.numpy, and choose by jnp.where instead of by if."
            ) from error

    def _refuse_varying_tails(self) -> None:
        """Degrees of freedom must be a public constant: free ones have another certificate."""
        for seed, dummy in ((1, 0), (2, 1)):
            other = bare(self._trace(self._dummies[dummy], seed)[self.observed]["fn"], self.observed)
            if self.law.varies(other):
                raise InvalidInput(
                    "The degrees of freedom of the observed StudentT vary; its certificate needs a public "
                    "constant. Fix them."
                )

    def _refuse_data_in_prior(self, at: Mapping[str, Any]) -> None:
        first, second = (float(self.log_prior(at, variant)) for variant in (0, 1))
        if not np.isclose(first, second, rtol=1e-12, atol=1e-12):
            raise InvalidInput(
                "The prior of a latent site depends on the records. Priors must be public: pass what they "
                "need as public=..."
            )


def _dummy(outline: Outline, count: int, variant: int) -> dict[str, Any]:
    """Made-up records of the right shapes and types; the two variants differ in every number."""
    found = {}
    for name, shape, dtype in outline:
        number = (1.0, 0.5)[variant] if np.dtype(dtype).kind == "f" else variant
        found[name] = np.full((count, *shape), number, dtype=dtype)
    return found
