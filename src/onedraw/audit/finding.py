# SPDX-License-Identifier: Apache-2.0
"""What an audit found about one claim, as a value: the claim, the evidence, the verdict.

>>> import numpy as np
>>> from onedraw.audit.attack import Attack
>>> rng = np.random.default_rng(0)
>>> attack = Attack(negatives=rng.laplace(0, 1, 20000), positives=rng.laplace(1, 1, 20000), threshold=None)
>>> finding = Finding(name="a counter", claimed=Guarantee(epsilon=0.5), attack=attack)
>>> finding.verdict, round(finding.lower_bound.epsilon, 2)                # the noise was for epsilon 1
('contradicted', 0.91)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from onedraw.audit.attack import Attack
from onedraw.audit.bounds import Bound, Counts, bayesian, clopper_pearson, gaussian
from onedraw.audit.exact import Laws
from onedraw.errors import InvalidInput
from onedraw.privacy.guarantee import Guarantee


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """An attack, exact laws, or both, against a claimed guarantee.

    ``laws`` are those of the attacked pair; ``worst`` are those of the worst pair that a search found.
    """

    name: str
    claimed: Guarantee
    attack: Attack | None = None
    laws: Laws | None = None
    worst: Laws | None = None
    pair: str = ""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.attack is None and self.laws is None and self.worst is None:
            raise InvalidInput("Expected a finding with an attack, exact laws, or both.")

    @cached_property
    def counts(self) -> Counts | None:
        """The attack's errors, on the rounds that did not choose its threshold."""
        if self.attack is None:
            return None
        return self.attack.counts(delta=self.claimed.delta, confidence=self.confidence)

    @cached_property
    def bounds(self) -> dict[str, Bound]:
        """Lower bounds on epsilon at the claimed delta, by method."""
        if self.counts is None:
            return {}
        options: dict[str, float] = {"delta": self.claimed.delta, "confidence": self.confidence}
        found = [self.lower_bound, bayesian(self.counts, **options)]
        if self.claimed.delta > 0.0:
            found.append(gaussian(self.counts, **options))
        return {bound.method: bound for bound in found}

    @cached_property
    def lower_bound(self) -> Bound:
        """The one that a verdict rests on, because its coverage is guaranteed: exact binomial limits."""
        if self.counts is None:
            raise InvalidInput("This finding has no attack: ask for exact_epsilon.")
        return clopper_pearson(self.counts, delta=self.claimed.delta, confidence=self.confidence)

    @cached_property
    def exact_epsilon(self) -> float | None:
        """The smallest epsilon that the exact laws allow, where they are known; at most two parameters."""
        known = [laws.epsilon(self.claimed.delta) for laws in (self.laws, self.worst) if laws is not None]
        return max(known, default=None)

    @property
    def largest(self) -> float:
        """The largest epsilon shown, exactly or with confidence."""
        shown = [] if self.attack is None else [self.lower_bound.epsilon]
        return max([*shown, *([] if self.exact_epsilon is None else [self.exact_epsilon])])

    @property
    def contradicted(self) -> bool:
        """Whether the claim is refuted: exactly by more than rounding, or with the stated confidence."""
        exact = self.exact_epsilon is not None and self.exact_epsilon > self.claimed.epsilon * (1.0 + 1e-9)
        return exact or (self.attack is not None and self.lower_bound.contradicts(self.claimed.epsilon))

    @property
    def verdict(self) -> str:
        """Never "private": an audit can refute a claim, not prove it."""
        return "contradicted" if self.contradicted else "not contradicted"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        counts = self.counts
        return {
            "name": self.name,
            "pair": self.pair,
            "claimed": self.claimed.to_dict(),
            "confidence": self.confidence,
            "rounds": 0 if self.attack is None else self.attack.rounds,
            "success_rate": None if self.attack is None else self.attack.success_rate,
            "counts": None if counts is None else vars(counts),
            "lower_bounds": {name: bound.epsilon for name, bound in self.bounds.items()},
            "largest_possible_bound": None if counts is None else self.lower_bound.largest,
            "exact_epsilon": self.exact_epsilon,
            "verdict": self.verdict,
        }
