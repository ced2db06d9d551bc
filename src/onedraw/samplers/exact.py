# SPDX-License-Identifier: Apache-2.0
"""Exact draws by rejection from an envelope of t laws at the modes and the prior.

Guarantee:
    If C >= sup(log posterior - log envelope), an accepted proposal is an exact draw, whatever the envelope:
    accept with probability exp(log ratio - C). C comes from a global search plus a margin; a ratio above C
    raises C and discards everything drawn so far. So the guarantee of a draw is conditional: it holds if the
    search found every peak of the posterior. Evidence is ``searched``: the bound survived N fresh proposals,
    with N public, which is a check and no proof.

Edge cases:
    n = 0 draws from the prior. A log density that is not a number is an error, never a draw. Too low an
    acceptance is an error that names other kinds of evidence, never an approximate draw.

The envelope is fitted to the private data freely, because an exact draw does not depend on it. What it does
change is the running time, which must not be published (docs/pitfalls.md).

>>> import numpy as np
>>> from onedraw.families import Bernoulli
>>> from onedraw.losses import BetaDivergence
>>> from onedraw.posterior import Posterior
>>> from onedraw.priors import Prior
>>> rng = np.random.default_rng(0)
>>> x = rng.normal(size=(500, 1)); y = (rng.random(500) < 0.7).astype(float)
>>> posterior = Posterior(loss=BetaDivergence(Bernoulli()), beta=2.5, weight=0.75, prior=Prior(scale=3.0),
...                       features=x, response=y)
>>> RejectionSampler().sample(posterior, 4, rng).values.shape
(4, 2)
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from threadpoolctl import ThreadpoolController

from onedraw.advice import Do, Set
from onedraw.errors import AcceptanceTooLow
from onedraw.posterior import Posterior
from onedraw.samplers.base import Draws, Evidence, PosteriorFacts
from onedraw.samplers.few_scans import fitted_in_few_scans, is_worth_it
from onedraw.samplers.fitting import fit_envelope, gain_mode
from onedraw.samplers.modes import find_modes
from onedraw.types import Array

MAX_RESTARTS = 60
MAX_REBUILDS = 8
MISSED_NATS = (
    0.5  # a ratio this far above the bound points at a mode or a ridge that the envelope does not have
)
FEWEST_PROPOSALS, FEWEST_PER_DRAW, MOST_PROPOSALS = 50_000, 500, 5_000_000  # allowed
GIVE_UP_AFTER = 0.02
"""Of the proposals allowed: from there on, they must promise to be enough."""


@dataclass(frozen=True, kw_only=True)
class RejectionSampler:
    """Exact rejection sampling; ``num_proposals`` is the public number N of the evidence.

    ``margin`` (nats) is added to the largest log ratio that the search finds. ``max_cells`` limits rows
    times proposals before the sampler gives up.
    """

    evidence_level: ClassVar[str] = "searched"
    continuous: ClassVar[bool] = True

    num_proposals: int = 64
    margin: float = 0.05
    max_cells: float = 2e10

    def check(self, posterior: PosteriorFacts | Posterior) -> None:
        """Nothing public rules an attempt out."""

    def sample(self, posterior: Posterior, num_draws: int, rng: np.random.Generator) -> Draws:
        """``num_draws`` independent exact draws."""
        # The posterior runs its own threads over blocks too small for BLAS to gain from more.
        with _blas().limit(limits=1, user_api="blas"):
            return self._sample(posterior, num_draws, rng)

    def _sample(self, posterior: Posterior, num_draws: int, rng: np.random.Generator) -> Draws:
        found = fitted_in_few_scans(posterior, rng) if is_worth_it(posterior) else None
        if found is None:
            modes = find_modes(posterior, rng)
            found = modes, fit_envelope(posterior, modes, num_draws, rng)
        modes, (envelope, bound, acceptance, _) = found
        bound += self.margin
        accepted: list[Array] = []
        seen = proposals = kept = restarts = 0
        chances = 0.0  # summed over those rejected: when to give up must not depend on what was accepted
        fewest = max(FEWEST_PROPOSALS, FEWEST_PER_DRAW * num_draws)
        limit = min(max(fewest, self.max_cells / max(1, posterior.num_records)), MOST_PROPOSALS)
        while kept < num_draws or seen < self.num_proposals:
            hopeless = seen > GIVE_UP_AFTER * limit and (num_draws - kept) * seen > limit * max(kept, chances)
            if hopeless or proposals > limit or restarts > MAX_RESTARTS:
                raise _too_low(posterior.dim)
            wanted = max(
                self.num_proposals - seen, math.ceil(1.2 * (num_draws - kept) / max(acceptance, 1e-3))
            )
            thetas = envelope.sample(rng, int(min(max(wanted, 16), 1024)))
            ratio = posterior.log_density(thetas) - envelope.log_density(thetas)
            proposals += len(thetas)
            if ratio.max() > bound:
                # The search had missed this height: everything accepted under the old bound is discarded.
                accepted, seen, kept, chances, restarts = [], 0, 0, 0.0, restarts + 1
                excess, bound = float(ratio.max()) - bound, float(ratio.max()) + self.margin
                if excess > MISSED_NATS and restarts <= MAX_REBUILDS:
                    missed = thetas[[int(ratio.argmax())]]
                    gain_mode(posterior, modes, missed[0])
                    envelope, bound, acceptance, _ = fit_envelope(posterior, modes, num_draws, rng, missed)
                    bound += self.margin
                continue
            seen += len(thetas)
            chosen = -rng.standard_exponential(len(thetas)) < ratio - bound
            chances += float(np.exp(ratio[~chosen] - bound).sum())
            accepted.append(thetas[chosen])
            kept += int(chosen.sum())
            acceptance = max(kept / seen, 0.5 / seen)
        values = np.concatenate(accepted)[:num_draws]
        return Draws(
            values=values,
            evidence=_evidence(self.num_proposals),
            diagnostics={
                "acceptance": kept / seen,
                "proposals": proposals,
                "restarts": restarts,
                "passes": posterior.passes[0],
            },
        )


@functools.cache
def _blas() -> ThreadpoolController:
    """The libraries that NumPy and SciPy have loaded: looking for them takes longer than many a draw."""
    return ThreadpoolController()


def _evidence(num_proposals: int) -> Evidence:
    return Evidence(
        level="searched",
        statement=(
            "The draw is exact, and the guarantee holds, if the search found every peak of the posterior. It "
            "looked from many secret random starts, and the bound that it led to held in "
            f"{num_proposals} fresh proposals without exception. That is a check, not a proof: no "
            "probability can be given to a peak that neither the search nor a proposal came near."
        ),
    )


def _too_low(dim: int) -> AcceptanceTooLow:
    others = ("enumerated", "proved") if dim <= 3 else ()
    return AcceptanceTooLow(
        f"The exact rejection sampler found no envelope that fits this posterior of {dim} parameters, so "
        "nothing was released.",
        advice=[
            *(Set("evidence", other, of="OnePosterior") for other in others),
            Do("use fewer features or a larger epsilon"),
            Set("feature_bounds", note=" to bring the features to similar ranges"),
        ],
    )
