# SPDX-License-Identifier: Apache-2.0
"""Auditing one subject: the strongest attack that fits it, and the threshold that exact laws call best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from onedraw._random import generator
from onedraw._validate import whole
from onedraw.audit.attack import Attack, membership_attack
from onedraw.audit.black_box import black_box_audit
from onedraw.audit.bounds import many_bounds, significance
from onedraw.audit.chain_steps import is_one_chain_step, one_step_laws
from onedraw.audit.densities import has_exact_density, has_known_density, known_density
from onedraw.audit.exact import Laws, output_laws, worst_pair
from onedraw.audit.finding import Finding
from onedraw.audit.pairs import Pair
from onedraw.audit.releasing import release
from onedraw.audit.subjects.subject import Subject
from onedraw.audit.tilted_density import Tilt, has_tilted_density, tilted_laws, worst_tilted_pair
from onedraw.mechanisms import Mechanism, PrivateSGLD
from onedraw.records import Records
from onedraw.types import Array, Neighbours


@dataclass(frozen=True, kw_only=True, eq=False)
class Released:
    """``fit(X, y, random_state)`` for a mechanism: what can be read off one release of the records."""

    mechanism: Mechanism
    read: Callable[[Records], Any]
    """How the mechanism reads them."""

    def __call__(self, X: Array, y: Array, random_state: int | None = None) -> Array:
        """The draw and the statistics beside it.

        Of several draws, their means and spreads, which is what a posterior depends on here.
        """
        found = release(self.mechanism, self.read(Records(features=X, response=y)), random_state)
        draws = np.array(found.draws)
        parts = [draws[0]] if len(draws) == 1 else [draws.mean(axis=0), np.log(draws.std(axis=0) + 1e-300)]
        return np.concatenate([*parts, *(statistic.array() for statistic in found.statistics.values())])


def audit_subject(
    subject: Subject,
    *,
    epsilon: float,
    delta: float | None = None,
    neighbours: Neighbours = "replace_one",
    rounds: int = 10_000,
    pair: str = "telling",
    tries: int = 200,
    confidence: float = 0.95,
    random_state: int | None = None,
    n_jobs: int | None = None,
    checkpoint: str | None = None,
    progress: bool = False,
) -> Finding:
    """Audit one mechanism at one guarantee; ``rounds`` are on both data sets together."""
    whole(rounds=rounds, minimum=2, remedy="Half of them are run on each data set.")
    significance(confidence)
    mechanism = subject.calibrated(epsilon=epsilon, delta=delta, neighbours=neighbours, rounds=rounds)
    claimed = mechanism.guarantee
    stated = subject.stated(mechanism)
    drawn = stated is not None
    if not drawn and not has_known_density(mechanism):
        candidates = subject.canaries(neighbours) if pair == "telling" else subject.pairs(neighbours, pair)
        own_score = subject.score if pair == "telling" else None
        return black_box_audit(
            Released(mechanism=mechanism, read=subject.read),
            candidates if own_score is None else candidates[:1],
            score=own_score or "learned",
            epsilon=claimed.epsilon,
            delta=claimed.delta,
            runs=max(12, rounds // 2),
            confidence=confidence,
            random_state=random_state,
            n_jobs=n_jobs,
            checkpoint=checkpoint,
            progress=progress,
            name=subject.name,
        )
    mechanism = stated or mechanism
    rng, _ = generator(random_state)
    candidates = subject.pairs(neighbours, pair)
    laws_of = output_laws if drawn else _laws_of(mechanism)
    known = [laws_of(mechanism, candidate) for candidate in candidates]
    expected = [best_cut(laws, rounds, claimed.delta) for laws in known]
    best = int(np.argmax([bound for bound, _ in expected]))
    attack = membership_attack(mechanism, candidates[best], rounds=rounds, random_state=rng)
    worst = None
    if tries and drawn:
        worst = worst_pair(mechanism, tries=tries, random_state=rng).laws
    elif tries and has_tilted_density(mechanism):
        worst = worst_tilted_pair(Tilt.of(mechanism))
    return Finding(
        name=subject.name,
        claimed=claimed,
        # The threshold that exact laws call best, fixed before any round is run.
        attack=Attack(
            negatives=attack.negatives,
            positives=attack.positives,
            threshold=expected[best][1],
        ),
        laws=known[best] if drawn or has_exact_density(mechanism) else None,
        worst=worst,
        pair=candidates[best].name,
        confidence=confidence,
    )


def _laws_of(mechanism: Any) -> Callable[[Any, Pair], Laws]:
    """How the laws of a mechanism that is no posterior draw are computed."""
    if is_one_chain_step(mechanism) and mechanism.name != PrivateSGLD.name:  # which has a normal law
        return one_step_laws
    return tilted_laws if has_tilted_density(mechanism) else _noise_laws


def _noise_laws(mechanism: Any, pair: Pair) -> Laws:
    """The laws of noise around two locations, on evenly spaced nodes of the line through them.

    For one parameter the line is everything; normal noise looks the same everywhere off it.
    """
    densities = [known_density(mechanism, data) for data in (pair.first, pair.second)]
    between = densities[1].location - densities[0].location
    distance, reach = float(np.linalg.norm(between)), 40.0 * densities[0].scale
    along = between / distance if distance > 0.0 else np.eye(len(between))[0]
    places = np.linspace(-reach, distance + reach, 8001)
    nodes = densities[0].location + places[:, None] * along
    logs = [density.log_density(nodes) for density in densities]
    first, second = (log - special.logsumexp(log) for log in logs)
    return Laws(nodes=nodes, log_first=first, log_second=second)


def best_cut(laws: Laws, rounds: int, delta: float = 0.0) -> tuple[float, float]:
    """The bound that the best attack with so many rounds should give, and its cut of log second/first."""
    half = max(1, rounds // 2)
    false_positive, false_negative = laws.trade_off()
    score = -np.sort(laws.loss)
    # A few hundred cuts, evenly spread over the outputs of either law.
    curves, shares = (false_positive, 1.0 - false_negative), np.linspace(0.0, 1.0, 200)
    spread = np.concatenate([np.searchsorted(curve, shares) for curve in curves])
    places = np.unique(np.clip(spread, 1, len(score) - 1))
    called, missed = (np.rint(half * rate[places]) for rate in (false_positive, false_negative))
    bounds = many_bounds(called, half, missed, half, 0.5 * significance(0.95), delta)
    best = int(bounds.argmax())
    return float(bounds[best]), float(0.5 * (score[places[best] - 1] + score[places[best]]))
