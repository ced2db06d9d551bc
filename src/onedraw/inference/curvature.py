# SPDX-License-Identifier: Apache-2.0
"""The curvature and the expected score of a fit as functions of the law of its rows.

In a cell (``rows``) the rows are normal with mean m and covariance Sigma, so Stein's lemma gives, with eta =
z'theta ~ N(a, q), a = m'theta, q = theta' Sigma theta and s = Sigma theta,

    E mu(eta) z    = e_(-1) m + e_0 s                                              (expected score)
    E v(eta) z z'  = e_0 (Sigma + m m') + e_1 (s m' + m s') + e_2 s s'             (curvature)

with the normal means e_k of ``weight``; the cells add up. Rows are not normal; the formula is used for what
it says about the *shape* of the curvature: by how much it is smaller along theta (e_2 < 0), and how it
changes between the released and the true parameters. Shrinking a noisy curvature to a multiple of M instead
would make it too large along theta, which is where the ridge's bias points. A free factor in front
(``scale``) and the free M absorb what is not normal, so that with little noise the released matrix is
followed, not the formula.

Everything is batched over the leading axis. ``pullback`` is the reverse mode by hand: from the gradient with
respect to the curvature to that with respect to the law of the rows.

>>> import numpy as np
>>> from onedraw.inference.weight import LogisticWeight
>>> rows = Rows.of_moments(np.eye(2)[None], intercept=True)
>>> row_law(LogisticWeight(), rows, np.array([[0.0, 2.0]])).curvature.round(3).tolist()
[[[0.151, 0.0], [0.0, 0.061]]]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onedraw.inference.classes import ClassRowLaw, ClassWeight, class_row_law
from onedraw.inference.rows import Rows, RowsGradient
from onedraw.inference.weight import Weight
from onedraw.types import AnyArray, Array


@dataclass(frozen=True, kw_only=True)
class RowLaw:
    """A batch (B) of laws of rows at parameters theta, with the normal means of the weight in every cell."""

    weight: Weight
    rows: Rows
    theta: Array  # (B, p)
    slope: Array  # (B, p), s = Sigma theta
    means: Array  # (6, B, C), e_(-1) ... e_4

    @property
    def curvature(self) -> Array:
        """E v z z' (B, p, p)."""
        _, e0, e1, e2, _, _ = self.rows.weight * self.means
        mean, slope = self.rows.mean, self.slope
        out = e0.sum(1)[:, None, None] * self.rows.covariance
        weighted = (e0[:, :, None] * mean).transpose(0, 2, 1)
        out += weighted * mean if mean.shape[1] == 1 else weighted @ mean
        cross = slope[:, :, None] * (e1[:, None] @ mean)
        out += cross
        out += cross.transpose(0, 2, 1)
        out += e2.sum(1)[:, None, None] * slope[:, :, None] * slope[:, None, :]
        return np.asarray(out)

    @property
    def jacobian(self) -> Array:
        """The derivative of the score by theta (B, p, p)."""
        return self.curvature

    @property
    def score(self) -> Array:
        """E mu z (B, p)."""
        before, e0, *_ = self.rows.weight * self.means
        return np.asarray((before[:, None] @ self.rows.mean)[:, 0] + e0.sum(1)[:, None] * self.slope)

    def at(self, theta: Array, which: AnyArray) -> RowLaw:
        """Some members of the batch, by a mask, at other parameters (n, p)."""
        return _row_law(self.weight, self.rows.chosen(which), theta)

    def pullback(self, gradient: Array) -> RowsGradient:
        """The derivatives by the law of the rows from the symmetric d l/d curvature, G (B, p, p).

        A cell adds w (e_0 T + 2 e_1 U + e_2 V) to <G, curvature>, T = <G, Sigma> + m'Gm, U = s'Gm, V = s'Gs.
        Derivatives of e_k are e_(k+1) in a and e_(k+2)/2 in q, and da = theta.dm, ds = dSigma theta, dq =
        theta' dSigma theta.
        """
        weight, mean, theta, slope = self.rows.weight, self.rows.mean, self.theta, self.slope
        _, e0, e1, e2, e3, e4 = self.means
        by_mean = mean @ gradient
        by_slope = (gradient @ slope[:, :, None])[:, :, 0]
        whole = np.einsum("bij,bij->b", gradient, self.rows.covariance)[:, None] + (by_mean * mean).sum(2)
        cross = 2.0 * (by_mean @ slope[:, :, None])[:, :, 0]
        square = (slope * by_slope).sum(1, keepdims=True)
        d_centre = weight * (whole * e1 + cross * e2 + square * e3)
        d_variance = 0.5 * (weight * (whole * e2 + cross * e3 + square * e4)).sum(1, keepdims=True)
        w0, w1, w2 = weight * e0, weight * e1, (weight * e2).sum(1, keepdims=True)
        d_slope = 2.0 * ((w1[:, None] @ by_mean)[:, 0] + w2 * by_slope)
        half = theta[:, :, None] * (0.5 * d_slope + 0.5 * d_variance * theta)[:, None, :]
        d_mean = 2.0 * (w0[:, :, None] * by_mean + w1[:, :, None] * by_slope[:, None])
        return RowsGradient(
            weight=whole * e0 + cross * e1 + square * e2,
            mean=d_mean + d_centre[:, :, None] * theta[:, None],
            covariance=w0.sum(1)[:, None, None] * gradient + half + half.transpose(0, 2, 1),
        )


def row_law(weight: Weight | ClassWeight, rows: Rows, theta: Array) -> RowLaw | ClassRowLaw:
    """The law of ``rows`` at ``theta`` (B, p), of several classes (B, q p), the parameters of a fit.

    ``at`` moves the truth to other parameters. With one predictor the score is taken as a function of those
    alone; of classes it remains that of the fit.
    """
    if isinstance(weight, ClassWeight):
        return class_row_law(weight, rows, theta)
    return _row_law(weight, rows, theta)


def _row_law(weight: Weight, rows: Rows, theta: Array) -> RowLaw:
    slope = (rows.covariance @ theta[:, :, None])[:, :, 0]
    centre = (rows.mean @ theta[:, :, None])[:, :, 0]
    variance = np.broadcast_to((slope * theta).sum(1, keepdims=True), centre.shape)
    means = weight.normal_means(centre.ravel(), variance.ravel()).reshape(6, *centre.shape)
    return RowLaw(weight=weight, rows=rows, theta=theta, slope=slope, means=means)
