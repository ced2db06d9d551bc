# SPDX-License-Identifier: Apache-2.0
"""The law of the rows that an inference assumes: a mixture of normal laws over cells of categories.

A row z belongs to cell c with probability w_c. Given its cell it is normal with mean m_c and covariance
Sigma, the same in all cells and zero for what the cell determines: the intercept and the indicators.
So the indicators of one column exclude one another *exactly*, in the second moments

    M = sum_c w_c m_c m_c' + Sigma

and in every curvature sum_c w_c E[v z z' | c], whatever the weights v. Rows without categories are one cell:
m = M e_0 with an intercept, else 0, and Sigma = M - m m'.

>>> import numpy as np
>>> rows = Rows.of_moments(np.array([[[1.0, 0.5], [0.5, 1.0]]]), intercept=True)
>>> rows.mean.tolist(), rows.covariance.tolist()
([[[1.0, 0.5]]], [[[0.0, 0.0], [0.0, 0.75]]])
>>> rows.moments.tolist()
[[[1.0, 0.5], [0.5, 1.0]]]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onedraw.types import AnyArray, Array


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A batch (B) of laws over C cells; in ``covariance`` only the rows and columns of ``free`` are not 0."""

    weight: Array  # (B, C)
    mean: Array  # (B, C, p)
    covariance: Array  # (B, p, p)
    free: slice

    @classmethod
    def of_moments(cls, moments: Array, *, intercept: bool) -> Rows:
        """One cell with second moments (B, p, p); an intercept is column 0, so moments[:, 0, 0] is 1."""
        batch, p, _ = moments.shape
        mean = moments[:, :, 0].copy() if intercept else np.zeros((batch, p))
        covariance = moments - mean[:, :, None] * mean[:, None, :]
        free = slice(int(intercept), p)
        return cls(weight=np.ones((batch, 1)), mean=mean[:, None], covariance=covariance, free=free)

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def size(self) -> int:
        """Entries of a row."""
        return int(self.mean.shape[2])

    @cached_property
    def moments(self) -> Array:
        """M (B, p, p)."""
        weighted = (self.weight[:, :, None] * self.mean).transpose(0, 2, 1)
        return np.asarray(self.covariance + weighted @ self.mean)

    def chosen(self, which: AnyArray) -> Rows:
        """Members of the batch, by their places or a mask."""
        return Rows(
            weight=self.weight[which],
            mean=self.mean[which],
            covariance=self.covariance[which],
            free=self.free,
        )

    def repeated(self, times: int) -> Rows:
        """The whole batch ``times`` times over."""
        return Rows(
            weight=np.concatenate([self.weight] * times),
            mean=np.concatenate([self.mean] * times),
            covariance=np.concatenate([self.covariance] * times),
            free=self.free,
        )


@dataclass(frozen=True, kw_only=True)
class RowsGradient:
    """Derivatives of a number with respect to the parts of ``Rows``; that of Sigma is symmetric."""

    weight: Array  # (B, C)
    mean: Array  # (B, C, p)
    covariance: Array  # (B, p, p)
