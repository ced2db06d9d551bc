# SPDX-License-Identifier: Apache-2.0
"""Plans against closed forms and against what releases on simulated tables really do."""

import numpy as np
import pytest
from scipy import special

import onedraw
from onedraw.errors import AcceptanceTooLow, InvalidInput
from onedraw.estimators.kinds import ESTIMATORS
from onedraw.mechanisms import AdaSSP, OnePosterior
from onedraw.planning import FORM, plan

CASES = [
    *((name, {}) for name, kind in ESTIMATORS.items() if kind.form == FORM),
    ("linear", {"errors": "student_t"}),
    ("linear", {"errors": "laplace"}),
    ("negative_binomial", {"dispersion": 5.0}),
    ("linear", {"mechanism": AdaSSP(feature_norm=2.0, response_bound=3.0), "delta": 1e-6}),
    ("logistic", {"mechanism": "tilted_fit"}),
    ("logistic", {"draws": 4}),
    ("poisson", {"fit_intercept": False, "neighbours": "add_remove"}),
]


@pytest.mark.parametrize(("model", "options"), CASES, ids=[f"{name}-{more}" for name, more in CASES])
def test_errors_fall_with_epsilon_towards_the_non_private_one(model, options):
    # Three classes at epsilon 2 are within a fifth of the non-private error, which six tables cannot tell: of
    # sixty the ratio has a standard error of about 4%.
    options = {"repeats": 60 if model == "multinomial" else 6, **options}
    rows = plan(
        model, rows=800, features=2, epsilons=(20.0, 0.3, 2.0), effect_size=1.0, seed=1, **options
    ).rows
    assert [row.epsilon for row in rows] == [0.3, 2.0, 20.0]
    errors = [row.private for row in rows]
    assert errors[0] > errors[1] > errors[2] > 0.9 * rows[0].non_private
    assert errors[1] < rows[0].zero


def test_the_non_private_error_is_that_of_least_squares():
    # Var(slope) = s^2/(n/3) for features uniform on [-1, 1], Var(intercept) = s^2/n.
    row = plan("linear", rows=2000, features=3, epsilons=(1.0,), repeats=60, noise=0.7, seed=2).rows[0]
    expected = np.sqrt((3 * 3 * 0.49 + 0.49) / 2000 / 4)
    # 60 tables of 4 parameters: the root mean square has a relative standard error of 1/sqrt(480) = 4.6%.
    assert row.non_private == pytest.approx(expected, rel=4.5 * 0.046)


def test_the_non_private_error_is_that_of_poisson_regression_however_large_the_counts():
    """By Fisher's information at the truth, whose counts reach e^10. They were once cut off at a million."""
    sizes = {"rows": 4000, "features": 4, "effect_size": 2.5, "repeats": 40, "seed": 8}
    row = plan("poisson", epsilons=(5.0,), **sizes).rows[0]
    rng = np.random.default_rng(1)
    design = np.append(rng.uniform(-1, 1, (100_000, 4)), np.ones((100_000, 1)), axis=1)
    mean = np.exp(design @ np.array([2.5, 2.5, 2.5, 2.5, 0.0]))
    variance = np.linalg.inv(design.T @ (mean[:, None] * design) / 100_000) / 4000
    # 200 squares in all, not independent: a relative standard error of about 8% of their root.
    assert row.non_private == pytest.approx(np.sqrt(np.trace(variance) / 5), rel=0.35)
    assert row.ratio > 1.0


def test_a_plan_of_poisson_counts_with_many_features_is_worse_with_privacy_than_without():
    rows = plan("poisson", rows=2500, features=12, epsilons=(1.0,), repeats=2, seed=0).rows
    assert 2.0 < rows[0].ratio < 10.0


def test_fits_that_would_be_charged_and_release_nothing_are_counted(monkeypatch):
    draws, calls = OnePosterior.draws, []

    def sometimes(self, *args):
        calls.append(1)
        if len(calls) % 2:
            raise AcceptanceTooLow("No.")
        return draws(self, *args)

    monkeypatch.setattr(OnePosterior, "draws", sometimes)
    options = {"epsilons": (1.0,), "repeats": 4, "seed": 0, "mechanism": "one_posterior"}
    found = plan("logistic", rows=100, features=1, **options)
    assert found.rows[0].failed == 0.5
    assert "50% of the fits by one_posterior were charged and released nothing" in found.advice


def test_the_mean_of_several_draws_is_more_accurate_than_one_of_them():
    options = {"rows": 2000, "features": 1, "epsilons": (1.0,), "repeats": 20, "seed": 3}
    calibrated = {"mechanism": OnePosterior(beta=2.0, weight=0.02)}  # below what four draws may have
    one, four = (plan("logistic", draws=k, **calibrated, **options).rows[0].private for k in (1, 4))
    assert four < 0.75 * one


def test_the_private_error_is_that_of_releases():
    planned = plan("logistic", rows=600, features=2, epsilons=(1.0,), effect_size=1.5, repeats=40, seed=3)
    squares = []
    for seed in range(150):
        rng = np.random.default_rng(1000 + seed)
        x, truth = rng.uniform(-1, 1, (600, 2)), 1.5 * rng.choice([-1.0, 1.0], 2)
        y = rng.random(600) < 1 / (1 + np.exp(-x @ truth))
        model = onedraw.LogisticRegression(epsilon=1.0, classes=[False, True], random_state=seed).fit(x, y)
        squares.append(np.mean(np.append(model.coef_[0] - truth, model.intercept_) ** 2))
    release, error = np.mean(squares), np.std(squares) / np.sqrt(len(squares))
    assert abs(planned.rows[0].private ** 2 - release) < 4.5 * error  # false alarm below 1e-5


