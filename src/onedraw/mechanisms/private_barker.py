# SPDX-License-Identifier: Apache-2.0
"""A Markov chain with Barker's acceptance, which is private by itself: no noise, and the posterior exactly.

Each step proposes a normal move and accepts it with probability 1/(1 + e^-u), u the log ratio of the
posterior at the two points over all records. A chain so made has the posterior as its stationary law, without
noise, penalty or clipped ratios, and each decision is an exponential mechanism on {accept, reject}.

Guarantee:
    (epsilon, delta)-DP, or epsilon-DP at delta = 0, for the whole chain and the first stage together. With
    Delta(d) = c m w min(W, G d) for a step of length d (``onedraw.chains.accounting``) a step has bounded
    range Delta, so it is Delta-DP and Delta^2/8 zero-concentrated DP (``onedraw.chains.rules``); a privacy
    filter makes no step that the budget does not pay for, and the first stage takes its share of epsilon
    before.

Without ``feature_norm`` a step costs Delta = c m w W however short it is, and no bound on the data is needed.
With it G = L_beta X (8/27 X at beta = 2), and short steps are cheap: for n records they are of order
1/sqrt(n), and the budget pays for a number of them that grows with n.

Edge cases:
    n = 0 is a chain on the prior. The number of steps depends on the lengths of the proposals alone, which no
    record has a part in.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms.base import Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> shape = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")), num_records=100_000)
>>> mechanism = PrivateBarker(feature_norm=3**0.5).calibrate(Request(epsilon=1.0, delta=1e-6), shape)
>>> mechanism.tuning.effective >= 5.0, 0.1 < mechanism.tuning.weight <= 1.0
(True, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from onedraw.chains.accounting import Sensitivity
from onedraw.chains.rules import Barker
from onedraw.mechanisms._chain_kinds import FilteredChain, Setting
from onedraw.mechanisms.base import Requirements


@dataclass(frozen=True, kw_only=True)
class PrivateBarker(FilteredChain):
    """States of a full-batch Barker chain; see the module docstring."""

    name: ClassVar[str] = "private_barker"
    requirements: ClassVar[Requirements] = Requirements(
        delta="optional",
        draws="several",
        prefer="several draws of one posterior, large n, δ > 0: the chain is private as a whole",
    )
    what: ClassVar[str] = "Each step of the chain was decided by Barker's rule, an exponential mechanism"

    def _rule(self, moved: Sensitivity, setting: Setting) -> Barker:
        return Barker()
