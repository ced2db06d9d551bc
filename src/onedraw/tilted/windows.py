# SPDX-License-Identifier: Apache-2.0
"""The location and scale of any response, in one private choice and without a bound on it.

Candidates are all intervals of half width s = 2^(k/2), k = -80, ..., 80, whose middle is a multiple of s/4
(plus a public shift of each scale). One that holds about half of the values, with a quarter on either side,
is wanted: small windows hold fewer, large ones all, misplaced ones none, and one that cuts the values in
two has none on one side. The middle and the half width of the chosen one are published.

Guarantee:
    epsilon-DP for values that are each a function of one record, under ``neighbours`` and for
    ``rows_per_person`` = m rows. A window with W values, L below and U above, has weight
    base exp(-(epsilon/D) v), v = min(max(|W - n/2|, n/4 - L, n/4 - U), (1/2 - FEW) n), D = 2 m for
    replace-one and 5 m/4 for add/remove.

*Proof.* Adding a person with r <= m rows, c of them counted in a number, moves W - n/2 by c - r/2, so its
size by a number in [-m/2, m/2]; n/4 - L and n/4 - U by r/4 - c, in [-3m/4, m/4]; and (1/2 - FEW) n by a
number in [0, m/2]. Minima and maxima keep common bounds, so v moves by a number in [-3m/4, m/2], and
between any two windows the changes differ by at most 5m/4. Replacing moves each of them by a number in [-m,
m]: they differ by at most 2m. If the exponents move by numbers in an interval of length epsilon, so does
the logarithm of their sum, and log probabilities move by at most epsilon. []

*Infinitely many candidates.* All windows with at most FEW n values have the same utility. Any other holds
one of the values of rank q, 2q, 3q, ... with q = max(1, floor(FEW n)), so they are few and found in no
time. Of a table that is longer than a look they come from the look, and one pass counts what they hold
(``EdgeCounts``). The rest is chosen as one candidate with its total base measure, and the window within it
drawn from the base measure until it is none of those listed. The base measure is ``SCALE_DECAY``^|k| over
scales times P(M >= m) = 1/(1 + m/8) for the distance of the middle from zero in steps m of s/4, either side
alike.

*Why shifted.* Zero would be an edge at every scale: values around it would be halved by windows of any size.
With k times the golden section, modulo 1, a number is near an edge at few scales, whichever it is.
*Why not two choices* (a scale from differences of pairs, then a median on a grid around zero): pairs halve
the number of values, both stages must succeed, and a grid wide enough for 200 is too coarse at 200.

Edge cases:
    n = 0 gives a draw from the base measure. If all values are equal, many scales hold all or nothing, and
    the base measure decides. Windows beyond 2^50 steps count as empty, whatever they hold.

>>> import numpy as np
>>> y = 200.0 + 10.0 * np.random.default_rng(0).standard_normal(3000)
>>> found = window_of_half(y, epsilon=1.0, rng=np.random.default_rng(1))
>>> round(found.location), round(found.scale)
(198, 6)
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onedraw._validate import one_of, positive, whole
from onedraw.private import Withheld
from onedraw.tables.base import Table
from onedraw.tilted.quantiles import Noise, drawn
from onedraw.types import AnyArray, Array, Neighbours

SCALES = range(-80, 81)
SCALE_DECAY = 0.85
STEPS = 8
"""A window is this many steps wide, a step being a quarter of its half width."""
FEW = 1.0 / 32.0
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
FARTHEST = 2.0**50


@dataclass(frozen=True, kw_only=True)
class Window:
    """The middle and the half width of an interval."""

    location: float
    scale: float


def window(k: int, middle: float) -> Window:
    """The window of scale 2^(k/2) whose middle is ``middle`` steps, and the shift, from zero."""
    scale = 2.0 ** (0.5 * k)
    return Window(location=(middle + k * GOLDEN % 1.0) * (scale / 4.0), scale=scale)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Filled(Withheld):
    """Every window that may hold more than FEW n of the values, scale by scale: values below and above it."""

    scales: AnyArray
    """Of each window, its place in SCALES; ascending."""
    middles: Array
    below: AnyArray
    above: AnyArray
    num_values: int

    def of_scale(self, place: int) -> tuple[Array, AnyArray, AnyArray]:
        """Middles, values below and values above of the windows of SCALES[place]."""
        own = slice(*np.searchsorted(self.scales, [place, place + 1]))
        return self.middles[own], self.below[own], self.above[own]


def window_of_half(
    values: Array | Filled,
    *,
    epsilon: float,
    rng: Noise,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
) -> Window:
    """A window that holds about half of the values."""
    rate = choice_rate(epsilon, neighbours, rows_per_person)
    found = values if isinstance(values, Filled) else filled_windows(np.sort(values))
    listed, others = log_weights(found, rate)
    # The others of each scale after those listed.
    ends = np.searchsorted(found.scales, np.arange(len(SCALES)), side="right")
    place = drawn(np.insert(listed, ends, others), rng)
    scale = int(np.searchsorted(ends + np.arange(len(SCALES)), place))
    middles, place = found.middles, place - scale
    if place == ends[scale]:
        return window(SCALES[scale], _other(found.of_scale(scale)[0], rng))
    return window(SCALES[scale], float(middles[place]))


def choice_rate(epsilon: float, neighbours: Neighbours, rows_per_person: int) -> float:
    """epsilon/D: what a unit of v costs."""
    one_of(("replace_one", "add_remove"), neighbours=neighbours)
    spread = 2.0 if neighbours == "replace_one" else 1.25
    return positive(epsilon=epsilon) / (spread * whole(rows_per_person=rows_per_person))


def filled_windows(ordered: Array) -> Filled:
    """All windows with more than FEW n of the values, which ascend."""
    n = len(ordered)
    scales, middles, low, high = windows_around(ordered[:: max(1, math.floor(FEW * n))])
    below, above = np.searchsorted(ordered, low), n - np.searchsorted(ordered, high)
    return Filled(scales=scales, middles=middles, below=below, above=above, num_values=n)


HALF_WIDTHS = 2.0 ** (0.5 * np.array(SCALES))
SHIFTS = np.array(SCALES) * GOLDEN % 1.0


def windows_around(points: Array) -> tuple[AnyArray, Array, Array, Array]:
    """All windows that hold one of the points, which ascend: scales, middles in steps, lower and upper ends.

    Scale by scale, and within one in the order of their middles.
    """
    step, moved = HALF_WIDTHS[:, None] / 4.0, SHIFTS[:, None]
    with np.errstate(over="ignore"):
        steps = np.floor(points / step - moved)
    reach = np.arange(-STEPS // 2 - 1.0, STEPS // 2 + 3.0)  # one more on either side, for rounding
    around = steps[:, :, None] + reach
    new = np.abs(around) < FARTHEST - 2 * STEPS
    # A window is listed or not by where it lies, never by which of its values were looked at. Those that the
    # point before has as well are listed already.
    new[:, 1:] &= around[:, 1:] > around[:, :-1, -1:]
    scales, middles = np.nonzero(new)[0], around[new]
    step, moved = HALF_WIDTHS[scales] / 4.0, SHIFTS[scales]
    return scales, middles, (middles - STEPS / 2 + moved) * step, (middles + STEPS / 2 + moved) * step


# -- of values that lie anywhere


def half_of(table: Table, points: Array) -> Filled:
    """What a window needs of the responses of a table, from as many passes as it takes.

    The windows listed are those around some ``points``. A pass counts what they hold, and what lies between
    the points: a window that is not listed lies there, so it is one of those with at most FEW n values if no
    gap has more. Where one has, which ``points_of`` a random look hardly ever leave, points are put into it
    and the pass is repeated. So the probabilities are those of the proof, whatever the look was.
    """
    while True:
        counts = EdgeCounts(points)
        (below,) = table.sum(counts)
        found = counts.filled(below, table.shape[0])
        if isinstance(found, Filled):
            return found
        points = found


def points_of(look: Array) -> Array:
    """Some values of a look, so many that windows around them are all that hold more than a few values."""
    ordered = np.sort(look)
    return np.unique(ordered[:: max(1, math.floor(0.5 * FEW * len(ordered)))])


@dataclass(frozen=True, repr=False)
class EdgeCounts:
    """A kernel: how many responses of a block lie below each end of the windows around some points.

    The points are values of the look, so this kernel does hold something of records, and does not show it.
    """

    points: Array

    @functools.cached_property
    def edges(self) -> Array:
        """All ends of windows around the points, and the ends of the gaps between these."""
        _, _, low, high = windows_around(self.points)
        return np.unique(np.concatenate([self.points, np.nextafter(self.points, np.inf), low, high]))

    def __call__(self, block: Any) -> tuple[AnyArray]:
        # The number of ends that are not above a value.
        passed = np.searchsorted(self.edges, block.response, side="right")
        return (np.cumsum(np.bincount(passed, minlength=len(self.edges) + 1)[:-1]),)

    def filled(self, below: AnyArray, num_values: int) -> Filled | Array:
        """The windows with what they hold, from the counts of all values; or more points, if some lack."""
        points, edges = self.points, self.edges
        inside = np.append(below[np.searchsorted(edges, points)], num_values)  # below each point, and in all
        past = np.append(0, below[np.searchsorted(edges, np.nextafter(points, np.inf))])
        wide = np.flatnonzero(inside - past > FEW * num_values)
        if len(wide):
            return np.unique(np.concatenate([points, *(_between(points, int(gap)) for gap in wide)]))
        scales, middles, low, high = windows_around(points)
        first, last = (below[np.searchsorted(edges, ends)] for ends in (low, high))
        return Filled(
            scales=scales, middles=middles, below=first, above=num_values - last, num_values=num_values
        )


def _between(points: Array, gap: int) -> Array:
    """Points in the gap before ``points[gap]``, evenly spaced in the order of floats, which is finite."""
    largest = np.finfo(np.float64).max
    ends = np.concatenate([[-largest], points, [largest]])[gap : gap + 2]
    low, high = (int(place) for place in _place(ends))
    return _at(np.array([low + (high - low) * i // 64 for i in range(1, 64)], dtype=np.int64))


def _place(values: Array) -> NDArray[np.int64]:
    """The place of each float in their order, zero at 0."""
    bits = np.asarray(values + 0.0).view(np.int64)
    return np.where(bits < 0, -(bits & np.int64(2**63 - 1)), bits)


def _at(places: NDArray[np.int64]) -> Array:
    """The floats at these places."""
    return np.copysign(np.abs(places).view(np.float64), places)


def log_base(middles: Array) -> Array:
    """The base measure of a middle: the law of M, halved unless it is zero."""
    m = np.abs(middles)
    # 1/(1 + m/8) - 1/(1 + (m+1)/8), written so that nothing cancels.
    both = STEPS * (1.0 + m / STEPS) * (1.0 + (m + 1.0) / STEPS)
    return np.asarray(-np.log(both) - np.log(np.where(m > 0.0, 2.0, 1.0)))


def log_weights(found: Filled, rate: float) -> tuple[Array, Array]:
    """Log weights of the listed windows and, for each scale, of all others together. Private."""
    n, below, above = found.num_values, found.below, found.above
    base, prior = log_base(found.middles), np.abs(SCALES) * math.log(SCALE_DECAY)
    mass = np.bincount(found.scales, weights=np.exp(base), minlength=len(SCALES))
    others = np.log(np.maximum(1.0 - mass, 1e-300))
    one_side = 0.25 * n - np.minimum(below, above)
    worst = (0.5 - FEW) * n
    regret = np.minimum(np.maximum(np.abs(0.5 * n - below - above), one_side), worst)
    return prior[found.scales] + (base - rate * regret), prior + (others - rate * worst)


def _other(listed: Array, rng: Noise) -> float:
    """A middle from the base measure that is none of those listed."""
    while True:
        steps = math.floor(STEPS * (1.0 / (1.0 - rng.random()) - 1.0))
        middle = float(steps if rng.random() < 0.5 else -steps)
        if middle not in listed:
            return middle
