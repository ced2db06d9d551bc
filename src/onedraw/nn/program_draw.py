# SPDX-License-Identifier: Apache-2.0
"""Release draws of the latent sites of a NumPyro model, under the beta-divergence loss of its observed site.

The observed log-likelihood is replaced by the beta-divergence loss of the observed distribution, weighted so
that a draw from the resulting posterior is private; every latent site is released, in the model's own units.

Guarantee:
    That of one draw from prior * exp(-weight * sum of losses): epsilon = 2 w S under replace-one, w R under
    add/remove, with the certificate of the observed distribution [``onedraw.losses.beta_divergence``], given
    that the chains have converged; ``onedraw.nn.chain_draw`` has the price of an error of theirs.
    ``onedraw.nn.program`` says why no program can break it.

Edge cases:
    n = 0 releases a draw from the prior. A scale below the program's ``noise_floor`` is read as the floor by
    the loss, and released as it is. Deterministic sites may contain data and are not released.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.losses import Loss
from onedraw.mechanisms.base import Requirements
from onedraw.model import SitesModel
from onedraw.nn.chain_draw import ChainDraw
from onedraw.nn.columns import Columns
from onedraw.nn.program import Program
from onedraw.private import Withheld
from onedraw.release import Grid, coefficient_step
from onedraw.samplers.nuts import double_precision
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ProgramPosterior(Withheld):
    """The posterior of a program given private columns, for the sampler; it shows none of them."""

    program: Program
    beta: float
    weight: float
    columns: Columns
    probes: Columns | None = None

    @property
    def dim(self) -> int:
        return self.program.dim

    @property
    def density(self) -> Program:
        return self.program

    @property
    def data(self) -> dict[str, Any]:
        """Arrays for ``density``."""
        bounds = self.program.law.loss.loss_bounds(self.beta)
        return {
            "records": dict(self.columns.arrays),
            "bounds": np.array([bounds.lower, bounds.upper]),
            "beta": np.asarray(self.beta),
            "weight": np.asarray(self.weight),
            "facts": self.program.law.facts(self.beta),
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
        jax, probes = importlib.import_module("jax"), dict(self.probes.arrays)
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


@dataclass(frozen=True, kw_only=True)
class ProgramDraw(ChainDraw):
    """Draws of the latent sites of a NumPyro model.

    Args:
        program: the model, taken apart; ``onedraw.PrivateModel`` fills it in.
        probes: public records, by name, whose losses the convergence diagnostics watch; without them they
            watch the latent sites themselves, which suits models whose parameters are identified.

    The others are those of every draw by chains: ``beta``, ``weight``, ``noise_scale``, ``sampler`` and
    ``assume_sampler_error`` (see ``onedraw.nn.chain_draw.ChainDraw``).
    """

    name: ClassVar[str] = "program_draw"
    requirements: ClassVar[Requirements] = Requirements(
        forms=(SitesModel.form,),
        delta="composition",
        draws="several",
        exact_draw=True,
        prefer="models of your own, written in NumPyro",
    )

    program: Program | None = None
    probes: Mapping[str, Any] | None = None

    def _check_options(self) -> None:
        super()._check_options()
        _ = self._program
        if self.probes is not None:
            Columns.read(self.probes).check_finite()

    def _check_model(self, model: SitesModel) -> None:
        super()._check_model(model)
        if self._program.declared is not None and self.beta == "auto":
            raise InvalidInput(
                "No public reference is known for a declared density, so no beta can be chosen: pass beta as "
                "a number, ProgramDraw(beta=...)."
            )
        if model.sites != self._program.sites:
            raise InvalidInput(
                "Expected a model with the latent sites of the program, got another one. Describe it by "
                "SitesModel(sites=program.sites)."
            )

    def check_records(self, records: Columns) -> None:
        """Refuse columns that are not those of the program, or hold what is not a number."""
        if records.outline != self._program.outline:
            raise InvalidInput(
                f"Expected columns of the names, shapes and types {self._program.outline}, got "
                f"{records.outline}. Plan again for these."
            )
        records.check_finite()

    @property
    def _program(self) -> Program:
        if self.program is None:
            raise InvalidInput(
                "ProgramDraw needs program=..., a NumPyro model taken apart. onedraw.PrivateModel(model, "
                "mechanism=ProgramDraw(...)) fills it in."
            )
        return self.program

    @property
    def _noise_scale(self) -> float | None:
        return self.noise_scale

    @property
    def loss(self) -> Loss:
        """The loss of one record."""
        return self._program.law.loss

    @property
    def grid(self) -> Grid:
        """2^-40 of one."""
        return Grid(coefficient=coefficient_step(1.0))

    def posterior(self, records: Columns) -> ProgramPosterior:
        """The posterior of the records, which may not leave."""
        return ProgramPosterior(
            program=self._program,
            beta=self.calibrated.beta,
            weight=self.calibrated.weight,
            columns=records,
            probes=None if self.probes is None else Columns.read(self.probes),
        )

    def _parameters(self, target: ProgramPosterior, positions: Array) -> Array:
        return target.constrained(positions)

    @property
    def own_assumptions(self) -> tuple[str, ...]:
        """What was read as something else, and what the chains leave to be assumed."""
        lines = []
        if self._program.noise_floor is not None:
            floor = f"noise_floor={self._program.noise_floor:g}"
            lines.append(f"A scale of the response below {floor} counted as that.")
        if self._program.declared is not None:
            lines.append(
                f"The density of the response never exceeds the declared bound "
                f"{self._program.declared.bound:g}, and its power integral is as declared. (Otherwise the "
                "loss is not the intended one; the privacy guarantee holds all the same.)"
            )
        return (*lines, *super().own_assumptions)

    def _numbers(self) -> Mapping[str, str | float | None]:
        declared = self._program.declared
        return {
            **super()._numbers(),
            "noise_floor": self._program.noise_floor,
            "density_bound": None if declared is None else float(declared.bound),
        }
