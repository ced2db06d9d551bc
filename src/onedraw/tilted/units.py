# SPDX-License-Identifier: Apache-2.0
"""The units of features without declared bounds, found privately: one size for all, then one for each.

A tilted fit adds the same noise to every coordinate and gives long rows a small weight, so it is at its best
where all features have about the same size, and at its worst where one is measured in grams and the other in
tons. A size t suits a feature if most values lie below t and few below t/2, zeros left out: with N(t) the
number of records with 2^-20 <= |x| < t and N of all of them, its regret is

    v(t) = max(0.6 N - N(t), N(t/2) - 0.4 N),    t = 1, 1.5, 2, 3, 4, 6, ... in both directions.

A common size is chosen with probability proportional to base(t) exp(-(epsilon/D) v(t)), v from the mean of
the counts over features, and then, where epsilon allows, a size for each feature, near the common one by its
base measure. Features are divided by a public multiple of their sizes.

Guarantee:
    (common + own) epsilon-DP under ``neighbours``, for m = ``rows_per_person`` rows a person, with D = 2 m
    for replace-one and D = m for add/remove.

*Proof.* A row added moves 0.6 N - N(t) by -0.4, 0 or 0.6, and N(t/2) - 0.4 N too; means over features and
the larger of two such numbers stay within [-0.4, 0.6]. So m rows added or removed move every v(t) by
numbers in an interval of length m, m rows replaced in one of length 2 m. If the exponents move by numbers in
an interval of length epsilon, so does the logarithm of their sum, and log probabilities move by at most
epsilon. One choice spends common epsilon, d spend own epsilon/d, and sequential composition adds up. []

*Why not a quantile.* Half of the values below t says nothing where a column holds zeros and ones: every t is
as good as any other, and a small one would weigh the rows away. Here t in (1, 2] is better by N than others.

*Shares.* A choice among sizes needs about exp(-epsilon n/4) to be small, so its epsilon falls as 1/n:
``NATS_COMMON`` and ``NATS_OWN`` are epsilon n for one choice. Where sizes for all features would need more
than ``LARGEST_OWN`` of epsilon, only the common one is found.

Edge cases:
    A column of zeros gets the common size, or one near it. Sizes lie between 2^-20 and 2^20.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> x = rng.standard_normal((10_000, 2)) * [1000.0, 0.01]
>>> feature_units(counts_of_sizes(x), 10_000, epsilon_common=0.01, epsilon_own=0.02, rng=rng)
array([1.024000e+03, 1.171875e-02])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.tilted.quantiles import Noise, drawn
from onedraw.tilted.terms import Terms
from onedraw.types import AnyArray, Array, Neighbours

STEPS = np.arange(-40, 41)
"""Two to an octave."""
MOST, FEW = 0.6, 0.4
DECAY = 2.0
"""The base measure of a size k steps from one, or from the common size, is (1 + k)^-DECAY."""
NATS_COMMON = 48.0
NATS_OWN = 60.0
LARGEST_COMMON = 0.1
LARGEST_OWN = 0.12
REACHES = ((0.1, 0.8), (0.004, 1.0), (0.0006, 1.3), (0.0, 1.7))
"""A working unit over the size of a feature, by the noise of the fit (``Terms.noise``) from which on it is
taken. Rows of more than about a unit an entry count for less: a small unit where noise is most of the error,
a large one where losing a row's weight is."""
_HALF_OCTAVES = 51
_OF_ONE = 2 * 1023
_FLOATS = 2 * 2048
"""Half octaves of floats."""
BLOCK_CELLS = 1 << 16


def grid() -> Array:
    """1, 1.5, 2, 3, 4, 6, ... and down to 2^-20: the numbers with one binary digit after the first."""
    octaves, half = np.divmod(STEPS, 2)
    return np.asarray(2.0**octaves * (1.0 + 0.5 * half))