@pytest.mark.statistical
def test_a_plan_of_categories_is_that_of_fits_that_know_them():
    """Squared errors of a table vary by about their mean, so both means have a standard error of 20%."""
    towns, repeats = [*"abcdefgh"], 25
    columns = onedraw.Columns({"age": (18, 100), "town": towns}, {"name": "died", "classes": [0, 1]})
    planned = plan(
        "logistic", rows=10_000, columns=columns, epsilons=(1.0,), effect_size=1.0, repeats=repeats, seed=7
    )
    assert planned.num_features == 8
    assert planned.rows[0].zero == pytest.approx(np.sqrt(8 / 9))  # eight coefficients of 1, an intercept of 0
    assert planned.rows[0].ratio < 1.3
    squares = []
    for seed in range(repeats):
        rng = np.random.default_rng(2000 + seed)
        age, town, truth = rng.uniform(18, 100, 10_000), rng.choice(8, 10_000), rng.choice([-1.0, 1.0], 8)
        died = rng.random(10_000) < special.expit((age - 59) / 41 * truth[0] + np.append(0, truth[1:])[town])
        table = {"age": age, "town": np.array(towns)[town], "died": died.astype(int)}
        model = onedraw.LogisticRegression(epsilon=1.0, columns=columns, random_state=seed).fit(table)
        age_in_halves = model.coef_[0] * np.append(41.0, np.ones(7)) - truth
        squares.append(np.mean(np.append(age_in_halves, model.intercept_[0] + 59 * model.coef_[0, 0]) ** 2))
    release, error = np.mean(squares), np.std(squares) / np.sqrt(repeats)
    assert abs(planned.rows[0].private ** 2 - release) < 4.5 * np.sqrt(2) * error  # false alarm below 1e-5


def test_the_non_private_error_of_categories_is_that_of_differences_of_means():
    """Var(difference) = s^2 2K/n, Var(intercept) = s^2 K/n, Var(slope) = 3 s^2/n."""
    columns = onedraw.Columns({"age": (18, 100), "town": [*"abcd"]})
    row = plan("linear", rows=2000, columns=columns, epsilons=(1.0,), repeats=60, noise=0.7, seed=2).rows[0]
    expected = np.sqrt(0.49 / 2000 * (3 * 8 + 4 + 3) / 5)
    # The four errors that share the reference have one large common part: as if 60 tables of 2 parameters.
    assert row.non_private == pytest.approx(expected, rel=4.5 * 0.065)
    assert row.ratio < 1.5


def test_the_smallest_epsilon_reaches_the_wanted_error_and_a_smaller_one_does_not():
    options = {"rows": 800, "features": 2, "repeats": 4, "effect_size": 1.0, "seed": 4}
    found = plan("logistic", epsilons=(0.1, 10.0), wanted_error=0.5, **options)
    assert 0.1 < found.smallest_epsilon < 10.0
    assert f"about {found.smallest_epsilon:.2g}" in found.advice
    at, below = plan(
        "logistic", epsilons=(found.smallest_epsilon, 0.5 * found.smallest_epsilon), **options
    ).rows[::-1]
    assert at.private <= 0.5 < below.private


def test_a_wanted_error_out_of_reach_or_reached_at_once_is_said_so():
    options = {
        "rows": 300,
        "features": 1,
        "epsilons": (0.5, 2.0),
        "repeats": 2,
        "effect_size": 1.0,
        "seed": 5,
    }
    hopeless = plan("logistic", wanted_error=1e-3, **options)
    assert hopeless.smallest_epsilon is None
    assert "No epsilon up to 2 reaches" in hopeless.advice
    easy = plan("logistic", wanted_error=3.0, **options)
    assert easy.advice == "An error of 3 is reached at epsilon 0.5 already."


def test_a_seed_repeats_the_plan_and_progress_is_reported():
    steps = []
    options = {"rows": 100, "features": 1, "epsilons": (1.0, 2.0), "repeats": 3, "seed": 6}
    first = plan("poisson", progress=lambda: steps.append(1), **options)
    assert first == plan("poisson", **options)
    assert len(steps) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "forest"}, "model"),
        ({"rows": 0}, "rows"),
        ({"features": 1.5}, "features"),
        ({"epsilons": ()}, "at least one epsilon"),
        ({"epsilons": (1.0, -1.0)}, "epsilon"),
        ({"classes": 3}, "makes a multinomial model, got a logistic one"),
        ({"model": "linear", "classes": 3}, "has no classes"),
        ({"model": "mlp-classifier"}, "model"),
        ({"effect_size": 0.0}, "effect_size"),
        ({"wanted_error": -1.0}, "wanted_error"),
        ({"repeats": 0}, "repeats"),
    ],
)
def test_impossible_plans_are_refused(options, message):
    given = {"model": "logistic", "rows": 50, "features": 1, "epsilons": (1.0,), "repeats": 1, **options}
    with pytest.raises(InvalidInput, match=message):
        plan(given.pop("model"), **given)


def test_a_plan_below_the_noise_says_that_zero_would_be_closer():
    found = plan("logistic", rows=40, features=8, epsilons=(0.5, 1.0), repeats=4, effect_size=0.5, seed=3)
    assert found.rows[0].zero == pytest.approx(np.sqrt(8 * 0.25 / 9))  # eight coefficients, an intercept of 0
    assert "At epsilon 1 coefficients of zero would be closer to the truth" in found.advice
    ample = plan("logistic", rows=4000, features=2, epsilons=(2.0,), repeats=2, effect_size=1.0, seed=3)
    assert "zero" not in ample.advice
