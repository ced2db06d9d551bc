# SPDX-License-Identifier: Apache-2.0
"""Normal means of a weight that has no closed form, from a table over centre and spread.

The means e_k(a, q) = E v^(k)(eta), eta ~ N(a, q), of a smooth v that vanishes on both sides are products in
Fourier space: the transform of v times (i w)^k exp(-q w^2/2). The table has them at equal steps of a and of
u, q^(1/2) = unit * sinh(u), so the steps are fine where predictors spread little and long where the means
change slowly. They are even in u. Between the places they are cubic splines, as their coefficients are: a
lookup is a sum of 16 products for each of the six, instead of a quadrature, and costs no exponential.

mu, the integral of v, does not vanish on the right. It is tabulated as what it is beyond level * Phi(eta -
middle), whose normal mean is level * Phi((a - middle)/(1 + q)^(1/2)).

>>> import numpy as np
>>> from scipy import special
>>> from onedraw.types import Array
>>> def bump(eta: Array) -> Array:
...     return np.exp(-0.5 * eta**2) / np.sqrt(2.0 * np.pi)
>>> table = MeansTable.of(bump, special.ndtr, level=1.0, middle=0.0, right=10.0, detail=1.0)
>>> table.at(np.array([0.0]), np.array([3.0]))[:2].round(6).tolist()      # Phi(0), and the density of N(0, 4)
[[0.5], [0.199471]]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import fft, ndimage, special

from onedraw.types import Array

Places = NDArray[np.intp]

LEFT = -12.0
"""The smallest centre; below, means are taken there."""
WIDEST = 10.0
"""The largest spread of predictors; beyond, means are taken there."""
PARTS = 10
"""Steps of the centre in the width of the finest detail of v."""
STEP = 0.1
"""Of u."""
FADED = 1e-13
"""Frequencies beyond which the transform of v is never larger than this, relative to its largest value, are
rounding errors, which derivatives would enlarge."""
LEAST, TINY = 1e-6, 1e-300
"""The smallest E v relative to the largest v, and the smallest variance of x under the weight v."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MeansTable:
    """Coefficients of splines (places of the centre * places of u, 6)."""

    coefficients: Array
    size: tuple[int, int]
    step: float
    unit: float

    @classmethod
    def of(
        cls,
        weight: Callable[[Array], Array],
        integral: Callable[[Array], Array],
        *,
        level: float,
        middle: float,
        right: float,
        detail: float,
    ) -> MeansTable:
        """The table of v = ``weight`` and mu = ``integral``, which grows from 0 to ``level`` near ``middle``.

        To the left v falls like exp(eta); to the right of ``right`` it is nothing, and is faded out.
        ``detail`` is the width of its steepest part.
        """
        margin = 28.0  # exp(LEFT - margin) is nothing; a whole number of steps
        step, unit = margin / np.ceil(PARTS * margin / detail), 0.5 * detail
        spread = unit * np.sinh(STEP * np.arange(int(np.arcsinh(WIDEST / unit) / STEP) + 23))
        # Room for v itself, which fades out on the right, and for normal laws that reach beyond it without
        # meeting its copy.
        low, length = LEFT - margin, right + 10.0 - LEFT + margin + 6.0 * WIDEST
        eta = low + step * np.arange(fft.next_fast_len(int(length / step), real=True))
        fading = special.ndtr(right + 3.0 - eta)
        beyond = integral(eta) - level * special.ndtr(eta - middle)
        known = level * special.ndtr((eta - middle) / np.sqrt(1.0 + spread[:, None] ** 2))
        frequency = 2.0 * np.pi * fft.rfftfreq(len(eta), step)
        normal = np.exp(-0.5 * np.square(spread[:, None] * frequency))
        spectra = [_spectrum(beyond * fading), *(_spectrum(weight(eta) * fading),) * 5]
        powers = (0, 0, 1, 2, 3, 4)
        chosen = slice(round(margin / step) - 20, int((right - low) / step) + 20)
        means = np.stack(
            [
                fft.irfft(normal * spectrum * (1j * frequency) ** k, len(eta))[:, chosen]
                for spectrum, k in zip(spectra, powers, strict=True)
            ]
        )
        means[0] += known[:, chosen]
        # Reflection at u = 0 is right, as the means are even. At the other ends it is not, but what it
        # changes falls by a factor of 4 with every place, and the last 20 are not used.
        for axis in (1, 2):
            means = ndimage.spline_filter1d(means, 3, axis=axis, mode="mirror")
        means = np.concatenate([means[:, 1:2], means[:, :-19]], axis=1)[:, :, 19:-19]
        return cls(
            coefficients=np.ascontiguousarray(means.transpose(2, 1, 0)).reshape(-1, 6),
            size=(means.shape[2], means.shape[1]),
            step=step,
            unit=unit,
        )

    def at(self, centre: Array, variance: Array) -> Array:
        """The means (6, B) at centres and variances (B,)."""
        rows, columns = self.size
        first, along = _basis((centre - LEFT) / self.step, rows)
        spread = np.sqrt(np.maximum(variance, 0.0))
        second, across = _basis(np.arcsinh(spread / self.unit) / STEP, columns)
        place = (columns * first + second)[:, None] + self._around
        weights = (along[:, :, None] * across[:, None, :]).reshape(-1, 1, 16)
        means = (weights @ self.coefficients.take(place, axis=0))[:, 0].T
        # Where v is all but 0, errors of the table must not make E v x^i (i = 0, 1, 2) of the standard normal
        # x = (eta - a)/q^(1/2), which are e_0, q^(1/2) e_1, e_0 + q e_2, those of no positive v.
        mass = np.maximum(means[1], LEAST * self.largest)
        least = means[2] ** 2 / mass - (1.0 - LEAST) * mass / np.fmax(variance, TINY)
        means[1], means[3] = mass, np.maximum(means[3], least)
        return np.asarray(means)

    @cached_property
    def largest(self) -> float:
        """The largest value of v, nearly."""
        return float(self.coefficients[:, 1].max())

    @cached_property
    def _around(self) -> Places:
        """The positions of 16 coefficients from the first of them."""
        return np.asarray(self.size[1] * np.arange(4)[:, None] + np.arange(4), dtype=np.intp).ravel()


def _spectrum(values: Array) -> Array:
    out = fft.rfft(values)
    size = np.abs(out)
    last = np.flatnonzero(size > FADED * size.max())
    out[last[-1] + 1 if len(last) else 0 :] = 0.0
    return np.asarray(out)


def _basis(place: Array, size: int) -> tuple[Places, Array]:
    """The first of four places (B,) that a cubic spline has about ``place``, and their weights (B, 4)."""
    # A diverging proposal is nan, and rejected for what else it gives: here it is taken to be 0.
    inside = np.fmax(np.fmin(place, size - 3.001), 0.0)
    first = inside.astype(np.intp)
    x = inside - first
    y = 1.0 - x
    middle = 4.0 - 3.0 * x * x * (1.0 + y), 4.0 - 3.0 * y * y * (1.0 + x)
    return first, np.stack([y * y * y, *middle, x * x * x], axis=1) / 6.0
