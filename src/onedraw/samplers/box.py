# SPDX-License-Identifier: Apache-2.0
"""Exact draws with a proved envelope: branch and bound over a public box.

Guarantee:
    Every leaf cell carries a bound of the log posterior that is proved to hold on all of it, so the
    piecewise envelope does too, and an accepted proposal is an exact draw, with no assumption about the
    sampler (evidence ``proved``). The prior is truncated to the public box. Cells are halved for as long as
    proposals are rejected and the bounds tighten to the density as cells shrink, so the acceptance only
    rises, until there are as many as memory allows. Then proposing goes on until enough are accepted, which
    happens with probability one for every data set: it may take long, but no data set is refused, since a
    refusal would tell something about it.

On a cell with centre c and half-widths h, the log posterior is bounded by the smaller (in mass) of

* a constant: minus weight times the sum of each record's smallest loss on the cell, plus the largest log
  prior on it;
* a plane: value + gradient.(theta - c) + remainder, where the remainder is half the weight times the sum
  over records of the loss's largest concavity on the cell times the square of how far the predictor can
  move. (The log prior is concave, so its tangent plane bounds it.) Near the mode gradients cancel between
  records, and this is far the better one. A record whose predictor moves too far for that, as under a feature
  of 1e8, enters with its smallest loss and no gradient: each record's bound is a bound by itself.

Cells are boxes in coordinates aligned with the posterior's covariance. That choice reads the data; an exact
draw does not depend on it.

*Rounding* is allowed for: no bound as computed is below a density as computed. Predictors are taken to move
by their rounding error more than they do. Bound and density are sums over records, in pairs, each wrong by at
most ``summation_error`` times n losses of the largest size, and by ``INTEGRAL_ERROR`` for each record: twice
that is added to every bound (0.002 nats at 10^6 records, 0.2 at 10^8, for weight and losses of 1). The slope
of a plane is such a sum too; its error counts as far as the cell reaches.

Edge cases:
    n = 0 draws from the truncated prior. Families without proved bounds, and more than a few parameters, are
    refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from onedraw.advice import Do, Set
from onedraw.design import UNIT, summation_error
from onedraw.errors import InvalidInput, SamplingError
from onedraw.families import FAMILIES, Cell
from onedraw.losses import BetaDivergence
from onedraw.posterior import Posterior
from onedraw.private import Withheld
from onedraw.samplers.base import Draws, Evidence, PosteriorFacts
from onedraw.samplers.modes import find_modes
from onedraw.samplers.tilted import draw_tilted, log_tilt
from onedraw.types import AnyArray, Array

MAX_DIM = 5
MAX_CELLS = 500_000
MAX_WORK = 4e9  # records times cells
BATCH = 64
GOOD_ACCEPTANCE = 0.02
INTEGRAL_ERROR = 1e-9  # of tabulated power integrals, per record, and more than the rounding of any loss
FEWEST_COLUMNS = (
    2  # of a pass over the records: the more there are, the shorter are the pieces that are added
)
FINAL = 16  # roundings of weights, priors and slopes, once the records are summed
ROUNDING = 64.0 * float(np.finfo(float).eps)  # of a short sum of products, relative to the sum of their sizes


@dataclass(frozen=True, kw_only=True)
class BoxSampler:
    """The proving sampler; needs a prior with a ``box`` (and a ceiling for the scale)."""

    evidence_level: ClassVar[str] = "proved"
    continuous: ClassVar[bool] = True

    max_dim: int = MAX_DIM

    def sample(self, posterior: Posterior, num_draws: int, rng: np.random.Generator) -> Draws:
        """``num_draws`` independent exact draws."""
        self.check(posterior)
        with threadpool_limits(limits=1, user_api="blas"):
            tree = _Tree(posterior, rng)
            values, proposals = tree.draw(num_draws, rng)
        box = posterior.prior.box
        return Draws(
            values=values,
            evidence=Evidence(
                level="proved",
                statement=(
                    "Every proposal was accepted or rejected under a bound proved by branch and bound over "
                    f"the public box of {box:g} prior scales, to which the prior is truncated; no assumption "
                    "about the sampler is left."
                ),
            ),
            diagnostics={
                "proposals": proposals,
                "cells": len(tree.height),
                "acceptance": num_draws / proposals,
            },
        )

    def check(self, posterior: PosteriorFacts | Posterior) -> None:
        """Refuse other losses, families without proved bounds, many parameters and unbounded priors."""
        family = posterior.loss.family
        if not isinstance(posterior.loss, BetaDivergence):
            raise InvalidInput(
                "Proved evidence is available for the beta-divergence loss only.",
                advice=Set("evidence", "searched", of="OnePosterior"),
            )
        if not family.has_cell_bounds:
            proved = ", ".join(name for name, known in FAMILIES.items() if known.has_cell_bounds)
            raise InvalidInput(
                f"Proved evidence is not available for the {family.name} family (these have proved "
                f"bounds: {proved}).",
                advice=[
                    Set("evidence", "searched", of="OnePosterior"),
                    Set("evidence", "enumerated", of="OnePosterior", note=" for up to about 3 parameters"),
                ],
            )
        if posterior.dim > self.max_dim:
            raise InvalidInput(
                f"Proved evidence is for at most {self.max_dim} parameters, got {posterior.dim}.",
                advice=[Set("evidence", "searched", of="OnePosterior"), Do("use fewer features")],
            )
        noise = posterior.prior.noise
        if posterior.prior.box is None or (noise is not None and math.isinf(noise.ceiling)):
            raise InvalidInput(
                "evidence='proved' needs a prior truncated to a public box: set Prior(box=...), and "
                "ScalePrior(ceiling=...) where the model has a scale."
            )
        if family.scale_floor is not None and (noise is None or noise.floor < family.scale_floor):
            raise InvalidInput(
                f"Expected a scale prior with floor >= scale_floor={family.scale_floor:g} of the family."
            )


class _Tree(Withheld):
    """Leaf cells and their envelope, in coordinates v with (coefficients, log scale) = origin + axes @ v."""

    def __init__(self, posterior: Posterior, rng: np.random.Generator) -> None:
        self.posterior = posterior
        self.dim = posterior.dim
        self.origin, self.axes = _frame(posterior, rng)
        self.slack = self._slack()
        self.max_cells = min(MAX_CELLS, int(MAX_WORK / max(1, posterior.num_records)))
        low, high = self._root()
        self.centre = 0.5 * (low + high)[None, :]
        self.half = 0.5 * (high - low)[None, :]
        self.height, self.slope, self.side = self._bound(self.centre, self.half)

    # -- the envelope

    def draw(self, num_draws: int, rng: np.random.Generator) -> tuple[Array, int]:
        """Refine until the envelope fits, then propose; keep refining for as long as it fits badly."""
        accepted: list[Array] = []
        kept = proposals = 0
        size = 4
        while kept < num_draws:
            points, bound = self._propose(rng, size)
            natural = self.origin + points @ self.axes.T
            log_ratio = self._log_density(natural) - bound
            if (log_ratio > 0.0).any():
                raise SamplingError(
                    "A bound that was proved in exact arithmetic was exceeded in floating point, so nothing "
                    "was released. Rescale the features with public feature_bounds, or use "
                    "evidence='searched'."
                )
            chosen = natural[-rng.standard_exponential(size) < log_ratio]
            accepted.append(self._to_working(chosen))
            kept += len(chosen)
            proposals += size
            if len(self.height) >= self.max_cells:
                size = 4096
            elif len(chosen) < GOOD_ACCEPTANCE * size or not len(chosen):
                self._refine()
                size = 16 if len(self.height) > 512 else 4
            else:
                size = 256
        return np.concatenate(accepted)[:num_draws], proposals

    def _log_mass(self) -> Array:
        """Log of the envelope's integral over each cell."""
        tilt = log_tilt(np.abs(self.slope) * self.half)
        return self.height + (np.log(2.0 * self.half) + tilt).sum(axis=1)  # type: ignore[no-any-return]

    def _propose(self, rng: np.random.Generator, size: int) -> tuple[Array, Array]:
        mass = self._log_mass()
        shares = np.exp(mass - mass.max())
        cells = np.searchsorted(np.cumsum(shares), rng.random(size) * shares.sum())
        cells = np.minimum(cells, len(shares) - 1)
        slope = self.slope[cells]
        offset = draw_tilted(self.half[cells], slope, rng)
        return self.centre[cells] + offset, self.height[cells] + (slope * offset).sum(axis=1)

    def _refine(self) -> None:
        """Halve the cells that hold most of the envelope's mass, each across its loosest side."""
        mass = self._log_mass()
        count = int(min(len(mass), max(BATCH, len(mass) // 3)))
        chosen = np.argpartition(mass, len(mass) - count)[-count:]
        chosen = chosen[mass[chosen] > mass.max() - 30.0]
        side = self.side[chosen]
        rows = np.arange(len(chosen))
        half = self.half[chosen].copy()
        half[rows, side] *= 0.5
        shift = np.zeros_like(half)
        shift[rows, side] = half[rows, side]
        centre = np.concatenate([self.centre[chosen] - shift, self.centre[chosen] + shift])
        half = np.concatenate([half, half])
        height, slope, side = self._bound(centre, half)
        keep = np.ones(len(mass), dtype=bool)
        keep[chosen] = False
        alive = height > -np.inf
        self.centre = np.concatenate([self.centre[keep], centre[alive]])
        self.half = np.concatenate([self.half[keep], half[alive]])
        self.height = np.concatenate([self.height[keep], height[alive]])
        self.slope = np.concatenate([self.slope[keep], slope[alive]])
        self.side = np.concatenate([self.side[keep], side[alive]])

    # -- bounds

    def _bound(self, centre: Array, half: Array) -> tuple[Array, Array, AnyArray]:
        """Heights (m,), -inf outside the box, slopes (m, p) of the better bound, and sides to halve next."""
        parts = [
            self._bound_batch(centre[start : start + BATCH], half[start : start + BATCH])
            for start in range(0, len(centre), BATCH)
        ]
        height, slope, side = (np.concatenate(part) for part in zip(*parts, strict=True))
        return height, slope, side

    def _bound_batch(self, centre: Array, half: Array) -> tuple[Array, Array, AnyArray]:
        posterior = self.posterior
        has_scale, weight, beta = posterior.has_scale, posterior.weight, posterior.beta
        natural = self.origin + centre @ self.axes.T
        reach = half @ np.abs(self.axes).T
        low, high = natural - reach, natural + reach
        location_axes = self.axes[:-1] if has_scale else self.axes
        scale_low = scale_high = scale = None
        if has_scale:
            # Not clipped to the floor: the segment from the centre to a point lies in the cell as bounded.
            scale_low, scale_high = np.exp(low[:, -1])[None, :], np.exp(high[:, -1])[None, :]
            scale = np.exp(natural[:, -1])[None, :]
        working, log_reach = natural[:, :-1] if has_scale else natural, reach[:, -1]
        summing = 2.0 * (summation_error(posterior.num_records, FEWEST_COLUMNS) + FINAL * UNIT)
        extent = (np.abs(self.origin) + (np.abs(centre) + half) @ np.abs(self.axes).T)[:, : working.shape[1]]

        def block(y: Array, design: Array) -> tuple[Array, ...]:
            eta = design @ working.T
            moved = np.abs(design @ location_axes) @ half.T
            # How far rounding can displace a predictor: features of 1e8 leave it 1e-8 per unit of theta.
            blur = ROUNDING * (np.abs(design) @ extent.T)
            moved += 2.0 * blur + 1e-300
            cell = Cell(eta_low=eta - moved, eta_high=eta + moved, scale_low=scale_low, scale_high=scale_high)
            least = posterior.loss.family.loss_minimum(y, cell, beta)
            bend, scale_bend = posterior.loss.family.loss_concavity(y, cell, beta)
            loss = posterior.loss.derivatives(y, eta, beta, scale, order=1)
            # The slope of the plane is a sum, and so are its errors: they count as far as the cell reaches.
            rounding = 4.0 * blur + summing * (np.abs(design) @ reach[:, : design.shape[1]].T)
            sideways = 0.5 * bend * np.square(moved) + np.abs(loss.d_eta) * rounding
            spread = sideways
            if scale_bend is not None and loss.d_scale is not None and scale is not None:
                turned = summing * np.abs(loss.d_scale * scale) * log_reach
                spread = sideways + 0.5 * scale_bend * np.square(log_reach) + turned
            # A record that the plane would bound worse than its smallest loss does contributes that instead.
            level = loss.value - least < spread
            value = np.where(level, least, loss.value - spread)
            gradient = np.zeros((len(centre), self.dim))
            gradient[:, : design.shape[1]] = np.where(level, 0.0, loss.d_eta).T @ design
            if loss.d_scale is not None and scale is not None:
                gradient[:, -1] = np.where(level, 0.0, loss.d_scale * scale).sum(axis=0)
            # Which sides are to blame for the gap that the bound leaves: by the share of each in the spread.
            gap = np.minimum(loss.value - least, spread)
            share = gap * sideways / np.maximum(spread, 1e-300)
            blame = (share / moved).T @ np.abs(design @ location_axes) * half
            if has_scale:
                blame[:, -1] = (gap - share).sum(axis=0)
            return least.sum(axis=0), value.sum(axis=0), gradient, blame

        least, value, gradient, blame = posterior.sum_over_blocks(block, 2 * len(centre))
        flat = self._largest_log_prior(low, high) - weight * least
        prior_value, prior_gradient = self._log_prior(natural)
        plane = prior_value - weight * value
        slope = (prior_gradient - weight * gradient) @ self.axes
        # A slope too slight to tell from none would lose its digits in the inverse distribution function.
        slight = np.abs(slope) * half < 1e-8
        plane += np.where(slight, np.abs(slope) * half, 0.0).sum(axis=1)
        slope = np.where(slight, 0.0, slope)
        # Compare by mass: a plane is worth what it integrates to, not its value at the centre.
        plane_mass = plane + log_tilt(np.abs(slope) * half).sum(axis=1)
        use_plane = plane_mass < flat
        outside = np.zeros(len(centre), dtype=bool)
        if posterior.prior.box is not None:
            edge = posterior.prior.box * posterior.prior.scale
            location = slice(None, -1) if has_scale else slice(None)
            outside |= ((low[:, location] > edge) | (high[:, location] < -edge)).any(axis=1)
        height = np.where(outside, -np.inf, np.where(use_plane, plane, flat) + self.slack)
        blame = weight * blame + 0.5 * np.square(half) * np.square(self.axes / posterior.prior.scale).sum(
            axis=0
        )
        return height, np.where((use_plane & ~outside)[:, None], slope, 0.0), blame.argmax(axis=1)

    def _log_prior(self, natural: Array) -> tuple[Array, Array]:
        """Unnormalised log prior of (coefficients, log scale), concave, not truncated, and its gradient."""
        prior = self.posterior.prior
        gradient = -natural / prior.scale**2
        if prior.noise is None:
            return -0.5 * np.square(natural / prior.scale).sum(axis=1), gradient
        value = -0.5 * np.square(natural[:, :-1] / prior.scale).sum(axis=1)
        shape, rate, log_scale = prior.noise.shape, prior.noise.rate, natural[:, -1]
        precision = rate * np.exp(-2.0 * log_scale)
        gradient[:, -1] = -2.0 * shape + 2.0 * precision
        return value - 2.0 * shape * log_scale - precision, gradient

    def _largest_log_prior(self, low: Array, high: Array) -> Array:
        """The largest ``_log_prior`` over each box: every coordinate is unimodal, so at its clipped peak."""
        best = np.clip(0.0, low, np.maximum(low, high))
        noise = self.posterior.prior.noise
        if noise is not None:
            peak = 0.5 * math.log(noise.rate / noise.shape)
            best[:, -1] = np.clip(peak, low[:, -1], np.maximum(low[:, -1], high[:, -1]))
        return self._log_prior(best)[0]

    def _log_density(self, natural: Array) -> Array:
        """The unnormalised log posterior at proposals, -inf outside the box; same constants as the bounds."""
        posterior = self.posterior
        value = self._log_prior(natural)[0] - posterior.weight * posterior.summed_loss(
            natural[:, :-1] if posterior.has_scale else natural,
            np.exp(natural[:, -1])[None, :] if posterior.has_scale else None,
        )
        return np.where(self._inside(natural), value, -np.inf)

    def _inside(self, natural: Array) -> AnyArray:
        prior = self.posterior.prior
        assert prior.box is not None
        location = natural[:, :-1] if prior.noise is not None else natural
        inside = (np.abs(location) <= prior.box * prior.scale).all(axis=1)
        if prior.noise is not None:
            scale = np.exp(natural[:, -1])
            inside &= (scale > prior.noise.floor) & (scale <= prior.noise.ceiling)
        return np.asarray(inside)

    # -- frame

    def _root(self) -> tuple[Array, Array]:
        """The smallest box in v that covers the public box."""
        prior = self.posterior.prior
        assert prior.box is not None
        low, high = np.full(self.dim, -prior.box * prior.scale), np.full(self.dim, prior.box * prior.scale)
        if prior.noise is not None:
            low[-1], high[-1] = math.log(prior.noise.floor), math.log(prior.noise.ceiling)
        back = np.linalg.inv(self.axes)
        centre = back @ (0.5 * (low + high) - self.origin)
        reach = np.abs(back) @ (0.5 * (high - low)) * (1.0 + 1e-12) + 1e-12
        return centre - reach, centre + reach

    def _slack(self) -> float:
        """More than rounding and tabulation errors can add up to in a sum over all records."""
        posterior = self.posterior
        bounds = posterior.loss.loss_bounds(posterior.beta)
        size = max(abs(bounds.lower), abs(bounds.upper))
        n, prior = posterior.num_records, posterior.prior
        assert prior.box is not None
        log_prior = prior.box**2 * self.dim
        if prior.noise is not None:
            log_prior += prior.noise.rate / prior.noise.floor**2 + 2.0 * prior.noise.shape * abs(
                math.log(prior.noise.floor)
            )
        # Of the sum that is the bound and of the one that is the density.
        summing = summation_error(n, FEWEST_COLUMNS) + FINAL * UNIT
        per_record = 2.0 * (summing * size + INTEGRAL_ERROR * max(1.0, size))
        return 1e-9 + ROUNDING * log_prior + posterior.weight * n * per_record

    def _to_working(self, natural: Array) -> Array:
        noise = self.posterior.prior.noise
        if noise is None:
            return natural
        # Inside means scale > floor, so the logarithm exists.
        return np.column_stack([natural[:, :-1], np.log(np.exp(natural[:, -1]) - noise.floor)])


def _frame(posterior: Posterior, rng: np.random.Generator) -> tuple[Array, Array]:
    """Origin and axes: the mode with most mass, and the principal axes of its Gaussian approximation."""
    # By mass: a spike where one outlier is fitted may be the highest mode, and would be a useless yardstick.
    mode = max(
        find_modes(posterior, rng), key=lambda m: m.log_density - 0.5 * np.linalg.slogdet(m.precision)[1]
    )
    location = posterior.dim - int(posterior.has_scale)
    # A rotation and no more: a skewed frame would cut the public box into slivers that no cell fits.
    values, vectors = np.linalg.eigh(mode.precision[:location, :location])
    axes = np.zeros((posterior.dim, posterior.dim))
    axes[:location, :location] = vectors / np.sqrt(np.maximum(values, 0.1 / posterior.prior.scale**2))
    origin = mode.location.copy()
    if posterior.prior.noise is not None:
        scale = float(posterior.prior.noise.scale(mode.location[-1:])[0])
        origin[-1] = math.log(scale)
        step = (scale - posterior.prior.noise.floor) / scale  # d log scale / du
        axes[-1, -1] = max(step / math.sqrt(mode.precision[-1, -1]), 1e-3)
    return origin, axes