@dataclass(frozen=True, kw_only=True)
class UnitTerms:
    """What the units may spend, and the multiple of a size that makes a unit. Public."""

    common: float
    """epsilon for the common size."""
    own: float
    """epsilon for all sizes of single features together; 0 for the common size only."""
    reach: float
    num_features: int
    neighbours: Neighbours
    rows_per_person: int

    @classmethod
    def planned(cls, terms: Terms, num_features: int, dim: int) -> UnitTerms:
        """For a fit on ``terms``, of which the units take a part."""
        information, own = terms.information, NATS_OWN * num_features / terms.information
        worth_it = own <= LARGEST_OWN and num_features > 1
        return cls(
            common=min(NATS_COMMON / information, LARGEST_COMMON) * terms.epsilon,
            own=own * terms.epsilon if worth_it else 0.0,
            reach=planned_reach(terms.noise(dim)),
            num_features=num_features,
            neighbours=terms.neighbours,
            rows_per_person=terms.rows_per_person,
        )

    @property
    def epsilon(self) -> float:
        """Of both choices."""
        return self.common + self.own

    @property
    def kernel(self) -> SizeCounts:
        """What a choice needs of all records."""
        return SizeCounts(each=self.own > 0.0)

    def chosen(self, counts: AnyArray, num_records: int, rng: Noise) -> Array:
        """The unit of each feature (d,), from the sums of ``kernel``."""
        if not self.own:  # of all features together
            counts = np.broadcast_to(counts.sum(axis=0) / self.num_features, (self.num_features, len(STEPS)))
        return self.reach * feature_units(
            counts,
            num_records,
            epsilon_common=self.common,
            epsilon_own=self.own,
            rng=rng,
            neighbours=self.neighbours,
            rows_per_person=self.rows_per_person,
        )


def planned_reach(noise: float) -> float:
    """The working unit of a feature over its size."""
    return next(reach for least, reach in REACHES if noise >= least)


@dataclass(frozen=True)
class SizeCounts:
    """A kernel: ``counts_of_sizes`` of the features of a block; of all together unless of each."""

    each: bool

    def __call__(self, records: Any) -> tuple[AnyArray]:
        features = records.features
        return (counts_of_sizes(features if self.each else features.reshape(-1, 1)),)


def counts_of_sizes(features: Array) -> AnyArray:
    """The number of records with |x| < t for each feature and each t of the grid, (d, 81). Private."""
    n, d = features.shape
    # A float without its sign and all but the first digit of its fraction is its place on the grid.
    lowest, places = _OF_ONE + int(STEPS[0]) - 1, len(STEPS) + 1
    room = np.empty((max(1, BLOCK_CELLS // max(1, d)), d))
    place = room.view(np.int64)
    total = np.zeros((d, places if d > 1 else 2 * _FLOATS), dtype=np.int64)
    ends = (np.array([lowest, lowest + places - 1]) << _HALF_OCTAVES).view(np.float64)
    first = np.arange(d, dtype=np.int64) * places - lowest
    for start in range(0, n, len(room)):
        part = features[start : start + len(room)]
        here = slice(len(part))
        if d > 1:
            np.abs(part, out=room[here])
            np.clip(room[here], *ends, out=room[here])
            place[here] >>= _HALF_OCTAVES
            place[here] += first
        else:  # in fewer steps, at the price of a place for every float, of either sign
            bits = np.ascontiguousarray(part).view(np.uint64)
            np.right_shift(bits, _HALF_OCTAVES, out=place[here].view(np.uint64))
        total += np.bincount(place[here].ravel(), minlength=total.size).reshape(total.shape)
    if d == 1:
        both = total.reshape(2, _FLOATS).sum(axis=0)
        ends_of_grid = (both[: lowest + 1].sum(), both[lowest + places - 1 :].sum())
        total = np.array([[ends_of_grid[0], *both[lowest + 1 : lowest + places - 1], ends_of_grid[1]]])
    return np.cumsum(total[:, :-1], axis=1)


def feature_units(
    counts: AnyArray,
    num_records: int,
    *,
    epsilon_common: float,
    epsilon_own: float,
    rng: Noise,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
) -> Array:
    """A size for each feature (d,), from ``counts_of_sizes``."""
    whole = rows_per_person * {"replace_one": 2.0, "add_remove": 1.0}[neighbours]

    def chosen(counted: AnyArray, epsilon: float, near: int) -> int:
        log_base = -DECAY * np.log1p(np.abs(np.arange(len(STEPS)) - near))
        return drawn(log_base - (epsilon / whole) * regrets(counted, num_records), rng)

    sizes = grid()
    common = chosen(counts.mean(axis=0), epsilon_common, int(np.flatnonzero(sizes == 1.0)[0]))
    if not epsilon_own:
        return np.full(len(counts), sizes[common])
    return np.array([sizes[chosen(one, epsilon_own / len(counts), common)] for one in counts])


def regrets(counts: AnyArray, num_records: int) -> Array:
    """v(t) for each t of the grid, from the numbers of records with |x| < t. Private."""
    below, all_of_them = counts - counts[0], num_records - counts[0]
    half = np.concatenate([[0.0, 0.0], below[:-2]])  # two steps down the grid
    return np.asarray(np.maximum(MOST * all_of_them - below, half - FEW * all_of_them))
