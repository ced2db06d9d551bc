# SPDX-License-Identifier: Apache-2.0
"""Any NumPyro model with one observed site, released as one private draw of its latent sites.

The observed log-likelihood is replaced by the beta-divergence loss of the observed distribution, weighted so
that a draw from the resulting posterior is private; every latent site is released, in the model's own units.

Guarantee:
    That of one draw from prior * exp(-weight * sum of losses): epsilon = 2 w S under replace-one, w R under
    add/remove, with the certificate of the observed distribution [``onedraw.losses.beta_divergence``], given
    that the chains have converged. ``onedraw.nn.program`` says why no program can break it.

Edge cases:
    A scale below ``noise_floor`` is read as the floor by the loss, and released as it is. Deterministic
    sites may contain data and are not released.

>>> import numpy as np, pytest
>>> numpyro = pytest.importorskip("numpyro"); dist = numpyro.distributions
>>> def model(x, y):
...     slope = numpyro.sample("slope", dist.Normal(0, 3))
...     with numpyro.plate("people", x.shape[0]):
...         numpyro.sample("y", dist.Bernoulli(logits=slope * x), obs=y)
>>> private = PrivateModel(model, epsilon=1.0)
>>> private.calibration({"x": np.zeros(5), "y": np.zeros(5)}).beta
2.0
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from onedraw._random import generator
from onedraw._validate import positive, probability
from onedraw.errors import InvalidInput
from onedraw.estimators.discreet import silent
from onedraw.ledger import Ledger
from onedraw.model import SitesModel
from onedraw.nn.mechanism import ChainSampler, chain_assumptions, priced
from onedraw.nn.observed import DeclaredDensity
from onedraw.nn.program import Program
from onedraw.privacy.calibration import Calibration, calibrate_loss
from onedraw.privacy.guarantee import Guarantee
from onedraw.release import Grid, Release, coefficient_step
from onedraw.samplers.nuts import NutsSampler, double_precision
from onedraw.types import AnyArray, Array, Neighbours


@dataclass(frozen=True, eq=False)
class PrivateModel:
    """A model with its privacy options; ``release`` draws from its private posterior.

    Args:
        model: a NumPyro model, called with the records and ``public`` as keyword arguments.
        epsilon, delta, beta, weight, neighbours, rows_per_person: as for ``onedraw.LogisticRegression``.
        public: further arguments of the model that were chosen without looking at the data.
        noise_floor: smallest scale of a Normal, StudentT or Laplace response; in the units of the response.
        noise_scale: a public guess of that scale, used only to choose beta.
        declared: bound and power integral of an observed distribution that is not known here.
        draws: how many draws to release, at most as many as the sampler has chains.
        sampler: the chains' settings.
        assume_sampler_error: as for ``onedraw.MLPClassifier``.
        probes: public records whose losses the convergence diagnostics watch; without them they watch the
            latent sites themselves, which suits models whose parameters are identified.
        ledger, dataset: where the release is charged, before anything is drawn.
    """

    model: Callable[..., Any]
    _: KW_ONLY
    epsilon: float
    delta: float = 0.0
    beta: float | str = "auto"
    weight: float | None = None
    neighbours: Neighbours = "replace_one"
    rows_per_person: int = 1
    public: Mapping[str, Any] = field(default_factory=dict)
    noise_floor: float | None = None
    noise_scale: float | None = None
    declared: DeclaredDensity | None = None
    draws: int = 1
    sampler: ChainSampler = field(default_factory=NutsSampler)
    assume_sampler_error: float = 0.0
    probes: Mapping[str, Any] | None = None
    ledger: Ledger | None = None
    dataset: str | None = None
    _programs: dict[Any, Program] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        probability(assume_sampler_error=self.assume_sampler_error)
        if self.noise_floor is not None:
            positive(noise_floor=self.noise_floor)
        if (self.ledger is None) != (self.dataset is None):
            raise InvalidInput(
                "Expected ledger and dataset together: the ledger holds the budget, and dataset names whose "
                "it is. Give both, or neither."
            )

    # -- before any data are used

    def program(self, records: Mapping[str, Any]) -> Program:
        """The model taken apart; of the records only names, shapes and types are read."""
        arrays = _columns(records)
        key = tuple((name, value.shape[1:], value.dtype.str) for name, value in arrays.items())
        if key not in self._programs:
            self._programs[key] = Program(
                self.model, arrays, self.public, noise_floor=self.noise_floor, declared=self.declared
            )
        return self._programs[key]

    def calibration(self, records: Mapping[str, Any]) -> Calibration:
        """Beta and weight, from the observed distribution's certificate; no value of the records is read."""
        calibration = calibrate_loss(
            self.program(records).law.loss,
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            rows_per_person=self.rows_per_person,
            draws=self.draws,
            beta=self.beta,
            weight=self.weight,
            noise_scale=self.noise_scale,
        )
        if calibration.draws > self.sampler.chains:
            raise InvalidInput(
                f"Expected at most as many draws as chains ({self.sampler.chains}), got draws={self.draws}: "
                "draws of one chain are not independent. Raise the sampler's chains."
            )
        return calibration

    def guarantee(self, records: Mapping[str, Any]) -> Guarantee:
        """What a release promises."""
        return priced(self.calibration(records).guarantee, self.assume_sampler_error)

    def target(self, records: Mapping[str, Any]) -> ProgramPosterior:
        """The posterior of the records. Private."""
        arrays = _checked(records)
        calibration = self.calibration(arrays)
        probes = None if self.probes is None else _checked(self.probes)
        return ProgramPosterior(
            program=self.program(arrays), calibration=calibration, records=arrays, probes=probes
        )

    # -- the release

    def release(self, records: Mapping[str, Any], *, random_state: Any = None) -> Release:
        """Draw from the private posterior of the records and keep only the release.

        Args:
            records: the private columns by the name that the model knows them by, the response among them;
                arrays with one row per record.
            random_state: None draws from the operating system's secure source; a seed is for tests.
        """
        guarantee = self.guarantee(records)
        if self.ledger is not None and self.dataset is not None:
            # Before any value is read: who has no budget left learns nothing from errors about the data.
            self.ledger.check_affordable(self.dataset, guarantee)
        target = self.target(records)
        self.sampler.check(target)
        rng, seeded = generator(random_state)
        receipt = None
        if self.ledger is not None and self.dataset is not None:
            # Charge first: if sampling fails, budget is lost but no release goes unrecorded.
            receipt = self.ledger.charge(self.dataset, guarantee, mechanism=type(self).__name__).to_dict()
        with silent():
            draws = self.sampler.sample(target, guarantee.draws, rng)
            values = target.constrained(draws.values)
        grid = Grid(coefficient=coefficient_step(1.0))
        return Release(
            model=SitesModel(sites=target.program.sites),
            draws=tuple(tuple(row) for row in grid.round(values).tolist()),
            grid=grid,
            mechanism=self._description(target.calibration),
            guarantee=guarantee,
            assumptions=self._assumptions(guarantee),
            evidence=draws.evidence,
            seeded=seeded,
            num_records=target.num_records if guarantee.num_records_is_public else None,
            receipt=receipt,
        )

    def _description(self, calibration: Calibration) -> dict[str, str | float | None]:
        return {
            "name": "numpyro_posterior_sample",
            "loss": "BetaDivergence",
            "family": calibration.family,
            "beta": calibration.beta,
            "weight": calibration.weight,
            "noise_floor": self.noise_floor,
            "density_bound": None if self.declared is None else float(self.declared.bound),
            "sampler_error": float(self.assume_sampler_error),
        }

    def _assumptions(self, guarantee: Guarantee) -> tuple[str, ...]:
        rows = self.rows_per_person
        lines = ["Each person holds one row." if rows == 1 else f"Each person holds at most {rows} rows."]
        lines.append(
            "The model, its prior, its public arguments, the names and shapes of the columns, and every "
            "option were chosen without looking at the data."
        )
        if guarantee.num_records_is_public:
            lines.append("The number of rows is public.")
        lines.append("The running time of the fit is not observed by an attacker.")
        if self.noise_floor is not None:
            lines.append(f"A scale of the response below noise_floor={self.noise_floor:g} counted as that.")
        if self.declared is not None:
            lines.append(
                f"The density of the response never exceeds the declared bound {self.declared.bound:g}, and "
                "its power integral is as declared. (Otherwise the loss is not the intended one; the privacy "
                "guarantee holds all the same.)"
            )
        return (*lines, *chain_assumptions(self.assume_sampler_error))


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramPosterior:
    """The posterior of one data set, for the sampler. Private."""

    program: Program
    calibration: Calibration
    records: Mapping[str, AnyArray]
    probes: Mapping[str, AnyArray] | None

    @property
    def num_records(self) -> int:
        return len(next(iter(self.records.values())))

    @property
    def dim(self) -> int:
        return self.program.dim

    @property
    def density(self) -> Any:
        return self.program

    @property
    def data(self) -> dict[str, Any]:
        """Arrays for ``density``."""
        calibration = self.calibration
        bounds = self.program.law.loss.loss_bounds(calibration.beta)
        return {
            "records": dict(self.records),
            "bounds": np.array([bounds.lower, bounds.upper]),
            "beta": np.asarray(calibration.beta),
            "weight": np.asarray(calibration.weight),
            "table": self.program.law.table(calibration.beta),
        }

    def initial(self, num: int, rng: np.random.Generator) -> Array:
        """Draws from the prior."""
        with double_precision():
            return np.stack(
                [self.program.flat_prior_draw(int(seed)) for seed in rng.integers(0, 2**31, size=num)]
            )

    def monitored(self, positions: Array) -> Array:
        """Losses of the public probes, or the latent sites themselves."""
        if self.probes is None:
            return positions
        jax, probes = importlib.import_module("jax"), dict(self.probes)
        data = {**self.data, "records": None}
        with double_precision():
            losses = jax.jit(jax.vmap(lambda theta: self.program.losses(theta, probes, data)))
            return np.asarray(losses(positions))

    def constrained(self, positions: Array) -> Array:
        """Latent sites as the model sees them, (k, p), in the order of the program."""
        with double_precision():
            rows = []
            for theta in positions:
                found = self.program.constrain(theta)
                rows.append(np.concatenate([np.ravel(found[name]) for name, _ in self.program.sites]))
        return np.array(rows, dtype=np.float64)


def _checked(records: Mapping[str, Any]) -> dict[str, AnyArray]:
    """Columns as arrays of finite numbers. Errors quote names only."""
    arrays = _columns(records)
    for name, value in arrays.items():
        if not np.isfinite(value).all():
            raise InvalidInput(f"Expected finite numbers in column {name!r}. Remove or impute the others.")
    return arrays


def _columns(records: Mapping[str, Any]) -> dict[str, AnyArray]:
    """Columns as arrays of numbers of one length; no value decides anything here."""
    if not records:
        raise InvalidInput("Expected records by name, for example {'x': X, 'y': y}, got none.")
    arrays = {name: np.asarray(value) for name, value in records.items()}
    for name, value in arrays.items():
        if value.dtype.kind not in "fiub" or value.ndim == 0:
            raise InvalidInput(
                f"Expected column {name!r} to be an array of numbers with one row per record. Encode text "
                "as numbers first; pass constants as public=..."
            )
    if len({len(value) for value in arrays.values()}) > 1:
        raise InvalidInput(f"Expected columns {sorted(arrays)} of one length, one row per record.")
    wide = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.bool_}
    return {name: value.astype(wide[value.dtype.kind]) for name, value in arrays.items()}
