# SPDX-License-Identifier: Apache-2.0
"""Intervals of aligned fits: against textbooks where privacy costs nothing, where columns repeat one another,
and refused where one is the sum of others."""

import dataclasses

import numpy as np
import pytest
from scipy import special

import onedraw
from onedraw.errors import InvalidInput
from onedraw.inference import infer
from onedraw.mechanisms import TiltedFit
from onedraw.release import Release
from onedraw.uncertainty import inference_of
from onedraw.uncertainty.released import released_of

N = 8000
TRUTH = np.array([0.8, -0.5, 0.3])
BOUNDS = [(0.0, 40.0), (-2.0, 2.0)]


def related(rng, n=N):
    """Two columns that nearly repeat one another, the first far from the middle of a wide range."""
    first = rng.normal(size=n)
    second = 0.95 * first + np.sqrt(1 - 0.95**2) * rng.normal(size=n)
    return np.column_stack([8.0 + first, 0.5 * second])


def fitted(kind, x, y, *, align=True, inference=True, epsilon=200.0, **options):
    mechanism = TiltedFit(align=align, inference=inference)
    return kind(epsilon=epsilon, mechanism=mechanism, random_state=3, **options).fit(x, y)


def least_squares(x, y):
    z = np.column_stack([x, np.ones(len(x))])
    theta = np.linalg.lstsq(z, y, rcond=None)[0]
    spread = np.std(y - z @ theta)
    return theta, spread * np.sqrt(np.linalg.inv(z.T @ z).diagonal())


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(1)
    x = related(rng)
    return x, 50.0 + 3.0 * (x @ TRUTH[:2]) + 5.0 * rng.standard_normal(N)


@pytest.mark.parametrize("bounds", [BOUNDS, None])
def test_a_linear_model_has_the_errors_of_least_squares(linear, bounds):
    """Long rows count for less, which takes 1% (3 columns); 6% is for what the noise leaves of the matrix."""
    x, y = linear
    model = fitted(onedraw.LinearRegression, x, y, feature_bounds=bounds)
    theta, errors = least_squares(x, y)
    np.testing.assert_allclose(model.standard_errors_, errors, rtol=0.08)
    assert (abs(model.summary().estimate - theta) < 0.5 * errors).all()
    assert (abs(np.r_[model.coef_, model.intercept_] - theta) < 0.5 * errors).all()
    assert not model.summary().caveats


@pytest.mark.parametrize("inference", [True, "robust"])
def test_classes_have_the_errors_of_their_likelihood(inference):
    rng = np.random.default_rng(2)
    x = related(rng, 20_000)
    z = np.column_stack([x, np.ones(len(x))])
    truth = np.array([0.6, -0.8, -5.0])
    y = (rng.random(len(x)) < special.expit(z @ truth)).astype(int)
    chance = special.expit(z @ truth)
    covariance = np.linalg.inv((z * (chance * (1 - chance))[:, None]).T @ z)
    errors = np.sqrt(covariance.diagonal())
    options = {"classes": [0, 1], "feature_bounds": BOUNDS, "inference": inference}
    model = fitted(onedraw.LogisticRegression, x, y, **options)
    np.testing.assert_allclose(model.standard_errors_, errors, rtol=0.08)
    assert (abs(model.summary().estimate - truth) < 4.0 * errors).all()
    # A sum of the nearly equal columns is known far better than each: the covariance was turned back as well.
    both = np.array([1.0, 0.5, 0.0])
    error = np.sqrt(both @ covariance @ both)
    assert error < 0.4 * errors[0]
    assert model.contrast({"x0": 1.0, "x1": 0.5}).standard_error[0] == pytest.approx(error, rel=0.08)


