# SPDX-License-Identifier: Apache-2.0
"""The curvature and the expected score of a fit as functions of the second moments of its rows.

Let the rows z = (1, x) have second-moment matrix M = E z z' (M_00 = 1), so means m = M e_0 and covariance
Sigma = M - m m'. If z is normal, Stein's lemma gives, with eta = z'theta ~ N(a, q), a = m'theta,
q = theta' Sigma theta and s = Sigma theta,

    E mu(eta) z    = e_(-1) m + e_0 s                                   (expected score)
    E v(eta) z z'  = e_0 M + e_1 (s m' + m s') + e_2 s s'               (curvature)

with the normal means e_k of ``weight``. Rows are not normal; the formula is used for what it says about the
*shape* of the curvature: by how much it is smaller along theta (e_2 < 0), and how it changes between the
released and the true parameters. Shrinking a noisy curvature to a multiple of M instead would make it too
large along theta, which is where the ridge's bias points. A free factor in front (``scale``) and the free M
absorb what is not normal, so that with little noise the released matrix is followed, not the formula.

Everything is batched over the leading axis. ``pullback`` is the reverse mode by hand: from the gradient with
respect to the curvature to that with respect to M.

>>> import numpy as np
>>> from onedraw.inference.weight import LogisticWeight
>>> at = row_law(LogisticWeight(), np.eye(2)[None], np.array([[0.0, 2.0]]), intercept=True)
>>> at.curvature.round(3).tolist()
[[[0.151, 0.0], [0.0, 0.061]]]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.inference.classes import ClassRowLaw, ClassWeight, class_row_law
from onedraw.inference.weight import Weight
from onedraw.types import Array


@dataclass(frozen=True, kw_only=True)
class RowLaw:
    """A batch (B) of second-moment matrices at parameters theta, with the normal means of the weight."""

    moments: Array  # (B, p, p)
    theta: Array  # (B, p)
    mean: Array  # (B, p), m
    slope: Array  # (B, p), s = Sigma theta
    centre: Array  # (B,), a
    means: Array  # (6, B), e_(-1) ... e_4
    intercept: bool

    @property
    def curvature(self) -> Array:
        """E v z z' (B, p, p)."""
        _, e0, e1, e2, _, _ = (e[:, None, None] for e in self.means)
        cross = self.slope[:, :, None] * self.mean[:, None, :]
        square = self.slope[:, :, None] * self.slope[:, None, :]
        return np.asarray(e0 * self.moments + e1 * (cross + cross.transpose(0, 2, 1)) + e2 * square)

    @property
    def score(self) -> Array:
        """E mu z (B, p)."""
        return np.asarray(self.means[0][:, None] * self.mean + self.means[1][:, None] * self.slope)

    def pullback(self, gradient: Array) -> Array:
        """The symmetric d l/d M (B, p, p) from the symmetric d l/d curvature.

        With G the gradient: dl = e_0 <G, dM> + 2 e_1 (Gm.ds + Gs.dm) + 2 e_2 Gs.ds + (terms of de_k), and
        ds = dM theta - a dm - m da, dq = theta' dM theta - 2 a da, da = theta.dm, dm = dM e_0.
        """
        _, e0, e1, e2, e3, e4 = (e[:, None] for e in self.means)
        theta, mean, slope, a = self.theta, self.mean, self.slope, self.centre[:, None]
        by_mean = (gradient @ mean[:, :, None])[:, :, 0]
        by_slope = (gradient @ slope[:, :, None])[:, :, 0]
        whole = np.einsum("bij,bij->b", gradient, self.moments)[:, None]
        cross = 2.0 * (slope * by_mean).sum(1, keepdims=True)
        square = (slope * by_slope).sum(1, keepdims=True)
        d_slope = 2.0 * (e1 * by_mean + e2 * by_slope)
        d_variance = 0.5 * (whole * e2 + cross * e3 + square * e4)
        out = e0[:, :, None] * gradient
        half = theta[:, :, None] * (0.5 * d_slope + 0.5 * d_variance * theta)[:, None, :]
        out += half + half.transpose(0, 2, 1)
        if self.intercept:
            d_centre = whole * e1 + cross * e2 + square * e3
            d_centre = d_centre - (d_slope * mean).sum(1, keepdims=True) - 2.0 * a * d_variance
            d_mean = 2.0 * e1 * by_slope - a * d_slope + d_centre * theta
            out[:, :, 0] += 0.5 * d_mean
            out[:, 0, :] += 0.5 * d_mean
        return np.asarray(out)


def row_law(
    weight: Weight | ClassWeight, moments: Array, theta: Array, *, intercept: bool
) -> RowLaw | ClassRowLaw:
    """The law of rows with ``moments`` (B, p, p) at ``theta`` (B, p); rows have mean 0 without an intercept.

    With an intercept it is coordinate 0, and moments[:, 0, 0] must be 1. Several classes have parameters
    (B, q p).
    """
    if isinstance(weight, ClassWeight):
        return class_row_law(weight, moments, theta, intercept=intercept)
    mean = moments[:, :, 0] if intercept else np.zeros_like(theta)
    centre = (mean * theta).sum(1)
    slope = (moments @ theta[:, :, None])[:, :, 0] - mean * centre[:, None]
    variance = (slope * theta).sum(1)
    means = weight.normal_means(centre, variance)
    return RowLaw(
        moments=moments,
        theta=theta,
        mean=mean,
        slope=slope,
        centre=centre,
        means=means,
        intercept=intercept,
    )
