# SPDX-License-Identifier: Apache-2.0
"""Draws of NumPyro models, set up to be audited on a logistic regression that is written as one.

``program_draw`` has one latent site, a slope, so that its posterior is known at every point of a line: the
laws are those that the program itself states, searched for the worst pair and attacked by chains of their
own. ``program_draw:outside`` is what ``publish`` lets out, attacked with a learned score as if nothing were
known of it. Both need the extra for NumPyro, which is imported when they are calibrated.

>>> import numpy as np, pytest
>>> _ = pytest.importorskip("numpyro"), pytest.importorskip("blackjax")
>>> subject = PROGRAMS[0]
>>> stated = subject.stated(subject.calibrated(epsilon=1.0))
>>> records = Records(features=np.ones((3, 1)), response=np.ones(3))
>>> bool(np.diff(stated.posterior(records).log_density(np.array([[0.0], [1.0]])))[0] > 0)
True
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onedraw.audit.subjects.networks import PRIOR_SCALE, one_chain_per_round
from onedraw.audit.subjects.subject import Subject
from onedraw.mechanisms import Shape
from onedraw.model import RegressionModel, SitesModel
from onedraw.nn import NutsSampler, ProgramDraw
from onedraw.nn.columns import Columns
from onedraw.nn.program import Program, numpyro_modules
from onedraw.nn.program_draw import ProgramPosterior
from onedraw.priors import Prior
from onedraw.privacy.guarantee import Guarantee
from onedraw.private import Withheld
from onedraw.records import Records
from onedraw.samplers.nuts import double_precision
from onedraw.types import Array

STEEP = 5.0
"""A feature by which the sign of the slope alone decides the loss of its record, nearly all or nothing."""
MANY_CHAINS: dict[str, Any] = {"warmup": 300, "kept": 24, "min_ess": 10.0, "max_rhat": 1.3}
"""Of an attack: hundreds of chains, which are compared with one another."""
TWO_CHAINS: dict[str, Any] = {
    "chains": 2,
    "warmup": 150,
    "kept": 32,
    "min_ess": 1e-3,
    "max_rhat": math.inf,
    "max_divergent": 1.0,
    "min_bfmi": 0.0,
}
"""Of a release among thousands: short, and never withheld, as that would tell of the data by itself."""


def logistic(width: int, intercept: bool) -> Callable[..., Any]:
    """Logistic regression with normal priors, as a NumPyro model of columns ``x`` and ``y``."""
    parts = numpyro_modules()
    sample, law = parts.numpyro.sample, parts.distributions

    def model(x: Any, y: Any) -> None:
        slope = sample("slope", law.Normal(0.0, PRIOR_SCALE).expand([width]).to_event(1))
        eta = x @ slope
        if intercept:
            eta = eta + sample("intercept", law.Normal(0.0, PRIOR_SCALE))
        with parts.numpyro.plate("people", x.shape[0]):
            sample("y", law.Bernoulli(logits=eta), obs=y)

    return model


@functools.lru_cache(maxsize=8)
def taken_apart(width: int, intercept: bool) -> Program:
    """The model, taken apart once: compiled code is found by a program's identity."""
    empty = Records(features=np.zeros((0, width)), response=np.zeros(0))
    return Program(logistic(width, intercept), as_columns(empty).outline, {})


def as_columns(records: Records) -> Columns:
    """Features and response by the names that the model knows them by."""
    return Columns(arrays={"x": records.features, "y": records.response})


@functools.lru_cache(maxsize=8)
def _evaluated(program: Program) -> Any:
    """The log density of the program at many positions, compiled."""
    jax = importlib.import_module("jax")
    return jax.jit(jax.vmap(program, in_axes=(0, None)))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StatedPosterior(Withheld):
    """A program's posterior with its density at any position, for sampler and quadrature alike."""

    of: ProgramPosterior
    prior: Prior

    @property
    def dim(self) -> int:
        return self.of.dim

    @property
    def density(self) -> Program:
        return self.of.density

    @property
    def data(self) -> dict[str, Any]:
        """Arrays for ``density``."""
        return self.of.data

    def initial(self, num: int, rng: np.random.Generator) -> Array:
        """Draws from the prior."""
        return self.of.initial(num, rng)

    def monitored(self, positions: Array) -> Array:
        """The latent sites themselves."""
        return self.of.monitored(positions)

    def log_density(self, positions: Array) -> Array:
        """What the chains see, (m,), at positions (m, p); normal sites are their own coordinates."""
        with double_precision():
            return np.asarray(_evaluated(self.density)(positions, self.data))


@dataclass(frozen=True, kw_only=True)
class StatedProgram:
    """A draw of a program as exact audits see a mechanism: on tables, with posteriors that have a density."""

    mechanism: ProgramDraw
    model: RegressionModel

    @property
    def guarantee(self) -> Guarantee:
        """What is claimed."""
        return self.mechanism.guarantee

    @property
    def drawn_by(self) -> Any:
        """The sampler."""
        return self.mechanism.drawn_by

    def posterior(self, records: Records) -> StatedPosterior:
        """The posterior of the records, which may not leave."""
        found = self.mechanism.posterior(as_columns(records))
        return StatedPosterior(of=found, prior=Prior(scale=PRIOR_SCALE))


@dataclass(frozen=True, kw_only=True)
class ProgramSubject(Subject):
    """The draw of a program. With ``from_outside`` its releases are attacked as if no law were known."""

    from_outside: bool = False
    papers_pair: bool = True

    def _shaped(self, mechanism: Any, model: Any) -> tuple[Any, Shape]:
        program = taken_apart(model.num_features, model.fit_intercept)
        return replace(mechanism, program=program), Shape(model=SitesModel(sites=program.sites))

    def stated(self, mechanism: Any) -> StatedProgram | None:
        """The posterior of a line, unless the attack is from outside."""
        return None if self.from_outside else StatedProgram(mechanism=mechanism, model=self.model)

    def read(self, records: Records) -> Columns:
        """By name."""
        return as_columns(records)


PROGRAMS = (
    ProgramSubject(
        name="program_draw",
        build=lambda model: ProgramDraw(sampler=NutsSampler(**MANY_CHAINS)),
        fitted=lambda model: ProgramDraw(),
        spread=3.0,
        for_rounds=one_chain_per_round,
        slowness=20,
    ),
    ProgramSubject(
        name="program_draw:outside",
        build=lambda model: ProgramDraw(sampler=NutsSampler(**TWO_CHAINS)),
        fitted=lambda model: ProgramDraw(),
        spread=3.0,
        from_outside=True,
        size=STEEP,
        slowness=4,
    ),
)
"""In the order of the tables."""
