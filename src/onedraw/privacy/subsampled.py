# SPDX-License-Identifier: Apache-2.0
"""How much noise repeated noisy sums need: the Poisson-subsampled Gaussian mechanism, accounted.

One step takes every record with probability q, independently, adds up vectors of Euclidean length at most C,
one of each record taken, and publishes the sum with N(0, (z C)^2) noise in every coordinate; the next step's
vectors may depend on everything published so far. T steps with *noise multiplier* z cost no more than T steps
of telling apart one pair of laws on the line, which the privacy-loss-distribution accountant of dp-accounting
composes numerically, rounding the privacy loss up.

Guarantee:
    With m rows a person, r = 1 - (1 - q)^m, f(t) = N(t, (z/m)^2), a step is dominated by the pair

        add/remove:   (1 - r) f(0) + r f(1)   and   f(0), in both orders,
        replace-one:  (1 - r) f(0) + r f(1)   and   (1 - r) f(0) + r f(-1).

    *Proof.* Condition on which rows of other people are taken: hockey-stick divergences are jointly convex
    and Gaussians move with their mean, so the other rows' sum may be taken as 0. In units of z C a data set
    then gives P = sum_J p_J N(g_J, I), J the person's rows taken and |g_J| <= |J|/z, a row that is not there
    counting as one with vector 0; its neighbour gives Q = sum_J p_J N(h_J, I), all h_J = 0 under add/remove.
    Take any set S and let Phi(t) be its mass under N(0, I). Among the sets of that mass a half-space has most
    mass under N(g, I), and least under N(-g, I) [Neyman & Pearson]:

        N(g, I)(S) <= Phi(t + |g|),     N(h, I)(S) >= Phi(t - |h|),

    so P(S) - a Q(S) <= (1 - r)(1 - a) Phi(t) + r Phi(t + m/z) - a r Phi(t - m/z), since a person is taken at
    all with probability r and at most m rows are. The right side is what the pair above gives the half-line
    of mass Phi(t). (Add/remove: the same with |h| = 0, and with P and Q exchanged.) So for every a >= 0 the
    divergence sup_S P(S) - a Q(S) is at most the pair's, given any past; and such pairs compose
    [Zhu, Dong & Wang 2022]. []

For one row a person the pair is attained, at every a, by records whose vectors are +-C along one axis. For
several rows it is too cautious, as m rows seldom come together: at m = 2 and q = 0.2 by about half of
epsilon.

Edge cases:
    q = 1 is the Gaussian mechanism: the curve of mu = c m sqrt(T)/z, c = 2 under replace-one and 1 else.
    The accountant's Fourier transforms resolve no probability below about 1e-13, so delta < 1e-10 is refused.

>>> import pytest; _ = pytest.importorskip("dp_accounting")
>>> plan = Sampling(rate=0.1, steps=150)
>>> round(noise_multiplier(2.0, 1e-5, plan, "add_remove"), 1)
2.7
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from scipy import optimize

from onedraw._extras import optional
from onedraw._validate import positive, whole
from onedraw.errors import CalibrationError, InvalidInput
from onedraw.privacy.gaussian import gaussian_parameter
from onedraw.types import Neighbours

SMALLEST_DELTA = 1e-10
"""Below it, rounding errors of the accountant's Fourier transforms are no longer negligible."""
TOLERANCE = 1e-3
"""The noise multiplier is at most about this much larger, relatively, than the accountant would allow."""
ACCURACY = 2e-3
"""The accountant's grid is chosen so that its rounding adds about this share to epsilon."""
COARSEST = 1e-3


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Every record joins each of ``steps`` batches with probability ``rate``. Public numbers."""

    rate: float
    steps: int
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        positive(rate=self.rate)
        whole(steps=self.steps)
        whole(rows_per_person=self.rows_per_person)
        if self.rate > 1.0:
            raise InvalidInput(f"Expected a sampling rate <= 1, got rate={self.rate!r}.")

    @property
    def person_rate(self) -> float:
        """The probability that any row of a person is taken, 1 - (1 - rate)^rows."""
        if self.rows_per_person == 1 or self.rate == 1.0:
            return self.rate
        return -math.expm1(self.rows_per_person * math.log1p(-self.rate))


def spent_epsilon(
    multiplier: float,
    delta: float,
    sampling: Sampling,
    neighbours: Neighbours,
    *,
    interval: float = COARSEST,
) -> float:
    """The epsilon at ``delta`` of all steps together, rounded up; privacy losses on a grid of ``interval``.

    >>> import pytest; _ = pytest.importorskip("dp_accounting")
    >>> full = Sampling(rate=1.0, steps=4)
    >>> round(spent_epsilon(2.0 / 0.2681, 1e-5, full, "add_remove"), 3)      # mu = sqrt(4) 0.2681/2
    1.0
    """
    library, pld = _modules()
    relation = {
        "replace_one": library.NeighboringRelation.REPLACE_ONE,
        "add_remove": library.NeighboringRelation.ADD_OR_REMOVE_ONE,
    }[neighbours]
    noise = library.GaussianDpEvent(positive(noise_multiplier=multiplier) / sampling.rows_per_person)
    step = library.PoissonSampledDpEvent(sampling.person_rate, noise)
    accountant = pld.PLDAccountant(relation, value_discretization_interval=interval)
    accountant.compose(library.SelfComposedDpEvent(step, sampling.steps))
    return float(accountant.get_epsilon(delta))


@functools.lru_cache(maxsize=256)
def noise_multiplier(epsilon: float, delta: float, sampling: Sampling, neighbours: Neighbours) -> float:
    """The smallest noise, in multiples of the clipping norm, that makes all steps (epsilon, delta)-private.

    Rounded up: the accountant confirms the answer.
    """
    positive(epsilon=epsilon)
    if not SMALLEST_DELTA <= delta < 1.0:
        raise CalibrationError(
            f"Expected delta between {SMALLEST_DELTA:g} and 1, got delta={delta:g}: the accountant of "
            "subsampled Gaussian noise resolves no smaller probability. For example delta=1e-6.",
            requested=epsilon,
        )
    # The rounding of the loss to a grid of this spacing adds about steps * spacing^2 to epsilon.
    interval = min(COARSEST * max(1.0, epsilon), math.sqrt(ACCURACY * epsilon / sampling.steps))

    def excess(log_multiplier: float) -> float:
        multiplier = math.exp(log_multiplier)
        spent = spent_epsilon(multiplier, delta, sampling, neighbours, interval=interval)
        return min(math.log(max(spent, 1e-9) / epsilon), 50.0)

    high = math.log(_guess(epsilon, delta, sampling, neighbours))
    if excess(high) > 0.0:
        low, high = high, high + 0.25
        while excess(high) > 0.0:
            low, high = high, high + 0.5
    else:
        low = high - 0.25
        while excess(low) <= 0.0:
            low, high = low - 0.25, low
    found = optimize.brentq(excess, low, high, xtol=0.5 * TOLERANCE)
    while excess(found) > 0.0:
        found += 0.5 * TOLERANCE
    return math.exp(found)


def _guess(epsilon: float, delta: float, sampling: Sampling, neighbours: Neighbours) -> float:
    """The central limit theorem's answer [Bu, Dong, Long & Su 2020]: a good place to start the search."""
    moved = 2.0 if neighbours == "replace_one" else 1.0
    mu = gaussian_parameter(epsilon, delta) / moved
    per_step = mu / (sampling.person_rate * math.sqrt(sampling.steps))
    return sampling.rows_per_person / math.sqrt(math.log1p(per_step * per_step))


@functools.cache
def _modules() -> tuple[Any, Any]:
    """dp-accounting, imported on first use."""
    what = "The accountant of subsampled Gaussian noise"
    return optional("dp_accounting", what, "jax"), optional("dp_accounting.pld", what, "jax")
