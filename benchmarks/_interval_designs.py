# SPDX-License-Identifier: Apache-2.0
"""Simulated regressions of the study of intervals: features, truths, responses and non-private errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from _category_designs import KINDS, Categories, category_table
from _public_tables import OPEN, TABLES, columns, drawn
from scipy.special import expit, softmax
from sklearn.datasets import load_diabetes

LAWS = ("uniform", "normal", "pairwise", "ar", "dummies", "rare", "heavy")
SETTINGS = ("private", "clustered", "spreading", "overdispersed", "patients")
"""Uniform features in other settings: a private number of rows; two rows a person, which share responses of
classes and half the variance of errors; errors whose spread grows with the first feature, with robust errors;
counts with gamma-distributed rates. "patients" are those of scikit-learn's table of diabetes,
three features and the response in the public ranges of examples/forest.py, drawn again with replacement."""
BOUNDED = ("uniform", "dummies", "rare", *SETTINGS, *TABLES)
MODELS = ("logistic", "linear", "poisson", "softmax")
RARE = {"logistic": -3.2, "poisson": -3.0}
NOISE = 0.5
CUT = 1.5


@dataclass(frozen=True)
class Cell:
    """One design of the study."""

    model: str
    law: str
    n: int
    d: int
    epsilon: float

    @property
    def name(self) -> str:
        return f"{self.model} {self.law} {self.n} {self.d} {self.epsilon:g}"

    @property
    def parameters(self) -> int:
        indicators = 0 if self.categories is None else self.categories.indicators
        return (self.d + indicators + 1) * (2 if self.model == "softmax" else 1)

    @property
    def categories(self) -> Categories | None:
        """The declared column of categories, if the law has one."""
        return Categories.of(self.law)

    def stream(self, seed: int, repeat: int) -> list[int]:
        place = [
            MODELS.index(self.model),
            self._law,
            self.n,
            self.d,
            round(1000 * self.epsilon),
        ]
        return [seed, *place, repeat]

    @property
    def _law(self) -> int:
        if columns(self.law) is not None:
            return 1000 + 2 * [*TABLES].index(self.law.removesuffix(OPEN)) + self.law.endswith(OPEN)
        if self.categories is None:
            return (*LAWS, *SETTINGS).index(self.law)
        return 100 * (KINDS.index(self.categories.kind) + 1) + self.categories.levels


@dataclass(frozen=True)
class Table:
    """Simulated records, the truth as a release reports it, and the non-private standard errors."""

    x: np.ndarray
    y: np.ndarray
    truth: np.ndarray
    plain: np.ndarray
    error: np.ndarray


def features(law: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    if law == "clustered":
        return np.repeat(rng.uniform(-1, 1, (n // 2, d)), 2, axis=0)
    if law in ("uniform", "rare", *SETTINGS):
        return rng.uniform(-1, 1, (n, d))
    if law == "dummies":
        return np.where(rng.random((n, d)) < rng.uniform(0.1, 0.9, d), 1.0, -1.0)
    if law == "heavy":
        return rng.standard_t(3, (n, d))
    x = rng.standard_normal((n, d))
    if law == "pairwise":
        x = np.sqrt(0.5) * (x + rng.standard_normal((n, 1)))
    if law == "ar":
        for j in range(1, d):
            x[:, j] = 0.7 * x[:, j - 1] + np.sqrt(0.51) * x[:, j]
    return x


def simulate(cell: Cell, rng: np.random.Generator) -> Table:
    """Coefficients are normal in units of the working rows: the features within bounds, or over 1.5."""
    if cell.law == "patients":
        return _patients(cell.n, rng)
    if cell.categories is not None:
        x, y, truth = category_table(cell.model, cell.categories, cell.n, cell.d, rng)
        return _with_errors(cell, x, y, truth)
    shift = np.zeros(cell.d)
    if columns(cell.law) is None:
        x = features(cell.law, cell.n, cell.d, rng)
    else:
        x, shift = drawn(cell.law, cell.n, rng)
    rows = np.column_stack([x, np.ones(cell.n)])
    spread = np.r_[np.full(cell.d, 0.42 if cell.law == "dummies" else 0.7), 0.5]
    if cell.model == "poisson":
        spread = 0.6 * spread
    if cell.law not in BOUNDED and columns(cell.law) is None:
        spread[:-1] /= CUT
    if cell.model == "softmax":
        return _softmax(x, rows, spread, rng)
    truth = spread * rng.standard_normal(cell.d + 1)
    truth[-1] -= shift @ truth[:-1]
    if cell.law == "rare":
        truth[-1] = RARE[cell.model]
    eta = rows @ truth
    if cell.model == "linear":
        y = eta + NOISE * _errors(cell, x, rng)
    elif cell.model == "poisson":
        frailty = rng.gamma(3.0, 1.0 / 3.0, cell.n) if cell.law == "overdispersed" else 1.0
        y = rng.poisson(frailty * np.exp(np.minimum(eta, 5.0))).astype(float)
    else:
        uniform = rng.random(cell.n)
        if cell.law == "clustered":
            uniform = np.repeat(uniform[::2], 2)
        y = (uniform < expit(eta)).astype(float)
    return _with_errors(cell, x, y, truth)


def _with_errors(cell: Cell, x: np.ndarray, y: np.ndarray, truth: np.ndarray) -> Table:
    """The records with the non-private fit of one predictor and its errors."""
    rows = np.column_stack([x, np.ones(cell.n)])
    if cell.model == "linear":
        plain = np.linalg.lstsq(rows, y, rcond=None)[0]
        inverse = np.linalg.inv(rows.T @ rows)
        middle = _score_products(cell, rows, y - rows @ plain)
        if cell.law not in SETTINGS:
            middle = np.sum((y - rows @ plain) ** 2) / (cell.n - len(truth)) * rows.T @ rows
        return Table(x, y, truth, plain, np.sqrt((inverse @ middle @ inverse).diagonal()))
    mean = variance_of = np.exp
    if cell.model == "logistic":
        mean, variance_of = expit, lambda e: expit(e) * expit(-e)
    plain = np.zeros(len(truth))
    for _ in range(50):
        eta = np.clip(rows @ plain, -30, 30)
        curvature = (rows * variance_of(eta)[:, None]).T @ rows + 1e-3 * np.eye(len(plain))
        step = np.linalg.solve(curvature, rows.T @ (y - mean(eta)) - 1e-3 * plain)
        plain = plain + step * min(1.0, 2.0 / np.abs(step).max())
        if np.abs(step).max() < 1e-9:
            break
    inverse = np.linalg.inv(curvature)
    if cell.law in SETTINGS:
        inverse = inverse @ _score_products(cell, rows, y - mean(rows @ plain)) @ inverse
    return Table(x, y, truth, plain, np.sqrt(inverse.diagonal()))


def _patients(n: int, rng: np.random.Generator) -> Table:
    """Patients and residuals of the least-squares fit, each drawn with replacement; that fit is the truth."""
    data = load_diabetes(as_frame=True, scaled=False)
    low, high = np.array([18.0, 70.0, 3.8]), np.array([35.0, 120.0, 5.6])
    x = (2.0 * data.data[["bmi", "bp", "s5"]].to_numpy() - low - high) / (high - low)
    rows, y = np.column_stack([x, np.ones(len(x))]), data.target.to_numpy() / 175.0 - 1.0
    truth = np.linalg.lstsq(rows, y, rcond=None)[0]
    again = rows[rng.integers(len(rows), size=n)]
    y = again @ truth + rng.choice(y - rows @ truth, n)
    plain = np.linalg.lstsq(again, y, rcond=None)[0]
    variance = np.sum((y - again @ plain) ** 2) / (n - 4)
    error = np.sqrt(variance * np.linalg.inv(again.T @ again).diagonal())
    return Table(again[:, :-1], y, truth, plain, error)


def _errors(cell: Cell, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Errors of a linear regression."""
    if cell.law == "heavy":
        return rng.standard_t(3, cell.n)
    noise = rng.standard_normal(cell.n)
    if cell.law == "clustered":
        return np.sqrt(0.5) * (noise + np.repeat(rng.standard_normal(cell.n // 2), 2))
    return noise * (0.4 + 2.0 * np.abs(x[:, 0])) if cell.law == "spreading" else noise


def _score_products(cell: Cell, rows: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """The middle of the sandwich, by persons."""
    scored = rows * residual[:, None]
    if cell.law == "clustered":
        scored = scored[::2] + scored[1::2]
    return scored.T @ scored


def _softmax(x: np.ndarray, rows: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> Table:
    """Three classes; the truth is class by class, coefficients first, and sums to zero over the classes."""
    p = rows.shape[1]
    truth = spread * rng.standard_normal((3, p))
    truth -= truth.mean(0)
    probabilities = softmax(rows @ truth.T, axis=1)
    y = (rng.random((len(x), 1)) > probabilities.cumsum(1)).sum(1)
    basis = np.linalg.qr(np.column_stack([np.ones(3), np.eye(3)[:, :2]]))[0][:, 1:]
    plain = np.zeros((2, p))
    for _ in range(50):
        pi = softmax(rows @ plain.T @ basis.T, axis=1)
        score = ((np.eye(3)[y] - pi) @ basis).T @ rows
        mean, blocks = pi @ basis, np.empty((2, p, 2, p))
        for a in range(2):
            for b in range(2):
                v = pi @ (basis[:, a] * basis[:, b]) - mean[:, a] * mean[:, b]
                blocks[a, :, b] = (rows * v[:, None]).T @ rows
        curvature = blocks.reshape(2 * p, 2 * p) + 1e-3 * np.eye(2 * p)
        step = np.linalg.solve(curvature, score.ravel()).reshape(2, p)
        plain = plain + step * min(1.0, 2.0 / np.abs(step).max())
        if np.abs(step).max() < 1e-9:
            break
    order = np.r_[[c * p + j for c in range(3) for j in range(p - 1)], [c * p + p - 1 for c in range(3)]]
    report = np.kron(basis, np.eye(p))[order]
    errors = np.sqrt(np.einsum("oi,ij,oj->o", report, np.linalg.inv(curvature), report))
    return Table(x, y, truth.ravel()[order], report @ plain.ravel(), errors)
