# SPDX-License-Identifier: Apache-2.0
"""A case counts only if its difference is beyond noise; hand-made rows with answers worked out by hand."""

import math

import numpy as np
import pytest

from onedraw.research.experiments.claims import Lead, best, better, cases, differences, gained, no_worse
from onedraw.research.experiments.spec import Verdict


def rows(epsilon=1.0, **scores):
    """One row per method and repetition; beta_paper is the method beta-paper."""
    return [
        {"method": name.replace("_", "-"), "epsilon": epsilon, "repetition": i, "auc": value}
        for name, values in scores.items()
        for i, value in enumerate(values)
    ]


def test_a_small_lead_counts_if_it_is_the_same_in_every_repetition():
    """Methods of one repetition share its data: 0.01 ahead each time counts, however data sets differ."""
    data = [0.6, 0.9, 0.7, 0.8]
    found = best(
        rows(beta_paper=[x + 0.01 + 0.002 * i for i, x in enumerate(data)], minami=data),
        "auc",
        by=("epsilon",),
        lowest=False,
    )
    assert (found.right, found.ties, found.cases) == (1, 0, 1)
    assert str(found) == "Holds (1 of 1): epsilon 1: 0.763 against 0.750 (Minami)."


def test_a_lead_within_two_standard_errors_is_a_tie():
    """Differences 0.05, -0.03, 0.04, -0.02: mean 0.01, standard error 0.0204."""
    found = best(
        rows(beta_paper=[0.65, 0.67, 0.74, 0.78], minami=[0.6, 0.7, 0.7, 0.8]),
        "auc",
        by=("epsilon",),
        lowest=False,
    )
    assert (found.right, found.ties, found.word) == (0, 1, "No difference")
    assert "0.710 level with 0.700 (Minami)" in found.numbers


def test_behind_beyond_noise_contradicts_and_the_sign_follows_the_measure():
    scores = rows(beta_paper=[1.0, 1.1, 1.2], minami=[2.0, 2.2, 2.1])
    for lowest, word in ((True, "Holds"), (False, "Does not hold")):
        assert best(scores, "auc", by=("epsilon",), lowest=lowest).word == word


def test_the_rival_is_the_best_of_the_paper_s_other_methods():
    scores = rows(beta_paper=[0.8] * 3, beta_auto=[0.9] * 3, minami=[0.5] * 3, chaudhuri_fixed=[0.7] * 3)
    assert "(Chaudhuri, λ = 1/9)" in best(scores, "auc", by=("epsilon",), lowest=False).numbers


def test_one_repetition_decides_nothing():
    found = better(rows(a=[1.0], minami=[0.0]), "auc", "a", "minami", by=("epsilon",), lowest=False)
    assert (found.right, found.ties) == (0, 1)


def test_a_repetition_that_one_method_lacks_is_left_out():
    scores = rows(a=[1.0, math.nan, 1.2], b=[0.5, 0.5, 0.9, 7.0])
    found = differences(scores, "auc", "a", "b", lowest=False)
    assert Lead.of(found).mean == pytest.approx(0.4)


def test_the_standard_error_is_that_of_the_mean_difference():
    lead = Lead.of(np.array([1.0, 2.0, 3.0, 4.0]))
    assert (lead.mean, lead.error) == (2.5, pytest.approx(math.sqrt(5.0 / 3.0) / 2.0))
    assert lead.right  # 2.5 > 2 * 0.645


def test_no_worse_means_not_worse_beyond_noise():
    level = rows(beta_auto=[0.5, 0.7, 0.6], beta_paper=[0.6, 0.6, 0.6])
    worse = rows(epsilon=2.0, beta_auto=[0.5, 0.51, 0.5], beta_paper=[0.6, 0.6, 0.6])
    found = no_worse([*level, *worse], "auc", by=("epsilon",), lowest=False)
    assert (found.right, found.cases) == (1, 2)


def test_cases_are_the_combinations_that_occur():
    found = cases([{"data": "a", "n": 1}, {"data": "b", "n": 2}], ("data", "n"))
    assert found == [{"data": "a", "n": 1}, {"data": "b", "n": 2}]


@pytest.mark.parametrize(
    ("right", "ties", "word", "count"),
    [
        (3, 0, "Holds", "(3 of 3)"),
        (2, 1, "Holds or ties", "(2 of 3, 1 tie)"),
        (1, 2, "Mostly ties", "(1 of 3, 2 ties)"),
        (1, 1, "Holds in part", "(1 of 3, 1 tie)"),
        (0, 2, "Does not hold", "(0 of 3, 2 ties)"),
        (0, 3, "No difference", "(0 of 3, 3 ties)"),
    ],
)
def test_a_verdict_tells_ties_from_contradictions(right, ties, word, count):
    verdict = Verdict(right, 3, "numbers.", ties)
    assert (verdict.word, verdict.count) == (word, count)
    assert str(verdict.about("AUC")) == f"{word} {count}: AUC, numbers."


def test_what_is_gained_is_told_by_the_first_column():
    """Better by 0.1 each time, level, and worse by 0.2: one case of each, in two groups."""
    better_here = rows(epsilon=1.0, tilted=[0.71, 0.7, 0.7], beta_paper=[0.6, 0.6, 0.61])
    level = rows(epsilon=2.0, tilted=[0.5, 0.7, 0.6], beta_paper=[0.6, 0.6, 0.6])
    worse = rows(epsilon=1.0, tilted=[0.4, 0.41, 0.4], beta_paper=[0.6, 0.6, 0.61])
    grouped = [{**row, "n": 10} for row in [*better_here, *level]] + [{**row, "n": 20} for row in worse]
    found = gained(grouped, "auc", by=("n", "epsilon"), lowest=False)
    assert (found.right, found.ties, found.cases) == (1, 1, 3)
    assert "n 10: better 1, level 1, worse 0, +0.050 on average" in found.numbers
    assert "n 20: better 0, level 0, worse 1, -0.200 on average" in found.numbers
    without = [row for row in grouped if row["method"] != "tilted"]
    assert gained(without, "auc", by=("n", "epsilon"), lowest=False).cases == 0
