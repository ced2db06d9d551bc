# SPDX-License-Identifier: Apache-2.0
"""The paper's statements about logistic regression, each as a comparison of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onedraw.research.experiments.claims import (
    LIBRARY,
    PAPER,
    Lead,
    best,
    differences,
    gained,
    near_twin,
    no_worse,
    runner_up,
)
from onedraw.research.experiments.methods import PUBLISHED
from onedraw.research.experiments.spec import Claim, Row, Verdict
from onedraw.research.experiments.table import at_largest_n, distinct, largest, one, select

LARGEST_OF_THE_PAPER = 1000
CLOSE = 0.1
"""In units of the coefficients, whose prior scale is 3."""
OURS_CLAIM = "(Ours) Choosing beta and the weight together is no worse than weight 1."
TILTED_CLAIM = "(Ours) The tilted fit is better than the draw with weight 1, at the same epsilon."


def _present(rows: Sequence[Row], name: str) -> str:
    """The method of that name, or its published variant if that is the one compared."""
    return name if name in distinct(rows, "method") else name + PUBLISHED


def _paper_n(rows: Sequence[Row]) -> float:
    """The largest n of the published grid that is there."""
    return max(float(row["n"]) for row in rows if float(row["n"]) <= LARGEST_OF_THE_PAPER)


# -- simulated data


def _smallest_rmse(rows: Sequence[Row]) -> Verdict:
    n = _paper_n(rows)
    return best(rows, "log_rmse", by=("epsilon",), lowest=True, n=n).about(f"log RMSE at n = {n:g}")


def _smallest_rmse_beyond(rows: Sequence[Row]) -> Verdict:
    n = largest(rows, "n")
    return best(rows, "log_rmse", by=("epsilon",), lowest=True, n=n).about(f"log RMSE at n = {n:g}")


def _lead_grows(rows: Sequence[Row]) -> Verdict:
    n, epsilons = _paper_n(rows), [float(e) for e in distinct(rows, "epsilon")]
    ends = (min(epsilons), max(epsilons))
    leads = []
    for epsilon in ends:
        kept = select(rows, n=n, epsilon=epsilon)
        rival = runner_up(kept, "log_rmse", lowest=True)
        assert rival is not None
        leads.append(differences(kept, "log_rmse", PAPER, rival, lowest=True))
    growth, (small, large) = Lead.of(leads[1] - leads[0]), (Lead.of(lead).mean for lead in leads)
    numbers = (
        f"lead in log RMSE at n = {n:g}: {small:.3f} at epsilon {ends[0]:g}, {large:.3f} at {ends[1]:g}."
    )
    return Verdict(int(growth.right), 1, numbers, ties=int(not growth.right and not growth.wrong))


def _greatest_auc(rows: Sequence[Row]) -> Verdict:
    n = _paper_n(rows)
    return best(rows, "auc", by=("epsilon",), lowest=False, n=n).about(f"AUC at n = {n:g}")


def _rmse_near_twin(rows: Sequence[Row], method: str) -> Verdict:
    n = largest(rows, "n")
    found = near_twin(rows, "log_rmse", method=method, within=CLOSE, by=("epsilon",), n=n)
    return found.about(f"RMSE at n = {n:g}")


def _vanishing_stays_away(rows: Sequence[Row]) -> Verdict:
    near = _rmse_near_twin(rows, _present(rows, "chaudhuri-vanishing"))
    return Verdict(near.cases - near.right, near.cases, near.numbers)


def _fixed_is_biased(rows: Sequence[Row]) -> Verdict:
    near = _rmse_near_twin(rows, _present(rows, "chaudhuri-fixed"))
    where = {"epsilon": largest(rows, "epsilon"), "n": largest(rows, "n")}
    fixed, vanishing = (
        math.exp(one(rows, "twin_log_rmse", method=_present(rows, name), **where))
        for name in ("chaudhuri-fixed", "chaudhuri-vanishing")
    )
    numbers = f"{near.numbers} The twin with the vanishing penalty has {vanishing:.3f}."
    return Verdict(near.right + (fixed > 2.0 * vanishing), near.cases + 1, numbers)


def _beta_near_twin(rows: Sequence[Row]) -> Verdict:
    return _rmse_near_twin(rows, PAPER)


def _right_signs(rows: Sequence[Row]) -> Verdict:
    n = _paper_n(rows)
    found = best(rows, "signs", by=("epsilon",), lowest=False, n=n)
    return found.about(f"share of right signs at n = {n:g}")


def _auto_rmse(rows: Sequence[Row]) -> Verdict:
    return no_worse(rows, "log_rmse", by=("epsilon",), lowest=True, n=largest(rows, "n"))


def _tilted_rmse(rows: Sequence[Row]) -> Verdict:
    return gained(rows, "log_rmse", by=("n", "epsilon"), lowest=True).about("log RMSE")


SIMULATED_CLAIMS = (
    Claim(
        statement="As n grows, the beta-divergence draw has the smallest parameter RMSE.",
        check=_smallest_rmse,
        by_repetition=True,
    ),
    Claim(
        statement="... and keeps it beyond the published range of n.",
        check=_smallest_rmse_beyond,
        by_repetition=True,
    ),
    Claim(statement="The lead is greater for large epsilon.", check=_lead_grows, by_repetition=True),
    Claim(
        statement="Better parameters mean greater ROC-AUC in general.",
        check=_greatest_auc,
        by_repetition=True,
    ),
    Claim(
        statement="Chaudhuri with lambda = 1/(9n) does not approach its non-private twin.",
        check=_vanishing_stays_away,
    ),
    Claim(
        statement="Chaudhuri with lambda = 1/9 approaches its twin, but is biased.",
        check=_fixed_is_biased,
    ),
    Claim(statement="The beta-divergence draw approaches its twin.", check=_beta_near_twin),
    Claim(
        statement="The signs of the beta-divergence draw are right more often than the others'.",
        check=_right_signs,
        by_repetition=True,
    ),
    Claim(statement=OURS_CLAIM, check=_auto_rmse, by_repetition=True),
    Claim(statement=TILTED_CLAIM, check=_tilted_rmse, by_repetition=True),
)


# -- UCI data


def _uci_auc(rows: Sequence[Row]) -> Verdict:
    found = best(at_largest_n(rows), "auc", by=("data", "epsilon"), lowest=False)
    return found.about("AUC on all rows")


def _uci_twin(rows: Sequence[Row]) -> Verdict:
    found = near_twin(at_largest_n(rows), "auc", method=PAPER, within=0.02, by=("data", "epsilon"))
    return found.about("AUC on all rows")


def _uci_signs(rows: Sequence[Row]) -> Verdict:
    found = best(at_largest_n(rows), "signs", by=("data", "epsilon"), lowest=False)
    return found.about("share of agreeing signs on all rows")


def _uci_auto(rows: Sequence[Row]) -> Verdict:
    return no_worse(at_largest_n(rows), "auc", by=("data", "epsilon"), lowest=False)


def _uci_tilted(rows: Sequence[Row]) -> Verdict:
    return gained(at_largest_n(rows), "auc", by=("data", "epsilon"), lowest=False).about("AUC on all rows")


UCI_CLAIMS = (
    Claim(
        statement="On UCI data the beta-divergence draw beats the other methods as n grows.",
        check=_uci_auc,
        by_repetition=True,
    ),
    Claim(statement="... and comes very close to its non-private twin.", check=_uci_twin),
    Claim(
        statement="Its signs agree with the non-private fit more often than the others'.",
        check=_uci_signs,
        by_repetition=True,
    ),
    Claim(statement=OURS_CLAIM, check=_uci_auto, by_repetition=True),
    Claim(statement=TILTED_CLAIM, check=_uci_tilted, by_repetition=True),
)


# -- the number of features


def _scales_alike(rows: Sequence[Row]) -> Verdict:
    first, last = min(float(r["d"]) for r in rows), largest(rows, "d")
    right, parts = 0, []
    epsilons = distinct(rows, "epsilon")
    for epsilon in epsilons:
        growth = {}
        for method in distinct(rows, "method"):
            kept = select(rows, method=method, epsilon=epsilon)
            growth[method] = one(kept, "log_rmse", d=last) - one(kept, "log_rmse", d=first)
        own = growth[PAPER]
        others = [g for m, g in growth.items() if m not in (PAPER, *LIBRARY)]
        right += min(others) - 0.3 <= own <= max(others) + 0.3
        parts.append(f"epsilon {epsilon:g}: {own:+.2f}, others {min(others):+.2f} to {max(others):+.2f}")
    numbers = f"growth of log RMSE from d = {first:g} to {last:g}, {'; '.join(parts)}."
    return Verdict(right, len(epsilons), numbers)


def _best_in_dimensions(rows: Sequence[Row]) -> Verdict:
    return best(rows, "log_rmse", by=("d", "epsilon"), lowest=True).about("log RMSE")


def _tilted_in_dimensions(rows: Sequence[Row]) -> Verdict:
    return gained(rows, "log_rmse", by=("d", "epsilon"), lowest=True).about("log RMSE")


DIMENSIONS_CLAIMS = (
    Claim(statement="In d, the beta-divergence draw scales like the other methods.", check=_scales_alike),
    Claim(
        statement="The beta-divergence draw performs best at every d.",
        check=_best_in_dimensions,
        by_repetition=True,
    ),
    Claim(statement=TILTED_CLAIM, check=_tilted_in_dimensions, by_repetition=True),
)
