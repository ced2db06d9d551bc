# SPDX-License-Identifier: Apache-2.0
"""Every recipe of the tilted fit spends its terms once, under the relation and the rows that it is given.

A family enters by being in ``RECIPES``. What the stages spend is noted where they are made private: each of
them is tested by itself elsewhere, so that what is left is the sum.
"""

import numpy as np
import pytest
from scipy import stats

from onedraw.mechanisms import Shape, TiltedFit, _for_intervals
from onedraw.privacy import Request
from onedraw.private import Private
from onedraw.tilted import linear, quantiles, recipes, terms
from onedraw.tilted.count_loss import CountCosh
from onedraw.tilted.recipes import RECIPES

STAGES = {
    terms: ["calibrate"],
    recipes: ["size_of_counts"],
    linear: ["window_of_half", "spread_of_residuals"],
    _for_intervals: ["curvature_law", "total_scale"],
}
"""What spends epsilon, by the module that calls it."""


@pytest.fixture
def spent(monkeypatch):
    """Every stage that was run, with the options that it was given."""
    seen = []
    for module, names in STAGES.items():
        for name in names:
            real = getattr(module, name)

            def noted(*values, _name=name, _real=real, **options):
                seen.append((_name, options))
                return _real(*values, **options)

            monkeypatch.setattr(module, name, noted)
    return seen


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", sorted(RECIPES))
def test_the_parts_of_a_recipe_add_up_to_its_terms(name, inference, delta, rows, neighbours, examples, spent):
    model = examples.regression(examples.family(name), 1, feature_bounds=((-1.0, 1.0),))
    request = Request(epsilon=1.3, delta=delta, neighbours=neighbours, rows_per_person=rows)
    mechanism = TiltedFit(inference=inference).calibrate(request, Shape(model=model))
    spent.clear()  # calibration solves for public numbers, and spends nothing
    mechanism.compute(Private(examples.records(model, 400)), np.random.default_rng(0))
    parts = [options["epsilon"] for _, options in spent] + [mechanism.terms.count_epsilon]
    assert mechanism.terms.count_epsilon > 0.0
    assert sum(parts) == pytest.approx(1.3, rel=1e-12)
    given = sum(options.get("delta", 0.0) for _, options in spent)
    assert 0.9 * delta <= given <= delta * (1 + 1e-12)  # the sum of squared scores has no use for its part
    assert {options.get("neighbours", neighbours) for _, options in spent} == {neighbours}
    assert {options["rows_per_person"] for _, options in spent} == {rows}


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("rows", [1, 4])
def test_a_private_number_of_records_is_found_with_noise_for_all_rows_of_a_person(neighbours, rows):
    """A person moves the number by m under either relation, so the scale is m/epsilon."""
    asked = terms.Terms(epsilon=1.0, neighbours=neighbours, rows_per_person=rows).paying_for_a_count()
    spent, scale, real = asked.count_epsilon, [], terms.discrete_laplace
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "discrete_laplace", lambda s, size, rng: scale.append(s) or real(s, size, rng))
        assert asked.counted(1000, np.random.default_rng(1)).at_most >= 1000
    assert 0.0 < spent < 0.2
    assert float(scale[0]) * spent == pytest.approx(rows, rel=1e-12)


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("dispersion", [None, 1.0, 0.1])
def test_the_cut_of_counts_is_near_the_best_one(dispersion, noise):
    """Log means of mean 1.5 and spread 0.7; the standard error of a coefficient, sqrt(K + noise cut^2)/H, by
    summation over all counts and quadrature over the predictor, is at most 8% above that of the best cut.
    With a cut of one standard deviation, whatever the cap, it was 30% above at a size of 0.1."""
    place, mass = np.polynomial.hermite_e.hermegauss(21)
    mean, k = np.exp(1.5 + 0.7 * place), np.arange(3000)[:, None]
    if dispersion is None:
        law = stats.poisson(mean)
    else:
        law = stats.nbinom(dispersion, dispersion / (dispersion + mean))
    each = law.pmf(k)
    size = np.searchsorted(np.cumsum(each @ mass / mass.sum()), recipes.SIZE)
    size = int(quantiles.SIZES[np.searchsorted(quantiles.SIZES, size)])
    chosen = recipes.count_loss(size, noise, dispersion)
    # d log P/d eta, of Poisson counts k - mu, of others with the size r (k - mu)/(1 + mu/r).
    along = (k - mean) / (1.0 if dispersion is None else 1.0 + mean / dispersion)

    def error(cut):
        loss = CountCosh(cap=chosen.cap, cut=cut, dispersion=dispersion)
        score = loss.slope(np.broadcast_to(k, each.shape).astype(float), np.log(mean))
        information = -(mass * (each * along * score).sum(0)).sum() / mass.sum()
        variance = (mass * (each * score**2).sum(0)).sum() / mass.sum()
        return np.sqrt(variance + noise * cut**2) / information

    best = min(error(cut) for cut in chosen.cap * np.geomspace(0.05, 2.0, 40))
    assert error(chosen.cut) <= 1.08 * best
