# SPDX-License-Identifier: Apache-2.0
"""Noise on a public grid, drawn exactly: whole numbers from random bits, without a floating-point number.

Noise that is computed in floating point and then rounded does not have its law on the grid. A uniform
number has 53 bits, so the tails of a Laplace variable are a few far-apart points: on a grid of 2^-40 of its
scale one output in eight thousand was impossible under the neighbouring data set. Here a statistic is a
vector of whole numbers (multiples of the step of the grid), and so is its noise: every point has a positive
probability under every data set, and the ratio of two of them is that of the formula.

Guarantee (lengths in steps of the grid, for statistics that are whole numbers):
    * ``discrete_laplace``, scale s: P(n) proportional to exp(-|n|/s) for each coordinate. If neighbours
      differ by at most D in L1, log probabilities differ by at most D/s: pure D/s-DP.
    * ``discrete_cube``, scale s: P(n) proportional to exp(-max|n_j|/s). The same for D in the largest
      entry.
    * ``discrete_gaussian``, variance v: P(n) proportional to exp(-n^2/(2 v)) for each coordinate. If
      neighbours differ by at most D in L2 and D/sqrt(v) <= ``gaussian_ratio``: (epsilon, delta)-DP.

*Proof* of the first two: the triangle inequality. *The sampler of the cube:* let R >= 0 be whole with P(R)
proportional to e^(-R/s) (2R + 1)^d, and n uniform on {-R, ..., R}^d; then P(n) is the sum over R >=
max|n_j| of e^(-R/s), a constant times e^(-max|n_j|/s). The sum of d + 1 independent G >= 0 with P(G)
proportional to e^(-G/s) has mass proportional to e^(-R/s) (R + 1) ... (R + d); accepting it with
probability (R + 1/2)/(R + j) for each j = 1, ..., d, all at most 1, gives P(R). The other samplers are
those of [Canonne, Kamath & Steinke 2020, algorithms 1 to 3].

*Proof for the Gaussian.* Let a' be the ratio of the normal law at eps' = (1 - SHARE) epsilon and delta' =
(1 - SHARE) delta, which its rounding keeps. A normal variable of variance v around a whole number, rounded,
is n away with probability proportional to E exp(-(n + u)^2/(2v)), u uniform on [-1/2, 1/2]: relative to the
discrete law E[exp(-u^2/(2v)) cosh(n u/v)], between exp(-1/(8v)) and exp(n^2/(8v^2)); the constants agree up
to a factor 1 + 3 exp(-2 pi^2 v) [Poisson summation], less than 1 + 1/(8v). So where all d coordinates are
within T sqrt(v), the two laws differ by a factor within exp(+-r), r = d (T^2 + 2)/(8v). For an event S let
S' be its part within T sqrt(v), T = 40 + a', of both means. P has mass at most 4 d e^-800 outside, so P(S)
<= 4 d e^-800 + e^r (e^eps' e^r Q(S') + delta'). That is at most e^epsilon Q(S) + delta if 2r <= SHARE
epsilon, which is checked, and d <= 1e6, delta >= 1e-300, as then 4 d e^-800 + e^r delta' <= delta. []

Edge cases:
    Nothing overflows: whole numbers have any size. A seeded generator gives the same numbers again.

>>> import numpy as np
>>> noise = discrete_laplace(Fraction(3), 5, np.random.default_rng(0))
>>> [type(n) for n in noise] == [int] * 5
True
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from onedraw.errors import CalibrationError
from onedraw.privacy.gaussian import gaussian_parameter
from onedraw.types import Array

SHARE = 2.0**-24
"""Of epsilon and delta, what the discrete Gaussian may cost beyond the normal law."""
REACH = 40.0
"""Standard deviations beyond which the discrete Gaussian has a mass of less than e^-800."""
UP = Fraction(1, 2**40)
"""What rounding may take from a scale that is computed in a few steps, and far more."""
HALF, ONE = Fraction(1, 2), Fraction(1)
BATCH = 1024


def discrete_laplace(scale: Fraction, size: int, rng: np.random.Generator) -> list[int]:
    """Whole numbers with P(n) proportional to exp(-|n|/scale)."""
    bits = _Bits(rng)
    return [bits.laplace(scale) for _ in range(size)]


def discrete_gaussian(variance: Fraction, size: int, rng: np.random.Generator) -> list[int]:
    """Whole numbers with P(n) proportional to exp(-n^2/(2 variance))."""
    bits = _Bits(rng)
    return [bits.gaussian(variance) for _ in range(size)]


def discrete_cube(scale: Fraction, size: int, rng: np.random.Generator) -> list[int]:
    """A vector of whole numbers with probability proportional to exp(-max|n_j|/scale)."""
    bits = _Bits(rng)
    while True:
        radius = sum(bits.exponential(scale) for _ in range(size + 1))
        if all(bits.coin(radius + HALF, radius + j) for j in range(1, size + 1)):
            return [bits.below(2 * radius + 1) - radius for _ in range(size)]


def on_grid(values: Array, step: float, noise: list[int]) -> Array:
    """Values moved to the nearest multiples of ``step``, by half a step at most each, plus noise."""
    places = [int(place) for place in np.rint(values / step)]
    return np.array([float(place + more) * step for place, more in zip(places, noise, strict=True)])


def rounded_up(value: float) -> Fraction:
    """A fraction no less than a computed number whose last bits are uncertain."""
    return Fraction(value) * (1 + UP)


def gaussian_ratio(epsilon: float, delta: float, *, dim: int, length: float) -> float:
    """How large D/sqrt(v) may be for discrete Gaussian noise on ``dim`` numbers; ``length`` is D in steps."""
    ratio = gaussian_parameter((1.0 - SHARE) * epsilon, (1.0 - SHARE) * delta)
    apart = 2.0 * dim * ((REACH + ratio) ** 2 + 2.0) / (8.0 * (length / ratio) ** 2)
    if apart > SHARE * min(1.0, epsilon) or dim > 1e6 or delta < 1e-300:
        raise CalibrationError(
            f"The grid is too coarse for Gaussian noise of epsilon={epsilon:g}, delta={delta:g} on {dim} "
            "numbers. Use fewer features, or a larger epsilon and delta.",
            requested=epsilon,
        )
    return ratio


class _Bits:
    """Exact events and whole numbers from the random bits of a generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._held, self._used = rng, b"", 0

    def _bytes(self, count: int) -> bytes:
        """Random bytes, each used once; a call of the generator for each would take most of the time."""
        if self._used + count > len(self._held):
            self._held, self._used = self._rng.bytes(max(count, BATCH)), 0
        self._used += count
        return self._held[self._used - count : self._used]

    def below(self, limit: int) -> int:
        """Uniform on 0, ..., limit - 1."""
        size = (limit - 1).bit_length()
        while True:
            value = int.from_bytes(self._bytes((size + 7) // 8), "little") >> (-size % 8)
            if value < limit:
                return value

    def coin(self, heads: Fraction | int, of: Fraction | int) -> bool:
        """True with probability heads/of."""
        chance = Fraction(heads) / of
        return self.below(chance.denominator) < chance.numerator

    def exp(self, rate: Fraction) -> bool:
        """True with probability exp(-rate), rate >= 0."""
        while rate > 1:
            if not self.exp(ONE):
                return False
            rate -= 1
        top, bottom, k = rate.numerator, rate.denominator, 1
        while self.below(bottom * k) < top:
            k += 1
        return k % 2 == 1

    def exponential(self, scale: Fraction) -> int:
        """P(n) proportional to exp(-n/scale), n >= 0."""
        top, bottom = scale.numerator, scale.denominator
        while True:
            part = self.below(top)
            if self.exp(Fraction(part, top)):
                break
        whole = 0
        while self.exp(ONE):
            whole += 1
        return (part + top * whole) // bottom

    def laplace(self, scale: Fraction) -> int:
        """P(n) proportional to exp(-|n|/scale)."""
        while True:
            size, negative = self.exponential(scale), self.below(2)
            if size or not negative:  # zero has one sign
                return -size if negative else size

    def gaussian(self, variance: Fraction) -> int:
        """P(n) proportional to exp(-n^2/(2 variance))."""
        scale = math.isqrt(math.floor(variance)) + 1
        while True:
            drawn = self.laplace(Fraction(scale))
            if self.exp((abs(drawn) - variance / scale) ** 2 / (2 * variance)):
                return drawn
