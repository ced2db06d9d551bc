# SPDX-License-Identifier: Apache-2.0
"""Draws whose law is known for every data set, from public proposals: rejection, atoms, enumeration.

phi is a public density to propose from (the prior, or one around a release already made), c > 0 a public
level, and s(theta) = min(1, g(theta)/(c phi(theta))), where g = prior exp(-w sum of (loss - its lower
bound)) is the posterior up to a constant. With kappa = ``defence``:

* ``rejection`` returns the first proposal that is defended (with probability kappa) or accepted (with s);
* ``atoms`` runs a chain with an artificial atom of mass kappa c for a geometric number of steps [Lee, Doucet
&
  Perron 2014; Seeman, Reimherr & Slavkovic 2021], and returns a proposal if it ends in the atom;
* ``enumerated`` draws N proposals and picks one, with probabilities proportional to g/phi.

Guarantee:
    No assumption is made about a sampler: these are the laws, on every data set.

    1. rejection: phi (kappa + (1 - kappa) s), normalised. atoms: phi (kappa + s), normalised.
    2. All are epsilon-DP (pure, of bounded range epsilon) with epsilon = 2 m w S under replace-one and m w R
    under
       add/remove, whatever phi, c, kappa and N are.
    3. ``rejection`` in exactly N rounds, with a fresh proposal if none of them returned, is
       (epsilon, (1 - kappa)^N)-DP. ``atoms`` in exactly N steps: (epsilon, (1 + e^epsilon) (1 -
       kappa/2)^(N+1)).

*Proofs.* (1) Rejection: each round returns with the same law, independently. Atoms: let K be the kernel that
moves by any P with invariant law proportional to phi s and then, with probability 1/2, tries a Metropolis
jump between theta and the atom a. It leaves phi s + kappa delta_a invariant, and K(x, {a}) >= kappa/2 =: k
for all x, as kappa/s >= kappa. So K = k delta_a + (1 - k) R for a kernel R, and the invariant law is the sum
over t of k (1 - k)^t R^t(a, .): start in a, and make a geometric number of steps of R. The atom is then
replaced by phi. (2) Between neighbours g moves by a factor within e^-mwS and e^mwS (replace-one), or within
e^-mwR and 1 (add/remove, in one direction: a loss less its lower bound is between 0 and R); so do s, kappa +
s, the integral over phi, and the weights g/phi at public points and their sum. A law is such a function over
its total: its log ratio stays in an interval of width 2 m w S, or m w R, around 0 at a distance of no more
than that. (3) Let q be the probability that a round returns, f = phi (kappa + (1 - kappa) s). What returns
in N rounds is the measure f (1 - (1 - q)^N)/q. f and q move by factors of at most e^(epsilon/2); (1 - (1 -
q)^N)/q falls with q, and q times it rises, so it moves by no more than 1/q does: by e^(epsilon/2). So the
returned part obeys epsilon, and the rest has mass (1 - q)^N <= (1 - kappa)^N. Atoms: cutting off a geometric
number of steps at N changes the law by at most t = (1 - k)^(N+1), and P + t <= e^epsilon P' + t <= e^epsilon
(cut P' + t) + t. []

Without the fixed number of rounds, running times depend on the data; a guarantee against who watches them
needs (3) [Awan & Rao 2023]. ``enumerated`` always takes the same time, at no delta; its law tends to the
posterior as N grows, where that of the others is the posterior itself wherever g <= c phi, but for the
defence.

>>> rng = np.random.default_rng(0)
>>> normal = StudentEnvelope(centre=np.zeros(1), scales=np.ones(1), prior=Prior(scale=3.0))
>>> normal.sample(5, rng).shape
(5, 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import special

from onedraw.priors import Prior
from onedraw.types import Array

BATCH = 256
FREEDOM = 5.0
PRIOR_SHARE = 0.1
LARGEST_COUNT = 10**9


class Envelope(Protocol):
    """A public density to propose from."""

    def sample(self, num: int, rng: np.random.Generator) -> Array: ...

    def log_density(self, thetas: Array) -> Array: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class PriorEnvelope:
    """Proposals from the prior."""

    prior: Prior
    dim: int

    def sample(self, num: int, rng: np.random.Generator) -> Array:
        """(num, p)."""
        return self.prior.sample(rng, num, self.dim)

    def log_density(self, thetas: Array) -> Array:
        """Normalised."""
        return self.prior.log_density(thetas)


@dataclass(frozen=True, kw_only=True, eq=False)
class StudentEnvelope:
    """A multivariate t law around a public centre, mixed with a little prior for what it might miss."""

    centre: Array
    scales: Array
    prior: Prior

    def sample(self, num: int, rng: np.random.Generator) -> Array:
        """(num, p)."""
        dim = len(self.centre)
        wide = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, size=(num, 1)))
        near = self.centre + self.scales * wide * rng.standard_normal((num, dim))
        far = self.prior.sample(rng, num, dim)
        return np.where(rng.random((num, 1)) < PRIOR_SHARE, far, near)

    def log_density(self, thetas: Array) -> Array:
        """Normalised."""
        dim = len(self.centre)
        square = np.square((thetas - self.centre) / self.scales).sum(axis=1)
        constant = math.lgamma(0.5 * (FREEDOM + dim)) - math.lgamma(0.5 * FREEDOM)
        constant -= 0.5 * dim * math.log(FREEDOM * math.pi) + float(np.log(self.scales).sum())
        near = constant - 0.5 * (FREEDOM + dim) * np.log1p(square / FREEDOM)
        mixed = np.logaddexp(
            math.log1p(-PRIOR_SHARE) + near, math.log(PRIOR_SHARE) + self.prior.log_density(thetas)
        )
        return np.asarray(mixed)


@dataclass(frozen=True, kw_only=True, eq=False)
class Acceptance:
    """log s of the module docstring; ``shift`` is n w times the lower bound of the loss."""

    target: Any
    envelope: Envelope
    log_level: float
    shift: float = 0.0

    def log_weight(self, thetas: Array) -> Array:
        """log g/phi, before the level and the cut."""
        return np.asarray(self.target.log_density(thetas) + self.shift - self.envelope.log_density(thetas))

    def __call__(self, thetas: Array) -> Array:
        """log s (m,)."""
        return np.asarray(np.minimum(0.0, self.log_weight(thetas) - self.log_level))


def rounds_for(defence: float, delta: float) -> int:
    """The fewest rounds N with (1 - defence)^N <= delta.

    >>> rounds_for(0.3, 1e-6)
    39
    """
    return math.ceil(math.log(delta) / math.log1p(-defence))


def steps_for(defence: float, epsilon: float, delta: float) -> int:
    """The fewest steps N of ``atoms`` with (1 + e^epsilon) (1 - defence/2)^(N + 1) <= delta."""
    log_error = math.log(delta) - float(np.logaddexp(0.0, epsilon))
    return max(1, math.ceil(log_error / math.log1p(-0.5 * defence)) - 1)


def rejection(
    accept: Acceptance, *, defence: float, rng: np.random.Generator, rounds: int | None = None
) -> Array:
    """A draw (p,); with ``rounds`` exactly so many proposals are looked at, whatever comes of them."""
    chosen: Array | None = None
    made, size = 0, BATCH
    while rounds is None or made < rounds:
        count = size if rounds is None else min(size, rounds - made)
        thetas = accept.envelope.sample(count, rng)
        defended = rng.random(count) < defence
        returned = defended | (np.log(1.0 - rng.random(count)) < accept(thetas))
        made += count
        if chosen is None and returned.any():
            chosen = thetas[int(returned.argmax())]
        if rounds is None and chosen is not None:
            break
    return accept.envelope.sample(1, rng)[0] if chosen is None else chosen


def atoms(
    accept: Acceptance,
    *,
    defence: float,
    scales: Array,
    rng: np.random.Generator,
    steps: int | None = None,
) -> Array:
    """A draw (p,) by the chain with an atom; with ``steps`` exactly so many are made, however few count."""
    half = 0.5 * defence
    # P(T = t) = half (1 - half)^t; 1 - random() is never 0.
    length = math.floor(min(math.log(1.0 - rng.random()) / math.log1p(-half), LARGEST_COUNT))
    counted = length if steps is None else min(length, steps)
    log_mass = math.log(defence)
    state: Array | None = None  # the atom
    ended: Array | None = None
    height = 0.0
    for step in range(counted if steps is None else steps):
        if step == counted:
            ended = state
        proposal = accept.envelope.sample(1, rng) if state is None else state[None, :]
        if state is not None:  # a Metropolis step on phi s
            proposal = proposal + scales * rng.standard_normal(scales.shape)
        log_s = float(accept(proposal)[0])
        if state is None:
            jump = 0.5 * math.exp(min(0.0, log_s - log_mass)) / (1.0 - half)
            if rng.random() < jump:
                state, height = proposal[0], log_s
            continue
        pair = accept.envelope.log_density(np.stack([proposal[0], state]))
        if math.log(1.0 - rng.random()) < log_s - height + float(pair[0] - pair[1]):
            state, height = proposal[0], log_s
        back = 0.5 * math.exp(min(0.0, log_mass - height))
        if rng.random() < (back - half) / (1.0 - half):
            state = None
    if steps is None or counted == steps:
        ended = state
    if steps is not None and length > steps:
        ended = None
    return accept.envelope.sample(1, rng)[0] if ended is None else ended


def enumerated(accept: Acceptance, *, proposals: int, rng: np.random.Generator) -> Array:
    """One (p,) of so many proposals, by the exponential mechanism."""
    thetas = accept.envelope.sample(proposals, rng)
    scores = np.concatenate(
        [accept.log_weight(thetas[first : first + BATCH]) for first in range(0, proposals, BATCH)]
    )
    # Gumbel noise from exponentials, which resolve its upper tail; the floor keeps it finite.
    noise = -np.log(np.maximum(rng.standard_exponential(proposals), 2.0**-54))
    return np.asarray(thetas[int((scores + noise).argmax())])


def mixture_log_density(accept: Acceptance, thetas: Array, *, defence: float, atom: bool = False) -> Array:
    """The log of what (1) of the module docstring says, up to a constant: what tests compare draws with."""
    log_s = accept(thetas)
    accepted = log_s if atom else math.log1p(-defence) + log_s
    with np.errstate(divide="ignore"):
        mixed = np.logaddexp(np.log(defence), accepted)
    return np.asarray(accept.envelope.log_density(thetas) + mixed)


def laplace(scale: float, rng: np.random.Generator) -> float:
    """A Laplace variable."""
    u = rng.random() - 0.5
    return float(-scale * math.copysign(1.0, u) * special.log1p(-2.0 * abs(u)))