@pytest.mark.parametrize("bounds", [[(-1.0, 1.0)] * 2, None])
def test_robust_errors_hold_where_those_of_the_model_do_not(bounds):
    """Beside the sandwich of least squares; errors of the model are up to 1.6 times as short here."""
    rng = np.random.default_rng(6)
    x = rng.uniform(-1.0, 1.0, (40_000, 2))
    z = np.column_stack([x, np.ones(len(x))])
    y = z @ [1.0, 0.5, 0.0] + rng.normal(size=len(x)) * (0.1 + 2.0 * x[:, 0] ** 2)
    inverse, left = np.linalg.inv(z.T @ z), y - z @ np.linalg.lstsq(z, y, rcond=None)[0]
    sandwich = np.sqrt((inverse @ (z.T @ (z * left[:, None] ** 2)) @ inverse).diagonal())
    model, robust = (
        fitted(onedraw.LinearRegression, x, y, inference=inference, epsilon=20.0, feature_bounds=bounds)
        for inference in (True, "robust")
    )
    # A bounded score has less variance where errors are large, so all are below those of least squares.
    plain = fitted(
        onedraw.LinearRegression, x, y, align=False, inference="robust", epsilon=20.0, feature_bounds=bounds
    )
    np.testing.assert_allclose(robust.standard_errors_, plain.standard_errors_, rtol=0.1)
    assert (np.array(robust.standard_errors_) < 1.1 * sandwich).all()
    assert robust.standard_errors_[0] > 1.3 * model.standard_errors_[0]
    assert "Errors are robust (sandwich)" in str(robust.summary())
    assert "Errors are robust (sandwich)" not in str(model.summary())


def test_a_rare_outcome_is_no_sign_of_rows_that_count_for_nothing():
    """Aligned rows are about their middle whatever the units; a rare outcome has little curvature as well."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(100_000, 1))
    y = (rng.random(len(x)) < special.expit(0.3 * x[:, 0] - 4.4)).astype(int)
    assert y.mean() < 0.02
    model = fitted(onedraw.LogisticRegression, x, y, classes=[0, 1], epsilon=20.0, feature_bounds=[(-3, 3)])
    assert abs(model.summary().estimate[0] - 0.3) < 4.0 * model.standard_errors_[0] < 0.5


def test_three_classes_are_turned_back_class_by_class():
    """Of a table with nothing to align, beside the errors of a fit that is not."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1.0, 1.0, (N, 2))
    logits = np.column_stack([x @ [1.0, -0.5], x @ [-0.5, 0.8], np.full(N, 0.3)])
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    options = {"classes": [0, 1, 2], "feature_bounds": [(-1.0, 1.0)] * 2}
    turned = fitted(onedraw.LogisticRegression, x, y, **options)
    plain = fitted(onedraw.LogisticRegression, x, y, align=False, **options)
    np.testing.assert_allclose(turned.standard_errors_, plain.standard_errors_, rtol=0.1)
    gap = np.subtract(turned.summary().estimate, plain.summary().estimate)
    assert (abs(gap) < 0.7 * plain.standard_errors_).all()
    assert abs(turned.mean_interval(x[:4]) - plain.mean_interval(x[:4])).max() < 0.01


def test_counts_have_the_errors_of_their_likelihood():
    rng = np.random.default_rng(5)
    x = related(rng)
    z = np.column_stack([x, np.ones(N)])
    truth = np.array([0.2, 0.3, -2.5])
    y = rng.poisson(np.exp(z @ truth)).astype(float)
    errors = np.sqrt(np.linalg.inv((z * np.exp(z @ truth)[:, None]).T @ z).diagonal())
    model = fitted(onedraw.PoissonRegressor, x, y, feature_bounds=BOUNDS)
    np.testing.assert_allclose(model.standard_errors_, errors, rtol=0.15)
    assert (abs(model.summary().estimate - truth) < 4.0 * errors).all()


def test_whoever_holds_the_file_gets_the_same_numbers(linear, tmp_path):
    x, y = linear
    model = fitted(onedraw.LinearRegression, x, y, feature_bounds=BOUNDS, epsilon=5.0)
    model.release_.to_json(tmp_path / "release.json")
    read = Release.from_json(tmp_path / "release.json")
    assert read.summary() == model.summary()
    assert (inference_of(read).mean_interval(x[:5]) == model.mean_interval(x[:5])).all()
    assert read.mechanism.numbers["epsilon_of_alignment"] == pytest.approx(0.15 * 5.0)


