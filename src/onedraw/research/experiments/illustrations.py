# SPDX-License-Identifier: Apache-2.0
"""What one record does to the posterior: its update (figure 1) and its influence (figure 5).

Nothing here is sampled: curves are formulas, and posteriors of two parameters are summed on a fine grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onedraw.families import Bernoulli, Gaussian
from onedraw.losses import BetaDivergence, Gibbs
from onedraw.losses.base import Loss
from onedraw.priors import Prior, ScalePrior
from onedraw.privacy import calibrate
from onedraw.research.experiments.gaussian_calibration import FLOOR, published_beta, true_epsilon
from onedraw.research.experiments.methods import beta_mechanism, gibbs_weight
from onedraw.research.experiments.spec import Cell, Claim, Experiment, Row, Verdict, View, stream
from onedraw.research.experiments.table import distinct, select
from onedraw.types import Array

EPSILON = 6.0
FAR_AWAY = 1e6
PUBLISHED_BETA, PUBLISHED_WEIGHT = 1.33, 0.09

# -- figure 1


def update_cells(version: str, *, points: int) -> list[Cell]:
    """One cell per curve."""
    curves = {"classification": ("Bayes", "Gibbs", "beta"), "regression": ("Gibbs", "beta")}
    return [
        {"version": version, "panel": panel, "update": update, "points": points}
        for panel, updates in curves.items()
        for update in updates
    ]


def run_update(cell: Cell) -> list[Row]:
    """A curve: the normalised update of y = 1, or the weighted loss of a residual."""
    published, update, points = cell["version"] == "as-published", cell["update"], int(cell["points"])
    loss: Loss
    if cell["panel"] == "classification":
        x = np.linspace(-10.0, 10.0, points)
        if update == "beta":
            found = beta_mechanism(EPSILON, "auto").calibrated
            beta, weight = (PUBLISHED_BETA, 1.0) if published else (found.beta, found.weight)
            loss, truth = BetaDivergence(Bernoulli()), f"epsilon {2.0 * weight / (beta - 1.0):.3g}"
            label = f"β-divergence, β = {beta:.3g}, w = {weight:.3g}"
        else:
            beta, loss = 1.0, Gibbs(Bernoulli())
            weight = PUBLISHED_WEIGHT if published else gibbs_weight(EPSILON, 3, "corrected")
            label, truth = f"Gibbs, w = {weight:.2g}", "epsilon 6 and delta 1e-5 for bounded features only"
            if update == "Bayes":
                weight, label, truth = 1.0, "Bayes", "none"
        ones, zeros = (np.full(points, y) for y in (1.0, 0.0))
        log_odds = weight * (loss.value(zeros, x, beta) - loss.value(ones, x, beta))
        y = 1.0 / (1.0 + np.exp(-log_odds))
    else:
        x = np.linspace(0.0, 20.0, points)
        scale = np.ones(points)
        if update == "beta":
            b = published_beta(EPSILON, 1.0)
            found = calibrate("gaussian", epsilon=EPSILON, noise_floor=FLOOR, noise_scale=1.0)
            beta, weight = (1.0 + b, 1.0) if published else (found.beta, found.weight)
            loss, truth = BetaDivergence(Gaussian(scale_floor=FLOOR)), _gaussian_truth(beta - 1.0, weight)
            label = f"β-divergence, β = {beta:.3g}, w = {weight:.2g}"
        else:
            beta, weight, loss = 1.0, PUBLISHED_WEIGHT, Gibbs(Gaussian(scale_floor=FLOOR))
            label, truth = f"Gibbs, w = {weight:g}", "none: the loss is unbounded"
        value = loss.value(x, np.zeros(points), beta, scale)
        y = weight * (value - value[0])
    return [
        {"curve": label, "guarantee": truth, "x": float(a), "value": float(b)}
        for a, b in zip(x, y, strict=True)
    ]


def _gaussian_truth(b: float, weight: float) -> str:
    return f"epsilon {true_epsilon(b, weight):.3g} (claimed {EPSILON:g})"


def _closer_to_bayes(rows: Sequence[Row]) -> Verdict:
    panel = select(rows, panel="classification")
    curves = {
        str(u): np.array([r["value"] for r in select(panel, update=u)]) for u in distinct(panel, "update")
    }
    away = {name: np.abs(curves[name] - curves["Bayes"]) for name in ("Gibbs", "beta")}
    right = int((away["beta"] <= away["Gibbs"] + 1e-12).sum())
    numbers = (
        f"largest distance from the Bayes update {away['beta'].max():.3f} for beta-divergence, "
        f"{away['Gibbs'].max():.3f} for Gibbs, over linear predictors from -10 to 10."
    )
    return Verdict(right, len(curves["Bayes"]), numbers)


def _bounded(rows: Sequence[Row]) -> Verdict:
    panel = select(rows, panel="regression")
    ranges = {
        str(u): max(float(r["value"]) for r in select(panel, update=u)) for u in distinct(panel, "update")
    }
    late = [float(r["value"]) for r in select(panel, update="Gibbs")]
    growing = late[-1] > 3.0 * late[len(late) // 2]
    truth = select(panel, update="beta")[0]["guarantee"]
    numbers = (
        f"weighted loss at residuals up to 20: at most {ranges['beta']:.3f} for beta-divergence ({truth}), "
        f"and {ranges['Gibbs']:.1f} and growing as the square for Gibbs."
    )
    return Verdict(int(growing and ranges["beta"] < 0.5 * EPSILON + 1e-9), 1, numbers)


UPDATE = Experiment(
    name="update",
    figures="1",
    title="The update by one record",
    sizes={"paper": {"points": 401}, "smoke": {"points": 41}},
    cells=update_cells,
    run=run_update,
    by=("version", "panel", "update", "curve", "guarantee", "x"),
    values=("value",),
    views=(
        View(
            name="classification",
            title="Figure 1, left: update of y = 1 in logistic regression, epsilon 6",
            x="x",
            y="value",
            x_label="linear predictor",
            y_label="normalised exp(−w·loss)",
            curve="curve",
            where={"panel": "classification"},
        ),
        View(
            name="regression",
            title="Figure 1, right: weighted loss in Gaussian regression",
            x="x",
            y="value",
            x_label="residual, in standard deviations",
            y_label="w·loss, from its smallest value",
            curve="curve",
            ceiling=8.0,
            where={"panel": "regression"},
        ),
    ),
    claims=(
        Claim(
            statement="At equal epsilon the beta-divergence update is closer to Bayes than the Gibbs update.",
            check=_closer_to_bayes,
        ),
        Claim(
            statement="In Gaussian regression the beta-divergence bounds the loss; no weight bounds Gibbs.",
            check=_bounded,
        ),
    ),
    notes={
        "as-published": (
            "beta = 1.33 and w = 0.09 at epsilon 6. For Gaussian regression beta is that of the published "
            "code, whose true epsilon with a variance floor of 0.01 is in the label."
        ),
        "corrected": "Beta and weight chosen together; the Gibbs weight is exact for features of norm √3.",
    },
)


# -- figure 5


def influence_cells(version: str, *, betas: Sequence[float], grid: int, distances: int) -> list[Cell]:
    """One cell per loss; beta 1 is the log loss."""
    return [
        {"version": version, "beta": beta, "grid": grid, "distances": distances, "records": 1000}
        for beta in betas
    ]


def run_influence(cell: Cell) -> list[Row]:
    """Fisher-Rao distance between posteriors with and without a record, by the record's distance."""
    beta, grid, distances = float(cell["beta"]), int(cell["grid"]), int(cell["distances"])
    family = Gaussian(scale_floor=FLOOR)
    loss: Loss = Gibbs(family) if beta == 1.0 else BetaDivergence(family)
    weight, label, truth = 1.0, "log loss", "none"
    if beta > 1.0:
        if cell["version"] == "corrected":
            weight = calibrate("gaussian", epsilon=EPSILON, noise_floor=FLOOR, beta=beta).weight
        truth = f"epsilon {true_epsilon(beta - 1.0, weight):.3g}"
        label = f"β = {beta:g}, w = {weight:.2g}"
    records = stream("influence", int(cell["seed"])).standard_normal(int(cell["records"]))
    prior = Prior(scale=3.0, noise=ScalePrior(floor=FLOOR))
    mean, scale, mass = _posterior_grid(loss, beta, weight, prior, records, grid)
    centre = float(mean @ mass)

    def influence(distance: float) -> float:
        tilt = -weight * loss.value(np.full_like(mean, centre + distance), mean, beta, scale)
        other = mass * np.exp(tilt - tilt.max())
        return math.acos(min(1.0, float(np.sqrt(mass * other / other.sum()).sum())))

    return [
        {
            "curve": label,
            "guarantee": truth,
            "distance": float(distance),
            "influence": influence(distance),
            "far_away": influence(FAR_AWAY),
        }
        for distance in np.linspace(0.0, 10.0, distances)
    ]


