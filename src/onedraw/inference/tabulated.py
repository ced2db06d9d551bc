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

from collections.abc import Callable, Sequence
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
    """Coefficients of splines (N, 6): those of one table, or of R of them for a batch of releases.

    Of every table (R, 1): ``start``, where it begins; ``rows`` and ``columns``, the places of centre and u;
    ``step``, of the centre; ``unit``, of the spread; ``largest``, the largest value of v, nearly.
    """

    coefficients: Array
    start: Places
    rows: Places
    columns: Places
    step: Array
    unit: Array
    largest: Array

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
            start=np.zeros((1, 1), dtype=np.intp),
            rows=np.array([[means.shape[2]]]),
            columns=np.array([[means.shape[1]]]),
            step=np.array([[step]]),
            unit=np.array([[unit]]),
            largest=np.array([[means[1].max()]]),
        )

    @classmethod
    def joined(cls, tables: Sequence[MeansTable]) -> MeansTable:
        """One table for a batch in which the entries of every release stand together."""
        several = {id(table): table for table in tables}
        ends = np.cumsum([0, *(len(table.coefficients) for table in several.values())])
        starts = dict(zip(several, ends[:-1], strict=True))
        return cls(
            coefficients=np.concatenate([table.coefficients for table in several.values()]),
            start=np.array([[starts[id(table)]] for table in tables]),
            rows=np.concatenate([table.rows for table in tables]),
            columns=np.concatenate([table.columns for table in tables]),
            step=np.concatenate([table.step for table in tables]),
            unit=np.concatenate([table.unit for table in tables]),
            largest=np.concatenate([table.largest for table in tables]),
        )

    def at(self, centre: Array, variance: Array) -> Array:
        """The means (6, B) at centres and variances (B,), as many for every table."""
        centre, variance = centre.reshape(len(self.step), -1), variance.reshape(len(self.step), -1)
        u = np.arcsinh(np.sqrt(np.maximum(variance, 0.0)) / self.unit) / STEP
        (row, column), (along, across) = _basis(np.stack([(centre - LEFT) / self.step, u]), self._last)
        place = self.start + self.columns * row + column + self._around
        weights = along[:, None] * across
        chosen = self.coefficients.take(place.reshape(16, -1), axis=0)
        means = np.einsum("nb,nbk->kb", weights.reshape(16, -1), chosen).reshape(6, *centre.shape)
        # Where v is all but 0, errors of the table must not make E v x^i (i = 0, 1, 2) of the standard normal
        # x = (eta - a)/q^(1/2), which are e_0, q^(1/2) e_1, e_0 + q e_2, those of no positive v.
        mass = np.maximum(means[1], LEAST * self.largest)
        least = means[2] ** 2 / mass - (1.0 - LEAST) * mass / np.fmax(variance, TINY)
        means[1], means[3] = mass, np.maximum(means[3], least)
        return np.asarray(means.reshape(6, -1))

    @cached_property
    def _last(self) -> Array:
        """The last places (2, R, 1) that have two more beyond them."""
        return np.asarray(np.stack([self.rows, self.columns]) - 3.001, dtype=np.float64)

    @cached_property
    def _around(self) -> Places:
        """The positions (16, R, 1) of coefficients from the first of them."""
        return np.concatenate([k * self.columns[None] + np.arange(4)[:, None, None] for k in range(4)])


def _spectrum(values: Array) -> Array:
    out = fft.rfft(values)
    size = np.abs(out)
    last = np.flatnonzero(size > FADED * size.max())
    out[last[-1] + 1 if len(last) else 0 :] = 0.0
    return np.asarray(out)


def _basis(place: Array, last: Array) -> tuple[Places, Array]:
    """The first of four places that a cubic spline has about each of (2, ...), and weights (2, 4, ...)."""
    # A diverging proposal is nan, and rejected for what else it gives: here it is taken to be 0.
    inside = np.fmax(np.fmin(place, last), 0.0)
    first = inside.astype(np.intp)
    x = inside - first
    y = 1.0 - x
    out = np.empty((2, 4, *x.shape[1:]))
    out[:, 0], out[:, 3] = y * y * y, x * x * x
    out[:, 1], out[:, 2] = 4.0 - 3.0 * x * x * (1.0 + y), 4.0 - 3.0 * y * y * (1.0 + x)
    return first, out / 6.0
