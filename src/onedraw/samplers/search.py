# SPDX-License-Identifier: Apache-2.0
"""Where the peaks of a posterior may be: robust fits to random groups of records, and to what they leave.

A group of records that obeys a law of its own has a peak of its own, too narrow to be met by chance. It can
be about as heavy as the highest one only if its records outweigh the others nearly as much, so a random few
thousand records show it. Among those, the search

* fits random subsets, of more records than there are parameters, so that another group has the majority in
  some of them; each fit begins as least squares and is annealed: records count the less the worse the last
  fit explains them, more and more sharply;
* fits what the peaks found so far leave unexplained, again and again, until that leads to nothing new.

Points of the fits are starts for Newton's ascent (``onedraw.samplers.modes``). Subsets are as secret as the
draw: what a search overlooks must not be a function of the order of rows, nor be known to anyone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.posterior import Posterior
from onedraw.private import Withheld
from onedraw.types import Array

FEWEST_LOOKED_AT, LOOKED_AT_PER_PARAMETER = 1024, 80
MOST_FITS, FEWEST_FITS, FIT_WORK = 12, 3, 2e7
SUBSET_SIZES = (12.0, 24.0, 48.0)
"""Records of a random subset for each parameter of one predictor: with fewer, groups are not told apart."""
GROUP, SHARPNESS = 0.3, 0.5
MAX_SHARPENINGS, SETTLING_STEPS = 40, 4
SCALE_STEPS = 1.1 ** np.arange(-8.0, 9.0)
RIDGE = 1e-6


def look_size(posterior: Posterior) -> int:
    """How many records the search looks at."""
    return max(FEWEST_LOOKED_AT, LOOKED_AT_PER_PARAMETER * posterior.dim)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Explorer(Withheld):
    """Annealed fits to the records of a ``look``: a posterior of a random few thousand records."""

    look: Posterior
    response: Array
    design: Array
    """Responses and design of the records, columns of the latter divided by ``units``."""
    units: Array
    wanted: Array
    """Linear predictors (q, records) under which the responses are likely."""

    @classmethod
    def of(cls, look: Posterior) -> Explorer:
        """An explorer of the records that ``look`` holds."""
        y, design = look.records(slice(0, look.num_records))
        largest = np.abs(design).max(axis=0, initial=0.0) + 1e-300  # divided by, so that no square overflows
        units = largest * np.sqrt(np.square(design / largest).mean(axis=0)) + 1e-300
        q, n = look.num_predictors, len(design)
        wanted = np.broadcast_to(look.loss.family.rough_predictor(y).reshape(q, -1), (q, n))
        return cls(look=look, response=y, design=design / units, units=units, wanted=wanted)

    @property
    def _floor(self) -> Array | None:
        noise = self.look.prior.noise
        return None if noise is None else np.array([[noise.floor]])

    @property
    def num_fits(self) -> int:
        """As many as a fixed amount of work allows."""
        size = self.design.shape[1]
        return int(np.clip(FIT_WORK / (len(self.design) * size**2), FEWEST_FITS, MOST_FITS))

    # -- what is fitted

    def random_subsets(self, rng: np.random.Generator) -> Array:
        """Which records count (fits, records), in several sizes."""
        n, size = self.design.shape
        shares = np.resize([min(0.5, k * (size + 1) / n) for k in SUBSET_SIZES], self.num_fits)
        return np.asarray(rng.random((len(shares), n)) < shares[:, None], dtype=float)

    def unexplained(self, peaks: Array, fresh: int, rng: np.random.Generator) -> Array:
        """How much each record counts (fits, records) if peaks (k, p), the last ``fresh`` of which are new,
        take theirs: what all leave, and a random half of that; what each new one leaves; and what all but
        one leave, for a broad peak takes something of every group.
        """
        left = 1.0 - self._explained(peaks).T
        together = left.prod(axis=0)
        half = together * (rng.random(left.shape[1]) < 0.5)
        but_one = [np.delete(left, i, axis=0).prod(axis=0) for i in range(len(left) if len(left) > 2 else 0)]
        counts = np.stack([together, half, *left[len(left) - fresh :], *but_one])
        counts = counts[counts.sum(axis=1) > self.design.shape[1]]
        return counts if len(counts) <= MOST_FITS else rng.permutation(counts, axis=0)[:MOST_FITS]

    def _explained(self, peaks: Array) -> Array:
        """f^b of each record under each peak, relative to the largest it could have: (records, k)."""
        stacked, scale = self._stacked(peaks)
        power = self.look.beta - 1.0
        return np.exp(-power * self._misfit(stacked, scale))

    # -- annealing

    def anneal(self, counts: Array) -> Array:
        """The best points (fits, p) of fits to records that count as ``counts`` (fits, records) say."""
        power = self.look.beta - 1.0
        stacked, sharpness, path = self._least_squares(counts), np.zeros(len(counts)), []
        for _ in range(MAX_SHARPENINGS):
            misfit = self._misfit(stacked, self._floor)
            # So that a good fit to three records in ten is what counts: a group may have no more than that.
            fitted = np.array([_quantile(m, c) for m, c in zip(misfit.T, counts, strict=True)])
            sharpness = np.minimum(power, np.maximum(sharpness, SHARPNESS / np.maximum(fitted, 1e-300)))
            stacked = self._least_squares(counts * np.exp(-sharpness * misfit).T)
            path.append((stacked, sharpness))
            if (sharpness >= power).all():
                break
        _, stacked, sharpness = self._highest(path)
        path = [(stacked, sharpness)]
        for _ in range(SETTLING_STEPS):  # from the few records to all, which draws neighbours together
            stacked = self._least_squares(np.exp(-sharpness * self._misfit(stacked, self._floor)).T)
            path.append((stacked, sharpness))
        return self._rescaled(self._highest(path)[0])

    def _rescaled(self, points: Array) -> Array:
        """The points at the best of several scales; where there is none, as they are."""
        noise = self.look.prior.noise
        if noise is None:
            return points
        scales = np.outer(noise.scale(points[:, -1]), SCALE_STEPS)
        scales = np.clip(scales, 1.02 * noise.floor, 0.5 * (noise.floor + noise.ceiling))
        tried = np.repeat(points[:, None, :], len(SCALE_STEPS), axis=1)
        tried[:, :, -1] = np.log(scales - noise.floor)
        heights = self.look.log_density(tried.reshape(-1, self.look.dim)).reshape(scales.shape)
        return np.asarray(tried[np.arange(len(points)), heights.argmax(axis=1)])

    def _highest(self, path: list[tuple[Array, Array]]) -> tuple[Array, Array, Array]:
        """Of the steps (stacked, sharpness) of each fit the highest: points (fits, p), stacked, sharpness."""
        tried = np.stack([self._points(*step) for step in path], axis=1)  # (fits, steps, p)
        heights = self.look.log_density(tried.reshape(-1, tried.shape[2])).reshape(tried.shape[:2])
        rows, best = np.arange(len(tried)), heights.argmax(axis=1)
        stacked, sharpness = (np.stack(parts, axis=1)[rows, best] for parts in zip(*path, strict=True))
        return tried[rows, best], stacked, sharpness

    def _least_squares(self, counts: Array) -> Array:
        """Weighted least squares fits (fits, q, size) to the predictors that are wanted."""
        size = self.design.shape[1]
        weighted = [self.design.T * row for row in counts]
        gram = np.stack([part @ self.design for part in weighted])
        target = np.stack([part @ self.wanted.T for part in weighted])
        ridge = RIDGE * (np.trace(gram, axis1=1, axis2=2) / size + 1e-300)
        found = np.linalg.solve(gram + ridge[:, None, None] * np.eye(size), target)
        return found.swapaxes(1, 2) / self.units

    def _misfit(self, stacked: Array, scale: Array | None) -> Array:
        """By how many nats each record falls short of the best it could have: (records, fits)."""
        family, (m, q, size) = self.look.loss.family, stacked.shape
        eta = ((stacked * self.units).reshape(m * q, size) @ self.design.T).reshape(m, q, -1)
        shape = (q, len(self.design), m) if family.vector_predictor else (len(self.design), m)
        found = family.log_density(self.response, eta.transpose(1, 2, 0).reshape(shape), scale)
        best_shape = (*shape[:-1], 1)
        best = family.log_density(self.response, self.wanted.reshape(best_shape), scale)
        return np.minimum(np.maximum(best - found, 0.0), 1e300)

    # -- the layout of parameters

    def _stacked(self, thetas: Array) -> tuple[Array, Array | None]:
        """Location parameters (m, q, size) and scales (1, m)."""
        q, size = self.look.num_predictors, self.design.shape[1]
        d = self.look.num_features
        noise = self.look.prior.noise
        coefficients = thetas[:, : q * d].reshape(len(thetas), q, d)
        intercepts = thetas[:, q * d : q * size].reshape(len(thetas), q, size - d)
        scale = None if noise is None else noise.scale(thetas[:, -1])[None, :]
        return np.concatenate([coefficients, intercepts], axis=2), scale

    def _points(self, stacked: Array, sharpness: Array) -> Array:
        """Working parameters (m, p), inside the prior's support, at the scale that a sharpness stands for."""
        d, prior = self.look.num_features, self.look.prior
        flat = np.concatenate(
            [stacked[:, :, :d].reshape(len(stacked), -1), stacked[:, :, d:].reshape(len(stacked), -1)], axis=1
        )
        edge = prior.scale * (4.0 if prior.box is None else min(4.0, prior.box))
        flat = np.asarray(np.clip(flat, -edge, edge), dtype=float)
        if prior.noise is None:
            return flat
        floor = prior.noise.floor
        scales = floor * np.sqrt((self.look.beta - 1.0) / sharpness)
        scales = np.clip(scales, 1.1 * floor, 0.5 * (floor + prior.noise.ceiling))
        return np.column_stack([flat, np.log(scales - floor)])


def _quantile(misfit: Array, counts: Array) -> float:
    """The misfit that a ``GROUP`` of the records that count does not exceed."""
    kept = misfit[counts > 0.5 * counts.max()]
    if not len(kept):
        return 0.0
    # np.quantile, to the last bit; a search takes thousands of them, of few numbers each.
    below, beyond = divmod(GROUP * (len(kept) - 1), 1.0)
    places = [int(below), min(int(below) + 1, len(kept) - 1)]
    low, high = np.partition(kept, places)[places]
    step = high - low
    return float(low + step * beyond if beyond < 0.5 else high - step * (1.0 - beyond))