def _posterior_grid(
    loss: Loss, beta: float, weight: float, prior: Prior, records: Array, grid: int
) -> tuple[Array, Array, Array]:
    """Grid points (mean, scale) and their posterior mass: a coarse grid finds where, a fine one sums."""
    low, high = np.array([-1.5, 0.3]), np.array([1.5, 3.0])
    for _ in range(3):
        axes = [np.linspace(a, b, grid) for a, b in zip(low, high, strict=True)]
        mean, scale = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
        assert prior.noise is not None
        log_mass = prior.noise.log_density_of_scale(scale) - 0.5 * np.square(mean / prior.scale)
        for block in np.array_split(records, 20):
            log_mass = log_mass - weight * loss.value(
                block[:, None], np.broadcast_to(mean, (len(block), len(mean))), beta, scale[None, :]
            ).sum(axis=0)
        mass = np.exp(log_mass - log_mass.max())
        mass /= mass.sum()
        centre = np.array([mean @ mass, scale @ mass])
        spread = np.sqrt([np.square(mean - centre[0]) @ mass, np.square(scale - centre[1]) @ mass])
        step = (high - low) / (grid - 1)
        reach = np.maximum(7.0 * spread, 3.0 * step)
        low, high = np.maximum(centre - reach, [-np.inf, 1.001 * FLOOR]), centre + reach
    return mean, scale, mass