def test_readers_that_know_no_alignment_find_no_numbers_of_other_rows(linear):
    """A curvature of other rows under the usual name would be taken for that of the features."""
    x, y = linear
    release = fitted(onedraw.LinearRegression, x, y, feature_bounds=BOUNDS).release_
    assert not {"curvature", "minimiser", "centre"} & set(release.statistics)
    names = {"aligned_curvature", "aligned_minimiser", "aligned_centre", "alignment"}
    assert names <= set(release.statistics)
    torn = dict(release.statistics)
    torn["alignment"] = dataclasses.replace(torn["alignment"], values=torn["alignment"].values[:-1])
    with pytest.raises(InvalidInput, match="alignment"):
        released_of(dataclasses.replace(release, statistics=torn))


@pytest.mark.statistical
def test_intervals_hold_the_truth_where_columns_nearly_repeat_one_another():
    """24 releases of 3 numbers each at epsilon 1: fewer than 60 of 72 hold the truth by chance once in 3,000
    times if all are independent, and those of a release are not quite, so 57 are asked for. Plain fits of
    such tables are refused, and say what would help."""
    held, widths = 0, []
    for seed in range(24):
        rng = np.random.default_rng(100 + seed)
        x = related(rng, 10_000)
        y = 1.0 + x @ TRUTH[:2] + rng.standard_normal(len(x))
        options = {"epsilon": 1.0, "feature_bounds": BOUNDS}
        seen = fitted(onedraw.LinearRegression, x, y, **options).summary()
        truth = np.r_[TRUTH[:2], 1.0]
        held += int(((np.array(seen.low) <= truth) & (truth <= np.array(seen.high))).sum())
        errors = least_squares(x, y)[1]
        widths.append(np.mean(np.array(seen.standard_error) / errors))
        if seed < 3:
            plain = fitted(onedraw.LinearRegression, x, y, align=False, **options)
            with pytest.raises(InvalidInput, match=r"align=True"):
                plain.summary()
    assert 57 <= held < 72
    assert 1.0 < np.median(widths) < 1.6


@pytest.mark.parametrize("kind", [onedraw.LinearRegression, onedraw.LogisticRegression])
def test_a_sum_of_other_columns_is_always_refused(kind):
    """Noise hides that it has no curvature of its own: it would seem to have some once in 200 releases."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1.0, 1.0, (20_000, 3))
        x[:, 2] = 0.5 * (x[:, 0] + x[:, 1])
        eta = x @ [0.5, -0.5, 0.5]
        options = {"classes": [False, True]} if kind is onedraw.LogisticRegression else {}
        noise = rng.logistic(size=len(x))
        y = eta + noise > 0.0 if options else eta + noise
        model = fitted(kind, x, y, epsilon=3.0, feature_bounds=[(-1.0, 1.0)] * 3, **options)
        with pytest.raises(InvalidInput, match="could not be trusted") as refused:
            model.summary()
        assert "align=True" not in str(refused.value)


def test_what_noise_could_hide_is_refused_of_aligned_rows_and_said_of_others(linear):
    """Just below and just above three standard deviations, where intervals are otherwise given."""
    x, y = linear
    found = released_of(fitted(onedraw.LinearRegression, x, y, feature_bounds=BOUNDS, epsilon=3.0).release_)
    values, axes = np.linalg.eigh(found.curvature)

    def inferred(smallest, aligned):
        values[0] = smallest * found.diagonal_sd
        curvature = (axes * values) @ axes.T
        return infer(dataclasses.replace(found, curvature=curvature, aligned=aligned))

    assert "though they were aligned" in inferred(2.9, True).reason
    assert inferred(2.9, False).reason is None
    assert "could hide" in inferred(2.9, False).caveat
    assert (inferred(3.1, True).reason, inferred(3.1, True).caveat) == (None, None)


def test_a_plan_says_what_an_alignment_costs():
    shape = np.zeros((10_000, 2))
    model = onedraw.LinearRegression(epsilon=1.0, mechanism=TiltedFit(align=True), feature_bounds=BOUNDS)
    assert "15% of epsilon goes to how columns go together" in str(model.plan(shape).reason)
    assert "The option align makes that rarer" in str(
        onedraw.LinearRegression(epsilon=1.0, feature_bounds=BOUNDS).plan(shape).reason
    )
