# SPDX-License-Identifier: Apache-2.0
"""Simulated regressions with a declared column of categories, beside numeric columns that depend on it.

A law "equal8" has eight equally common categories; of "uneven8" the shares fall in a straight line to 5% (or
to half of an equal share, if that is less), the reference being the third most common; of "rare8" the
reference is the rarest. "two5" is "uneven5" beside a second column of four categories (shares of 0.3 to 0.2)
that depends on the first. Numeric columns have means that differ by category. Columns are declared as a user
would declare them: indicators are made by the package.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

import onedraw

KINDS = ("equal", "uneven", "rare", "two")
NAME = re.compile(rf"^({'|'.join(KINDS)})(\d+)$")
SPREAD, NOISE, SHIFT = 0.7, 0.5, 0.2
SECOND, WORK = 4, ["w0", "w1", "w2", "w3"]


@dataclass(frozen=True)
class Categories:
    """The column of categories of a law."""

    kind: str
    levels: int

    @classmethod
    def of(cls, law: str) -> Categories | None:
        found = NAME.match(law)
        return None if found is None else cls(found[1], int(found[2]))

    @property
    def labels(self) -> list[str]:
        return [f"t{k:02d}" for k in range(self.levels)]

    @property
    def second(self) -> int:
        """Categories of the second column; 0 if there is none."""
        return SECOND if self.kind == "two" else 0

    @property
    def indicators(self) -> int:
        return self.levels - 1 + max(0, self.second - 1)

    @property
    def shares(self) -> np.ndarray:
        """Of the categories, the reference first."""
        if self.kind == "equal":
            return np.full(self.levels, 1.0 / self.levels)
        least = min(0.05, 0.5 / self.levels)
        down = np.linspace(1.0, 0.0, self.levels)
        falling = least + down * (1.0 - self.levels * least) / down.sum()
        first = self.levels - 1 if self.kind == "rare" else 2
        return np.r_[falling[first], np.delete(falling, first)]

    def columns(self, d: int) -> onedraw.Columns:
        numeric = {f"x{j}": (-1.0, 1.0) for j in range(d)}
        work = {"work": WORK} if self.second else {}
        return onedraw.Columns({**numeric, "town": self.labels, **work})

    def frame(self, x: np.ndarray) -> pd.DataFrame:
        """The table of a user: numeric columns, and the category that is met."""
        d = x.shape[1] - self.indicators
        first, last = x[:, d : d + self.levels - 1], x[:, d + self.levels - 1 :]
        table = {f"x{j}": x[:, j] for j in range(d)}
        table["town"] = np.array(self.labels)[_met(first)]
        if self.second:
            table["work"] = np.array(WORK)[_met(last)]
        return pd.DataFrame(table)


def _met(indicators: np.ndarray) -> np.ndarray:
    """The category that is met, from its indicators."""
    return (indicators * np.arange(1, indicators.shape[1] + 1)).sum(1).astype(int)


def category_table(
    model: str, categories: Categories, n: int, d: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (n, d + K - 1), responses, and the truth, coefficients first."""
    levels = categories.levels
    place = rng.choice(levels, n, p=categories.shares)
    shift = SHIFT * rng.standard_normal((levels, d))
    numeric = np.clip(shift[place] + rng.uniform(-0.7, 0.7, (n, d)), -1.0, 1.0)
    x = np.column_stack([numeric, place[:, None] == np.arange(1, levels)]).astype(float)
    spread = SPREAD * (0.6 if model == "poisson" else 1.0)
    effect = spread * rng.standard_normal(levels)
    truth = np.r_[spread * rng.standard_normal(d), effect[1:] - effect[0]]
    if categories.second:
        odds = np.array([0.3, 0.27, 0.23, 0.2]) * np.exp(0.5 * rng.standard_normal((levels, SECOND)))
        below = (odds / odds.sum(1, keepdims=True)).cumsum(1)[place]
        other = np.minimum((rng.random((n, 1)) > below).sum(1), SECOND - 1)
        x = np.column_stack([x, other[:, None] == np.arange(1, SECOND)])
        truth = np.r_[truth, spread * rng.standard_normal(SECOND - 1)]
    truth = np.r_[truth, effect[0]]
    eta = np.column_stack([x, np.ones(n)]) @ truth
    if model == "linear":
        return x, eta + NOISE * rng.standard_normal(n), truth
    if model == "poisson":
        return x, rng.poisson(np.exp(np.minimum(eta, 5.0))).astype(float), truth
    return x, (rng.random(n) < expit(eta)).astype(float), truth