def _peaks(rows: Sequence[Row]) -> list[tuple[float, Row, Row]]:
    """Beta, the row of the largest influence, and the last row of each curve with beta > 1."""
    found = []
    for beta in distinct(rows, "beta"):
        if float(beta) > 1.0:
            curve = select(rows, beta=beta)
            found.append((float(beta), max(curve, key=lambda row: row["influence"]), curve[-1]))
    return found


def _rises_then_falls(rows: Sequence[Row]) -> Verdict:
    right, parts, peaks = 0, [], _peaks(rows)
    for beta, peak, last in peaks:
        right += 0.0 < float(peak["distance"]) < 10.0 and float(last["influence"]) < float(peak["influence"])
        parts.append(
            f"beta {beta:g}: {float(peak['influence']):.3f} at distance {float(peak['distance']):.1f}, "
            f"{float(last['influence']):.4f} at 10"
        )
    return Verdict(right, len(peaks), f"largest influence, {'; '.join(parts)}.")


def _falls_to_zero(rows: Sequence[Row]) -> Verdict:
    right, parts, peaks = 0, [], _peaks(rows)
    for beta, peak, last in peaks:
        share = float(last["far_away"]) / float(peak["influence"])
        right += share < 0.01
        parts.append(f"beta {beta:g}: {float(last['far_away']):.4f}, {share:.0%} of the peak")
    numbers = (
        f"infinitely far away, {'; '.join(parts)}. The loss of such a record still depends on the scale."
    )
    return Verdict(right, len(peaks), numbers)


def _log_loss_grows(rows: Sequence[Row]) -> Verdict:
    curve = [float(row["influence"]) for row in select(rows, beta=1.0)]
    steps = np.diff(curve[len(curve) // 5 :])
    numbers = f"{curve[len(curve) // 2]:.3f} at distance 5, {curve[-1]:.3f} at 10."
    return Verdict(int((steps > 0).all()), 1, numbers)


INFLUENCE = Experiment(
    name="influence",
    figures="5",
    title="Influence of one record on the posterior",
    sizes={
        "paper": {"betas": (1.0, 1.05, 1.1, 1.2, 1.5, 2.0), "grid": 201, "distances": 101},
        "smoke": {"betas": (1.0, 1.5), "grid": 61, "distances": 21},
    },
    cells=influence_cells,
    run=run_influence,
    by=("version", "beta", "curve", "guarantee", "distance"),
    values=("influence", "far_away"),
    views=(
        View(
            name="influence",
            title="Figure 5: influence of a record on the posterior of N(μ, σ²), n = 1000",
            x="distance",
            y="influence",
            x_label="distance of the record from the posterior mean",
            y_label="Fisher–Rao distance",
            curve="curve",
        ),
    ),
    claims=(
        Claim(statement="Under the log loss the influence grows with the distance.", check=_log_loss_grows),
        Claim(
            statement="Under the beta-divergence it rises to a peak and then falls.", check=_rises_then_falls
        ),
        Claim(statement="... to zero.", check=_falls_to_zero),
    ),
    notes={
        "as-published": "Weight 1; the label has the epsilon that holds with a variance floor of 0.01.",
        "corrected": "Weights for epsilon 6 at every beta, with a variance floor of 0.01.",
    },
)
