# SPDX-License-Identifier: Apache-2.0
"""Any NumPyro model with one observed site, released as one private draw of its latent sites.

``PrivateModel`` is an adapter of ``onedraw.publishing``: it takes the model apart (``onedraw.nn.program``),
plans from the names, shapes and types of the columns, and hands a way to read them to ``publish``. The draw
itself, and its guarantee, are ``onedraw.nn.ProgramDraw``'s.

Guarantee:
    As for ``ProgramDraw``. A budget that cannot pay is refused before any value is read.

>>> import numpy as np, pytest
>>> numpyro = pytest.importorskip("numpyro"); _ = pytest.importorskip("blackjax")
>>> dist = numpyro.distributions
>>> def model(x, y):
...     slope = numpyro.sample("slope", dist.Normal(0, 3))
...     with numpyro.plate("people", x.shape[0]):
...         numpyro.sample("y", dist.Bernoulli(logits=slope * x), obs=y)
>>> plan = PrivateModel(model, epsilon=1.0).plan({"x": np.zeros(5), "y": np.zeros(5)})
>>> plan.mechanism.calibrated.beta, plan.model.sites
(2.0, (('slope', ()),))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from onedraw._progress import showing
from onedraw._validate import positive
from onedraw.errors import InvalidInput
from onedraw.ledger import Ledger
from onedraw.mechanisms import Mechanism, Shape
from onedraw.model import SitesModel
from onedraw.nn.columns import Columns, Outline
from onedraw.nn.observed import DeclaredDensity
from onedraw.nn.program import Program
from onedraw.nn.program_draw import ProgramDraw
from onedraw.privacy import Request
from onedraw.private import Private
from onedraw.publishing import Plan, make_plan, publish
from onedraw.registry import AUTO, choose
from onedraw.release import Release
from onedraw.types import Neighbours

CHOSEN_BLINDLY = (
    "The model, its prior, its public arguments, the names and shapes of the columns, and every option were "
    "chosen without looking at the data."
)


@dataclass(frozen=True, eq=False)
class PrivateModel:
    """A NumPyro model with its privacy options; ``release`` draws from its private posterior.

    Args:
        model: a NumPyro model, called with the records and ``public`` as keyword arguments.
        epsilon, delta, neighbours, rows_per_person: as for ``onedraw.LogisticRegression``.
        mechanism: "auto", or an ``onedraw.nn.ProgramDraw`` with options of its own, such as
            ``ProgramDraw(beta=1.5, sampler=...)``.
        public: further arguments of the model that were chosen without looking at the data.
        noise_floor: smallest scale of a Normal, StudentT or Laplace response; in the units of the response.
        declared: bound and power integral of an observed distribution that is not known here.
        draws: how many draws to release, at most as many as the sampler has chains.
        ledger, dataset: where the release is charged, before anything is drawn.
    """

    model: Callable[..., Any]
    _: KW_ONLY
    epsilon: float
    delta: float = 0.0
    neighbours: Neighbours = "replace_one"
    rows_per_person: int = 1
    mechanism: str | Mechanism = AUTO
    public: Mapping[str, Any] = field(default_factory=dict)
    noise_floor: float | None = None
    declared: DeclaredDensity | None = None
    draws: int = 1
    ledger: Ledger | None = None
    dataset: str | None = None
    _programs: dict[Outline, Program] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._request()
        if self.noise_floor is not None:
            positive(noise_floor=self.noise_floor)

    def plan(self, records: Mapping[str, Any]) -> Plan:
        """What a release of such records would hold, promise and be charged.

        Reads names, shapes and types of the columns only. The number of rows counts where it is public.
        """
        columns = Columns.read(records)
        program, request = self._program(columns.outline), self._request()
        shape = Shape(model=SitesModel(sites=program.sites), num_records=len(columns))
        mechanism, reason = choose(self.mechanism, request, shape)
        if isinstance(mechanism, ProgramDraw):
            if mechanism.program is not None:
                raise InvalidInput(
                    "Expected ProgramDraw(...) without a program: PrivateModel fills in its own model."
                )
            mechanism = replace(mechanism, program=program)
        return make_plan(request, mechanism, shape, blindly=CHOSEN_BLINDLY, reason=reason)

    def release(self, records: Mapping[str, Any], *, random_state: Any = None) -> Release:
        """Draw from the private posterior of the records and keep only the release.

        Args:
            records: the private columns by the name that the model knows them by, the response among them;
                arrays with one row per record.
            random_state: None draws from the operating system's secure source; a seed is for tests.
        """
        with showing():
            return publish(
                self.plan(records),
                lambda: Private(Columns.read(records)),
                ledger=self.ledger,
                dataset=self.dataset,
                random_state=random_state,
            )

    def _request(self) -> Request:
        return Request(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            rows_per_person=self.rows_per_person,
            draws=self.draws,
        )

    def _program(self, outline: Outline) -> Program:
        """The model taken apart for such columns, once: compiled code is found by a program's identity."""
        if outline not in self._programs:
            self._programs[outline] = Program(
                self.model, outline, self.public, noise_floor=self.noise_floor, declared=self.declared
            )
        return self._programs[outline]
