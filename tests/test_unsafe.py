# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from scipy import stats

import onedraw
from onedraw.mechanisms import LinearSSP, OnePosterior
from onedraw.unsafe import posterior_draws


def draw_data(n=150, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.r_[np.arange(classes), rng.integers(0, classes, size=n - classes)]


CASES = {
    "logistic": (onedraw.LogisticRegression(epsilon=1.0), 2, 3),
    "logistic without intercept": (onedraw.LogisticRegression(epsilon=1.0, fit_intercept=False), 2, 3),
    "multinomial": (onedraw.LogisticRegression(epsilon=1.0), 3, 9),
    "linear": (onedraw.LinearRegression(epsilon=1.0), 2, 4),
    "student_t": (onedraw.LinearRegression(epsilon=1.0, errors="student_t"), 2, 4),
    "laplace": (onedraw.LinearRegression(epsilon=1.0, errors="laplace"), 2, 4),
    "poisson": (onedraw.PoissonRegressor(epsilon=1.0), 2, 3),
    "negative_binomial": (onedraw.NegativeBinomialRegressor(epsilon=1.0, dispersion=2.0), 2, 3),
}
for model, _, _ in CASES.values():
    model.set_params(mechanism=OnePosterior())


def draw_once(**options):
    return onedraw.LogisticRegression(**{"epsilon": 1.0, "mechanism": OnePosterior(), **options})


@pytest.mark.parametrize(("estimator", "classes", "width"), CASES.values(), ids=CASES)
def test_draws_come_as_documented(estimator, classes, width):
    """The first draw of a seed is the one that fit releases with it, so the order of columns can be "
    "compared."""
    X, y = draw_data(classes=classes)
    draws = posterior_draws(estimator, X, y, draws=6, random_state=4)
    assert draws.shape == (6, width)
    assert not hasattr(estimator, "release_")
    single = posterior_draws(estimator, X, y, draws=1, random_state=4)[0]
    release = type(estimator)(**{**estimator.get_params(), "random_state": 4}).fit(X, y).release_
    np.testing.assert_allclose(single, release.estimate.flat()[0], atol=1e-9)
    np.testing.assert_allclose(single, list(release.named_parameters().values()), atol=1e-9)


def test_intercepts_are_zero_where_none_is_fitted():
    X, y = draw_data()
    draws = posterior_draws(draw_once(fit_intercept=False), X, y, 5, random_state=0)
    assert (draws[:, 2] == 0.0).all()


def test_the_scale_comes_last_and_above_its_floor():
    X, y = draw_data()
    mechanism = OnePosterior(noise_floor=0.5)
    estimator = onedraw.LinearRegression(epsilon=1.0, mechanism=mechanism, target_bounds=(-2, 4))
    assert (posterior_draws(estimator, X, y, 50, random_state=0)[:, -1] >= 0.5).all()


def test_units_are_the_original_ones():
    X, y = draw_data()
    plain = posterior_draws(draw_once(), X, y, 20, random_state=2)
    bounded = draw_once(feature_bounds=[(0.0, 2.0), (-8.0, 8.0)])
    other = posterior_draws(bounded, X * [1.0, 8.0] + [1.0, 0.0], y, 20, random_state=2)
    np.testing.assert_allclose(other[:, :2], plain[:, :2] / [1.0, 8.0], rtol=1e-6)


@pytest.mark.statistical
def test_many_draws_of_one_call_agree_with_one_draw_of_many_fits():
    """Two-sample Kolmogorov-Smirnov for 3 columns at p = 1e-3 each: fixed seeds, a false alarm in 3 of 1,000
    choices of them."""
    X, y = draw_data(60)
    together = posterior_draws(draw_once(), X, y, 5000, random_state=0)
    fits = [draw_once(random_state=seed).fit(X, y) for seed in range(100, 700)]
    apart = np.array([fit.release_.estimate.flat()[0] for fit in fits])
    for column in range(3):
        assert stats.ks_2samp(together[:, column], apart[:, column]).pvalue > 1e-3


def test_draws_must_be_a_whole_number():
    X, y = draw_data()
    with pytest.raises(onedraw.InvalidInput, match="draws to be a whole number >= 1, got draws=0"):
        posterior_draws(draw_once(), X, y, draws=0)


def test_only_the_draw_of_a_posterior_has_draws():
    X, y = draw_data()
    mechanism = LinearSSP(feature_norm=1.0, response_bound=1.0)
    with pytest.raises(onedraw.InvalidInput, match=r"mechanism='one_posterior'.*got 'linear_ssp'"):
        posterior_draws(onedraw.LinearRegression(epsilon=1.0, mechanism=mechanism), X, y, draws=1)


def test_they_are_neither_charged_nor_kept(tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("patients", epsilon=1.0)
    X, y = draw_data()
    estimator = draw_once(classes=[0, 1], ledger=ledger, dataset="patients")
    posterior_draws(estimator, X, y, draws=2, random_state=0)
    assert ledger.show("patients").spent == 0.0
    assert not [name for name in vars(estimator) if name.endswith("_")]


def test_the_docstring_warns():
    assert "NOT PRIVATE" in (onedraw.unsafe.__doc__ or "")
    assert "NOT PRIVATE" in (posterior_draws.__doc__ or "")
