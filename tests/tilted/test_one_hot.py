# SPDX-License-Identifier: Apache-2.0
"""Rows with an entry for every category: what they say, how they are bounded, and the law of their tilt."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, stats

import onedraw
from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Categorical
from onedraw.families.categorical import contrast_basis
from onedraw.mechanisms import TiltedFit
from onedraw.mechanisms.base import Shape
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.tilted.calibration import calibrate
from onedraw.tilted.fit import tilted_fit
from onedraw.tilted.losses import Logistic
from onedraw.tilted.norm_laws import OneHotClassLaw, norm_law
from onedraw.tilted.one_hot import OneHot, OneHotLaw, one_hot_of
from onedraw.tilted.weights import Weighing, constant, one_hot_rows
from onedraw.uncertainty.categories import too_many_levels
from onedraw.uncertainty.released import released_of

GEOMETRY = OneHot(num_features=6, columns=((3, 1), (2, 4, 5)))
"""A plain feature, three categories, and four."""


def records(rng, n=200):
    """Working features, and which categories the records meet, the reference being 0."""
    first, second = rng.integers(3, size=n), rng.integers(4, size=n)
    x = -np.ones((n, 6))
    x[:, 0] = rng.uniform(-1, 1, n)
    for place, met in (
        (3, first == 1),
        (1, first == 2),
        (2, second == 1),
        (4, second == 2),
        (5, second == 3),
    ):
        x[met, place] = 1.0
    return x, first, second


# -- rows


def test_a_row_is_one_where_a_category_is_met():
    x, first, second = records(np.random.default_rng(0))
    rows = one_hot_rows(x, GEOMETRY)
    assert rows.weight is None
    assert not rows.intercept
    expected = np.zeros((len(x), 8))
    expected[:, 0] = x[:, 0]
    expected[np.arange(len(x)), np.array([6, 3, 1])[first]] = 1.0
    expected[np.arange(len(x)), np.array([7, 2, 4, 5])[second]] = 1.0
    np.testing.assert_array_equal(rows.design, expected)
    np.testing.assert_allclose(np.column_stack([x, np.ones(len(x))]) @ GEOMETRY.frame.T, expected, atol=1e-15)


def test_parameters_of_both_rows_have_the_same_predictors_and_sums_the_same_scores():
    rng = np.random.default_rng(1)
    x, *_ = records(rng)
    z, u = np.column_stack([x, np.ones(len(x))]), one_hot_rows(x, GEOMETRY).design
    theta, scores = rng.normal(size=8), rng.normal(size=len(x))
    np.testing.assert_allclose(u @ theta, z @ (theta @ GEOMETRY.frame), atol=1e-12)
    np.testing.assert_allclose(GEOMETRY.back @ (scores @ u), scores @ z, atol=1e-10)
    np.testing.assert_allclose(u @ GEOMETRY.constant, 1.0)
    assert constant("cube", 3, intercept=True).tolist() == [0.0, 0.0, 1.0]
    assert constant("ball", 2, intercept=False).tolist() == [0.0, 0.0]


def test_whatever_the_features_are_a_row_is_within_its_bounds():
    """In exact arithmetic, but for 1e-15 where a sum was rounded; the calibration has room of 1e-9."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (300, 6)) * 10.0 ** rng.uniform(-3, 3, (300, 1))
    x[:50] = rng.choice([-1.0, 1.0], (50, 6))  # several categories at once, which no declared column has
    x[50], x[51, 1], x[52, 0] = 1e300, -1e308, 1.0 + 2.0**-52
    rows = one_hot_rows(x, GEOMETRY)
    for i in range(len(x)):
        u, weight = [Fraction(v) for v in rows.design[i].tolist()], Fraction(float(rows.weight[i]))
        sums = [sum(abs(u[j]) for j in block) for block in GEOMETRY.blocks]
        assert weight * max(abs(u[0]), *sums) <= 1 + Fraction(1, 10**15)
        assert weight * sum(v * v for v in u) <= GEOMETRY.squared_length * (1 + Fraction(1, 10**15))
    met_twice = one_hot_rows(np.array([[0.0, 1.0, -1.0, 1.0, -1.0, -1.0]]), GEOMETRY)
    assert met_twice.weight == pytest.approx([1.0 / 9.0])  # two categories, and the reference -1 times


@pytest.mark.parametrize("columns", [((0, 1), (1, 2)), ((0, 7),), (), ((),)])
def test_columns_have_places_of_their_own(columns):
    with pytest.raises(InvalidInput, match="places of their own below 6"):
        OneHot(num_features=6, columns=columns)


# -- which models have them


def named(**facts):
    names = ("age", "town=b (vs a)", "town=c (vs a)", "sex=f (vs m)", "job[T.x]", "job[T.y]", "job[T.x]:age")
    bounds = ((0.0, 90.0), *((0.0, 1.0),) * 5, (0.0, 90.0))
    return RegressionModel(**{"family": Bernoulli(), "features": names, "feature_bounds": bounds} | facts)


def test_declared_categories_are_found_two_of_them_are_a_cube_already():
    found = one_hot_of(named())
    assert found == OneHot(num_features=7, columns=((1, 2), (4, 5)))
    assert (found.dim, found.squared_length) == (9, 5)


@pytest.mark.parametrize(
    "facts",
    [
        {"feature_bounds": None},
        {"fit_intercept": False},
        {"feature_bounds": ((0.0, 90.0), *((0.0, 2.0),) * 5, (0.0, 90.0))},
    ],
)
def test_where_nothing_says_that_one_is_met_the_rows_are_those_of_features(facts):
    assert one_hot_of(named(**facts)) is None


def test_robust_errors_know_indicators_only_and_all_else_has_the_ridge_of_few_entries():
    shape = Shape(model=named(features=named().features[:6], feature_bounds=((0.0, 1.0),) * 6))
    shape = replace(shape, num_records=10**6)
    numbers = {
        asked: TiltedFit(inference=asked).calibrate(Request(epsilon=1.0), shape)._numbers()
        for asked in (True, "robust")
    }
    assert numbers[True]["tilt_law"] == "OneHotLaw"
    assert numbers["robust"]["tilt_law"] == "CubeLaw"
    # c0 is 2 plain features and 2 columns; as features the same model has 7 entries.
    per_epsilon = {asked: known["ridge"] * known["epsilon_of_fit"] for asked, known in numbers.items()}
    assert per_epsilon[True] / per_epsilon["robust"] == pytest.approx(4.0 / 7.0, rel=1e-3)


def test_rows_have_as_many_entries_as_their_law():
    with pytest.raises(InvalidInput, match="rows of 8 entries, got 7"):
        norm_law(predictors=2, columns=7, scale=1.0, geometry=GEOMETRY)


@pytest.mark.parametrize(("asked", "law"), [(False, "OneHotClassLaw"), (True, "ClassNormLaw")])
def test_several_classes_have_them_where_no_curvature_is_released(asked, law):
    model = named(
        family=Categorical(num_classes=3),
        classes=(0, 1, 2),
        features=named().features[:6],
        feature_bounds=((0.0, 1.0),) * 6,
    )
    shape = Shape(model=model, num_records=10**6)
    assert TiltedFit(inference=asked).calibrate(Request(epsilon=1.0), shape)._numbers()["tilt_law"] == law


# -- the law of the tilt

LAW = OneHotLaw(geometry=GEOMETRY, scale=1.3)


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(3)
    return np.array([LAW.sample(rng) for _ in range(20_000)])


@pytest.mark.statistical
def test_the_law_has_its_covariance_and_radius(drawn):
    """Five standard errors of 64 entries, and Kolmogorov-Smirnov: a false alarm once in 7,000 seeds."""
    second = drawn[:, :, None] * drawn[:, None, :]
    error = second.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(second.mean(axis=0) - LAW.covariance) < 5.0 * error).all()
    assert LAW.variance == pytest.approx(np.trace(LAW.covariance) / 8)
    norms = [LAW.norm(b) for b in drawn]
    assert stats.kstest(norms, stats.gamma(8, scale=1.3).cdf).pvalue > 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_several_classes_have_the_covariance_and_radius_of_their_law(classes):
    """Six standard errors (variances are known to a per cent themselves) and Kolmogorov-Smirnov: a false
    alarm once in 3,000 seeds."""
    law, rng = OneHotClassLaw(classes=classes, geometry=GEOMETRY, scale=1.3), np.random.default_rng(11)
    sample = np.array([law.sample(rng) for _ in range(3000)])
    assert stats.kstest([law.norm(b) for b in sample], stats.gamma(law.dim, scale=1.3).cdf).pvalue > 1e-4
    second = sample[:, :, None] * sample[:, None, :]
    error = second.std(axis=0) / np.sqrt(len(sample)) + 0.003 * np.diag(law.variances)
    assert (np.abs(second.mean(axis=0) - law.covariance) < 6.0 * error).all()


def test_two_classes_have_the_law_of_one_predictor():
    """Rows (t, -t) are sqrt(2) t in the contrast; variances of the former are by simulation."""
    two = OneHotClassLaw(classes=2, geometry=GEOMETRY, scale=1.3)
    assert two.variances == pytest.approx(2.0 * LAW.variances, rel=0.03)
    b = np.random.default_rng(12).normal(size=8)
    assert two.norm(np.sqrt(2.0) * b) == pytest.approx(LAW.norm(b))


def test_a_gradient_of_several_classes_has_the_norm_of_its_score():
    """By the formula: half of the sum of the largest plain entries of each class, or of all of a column."""
    rng = np.random.default_rng(13)
    basis, law = contrast_basis(4), OneHotClassLaw(classes=4, geometry=GEOMETRY, scale=1.0)
    x, *_ = records(rng, 20)
    for u in one_hot_rows(x, GEOMETRY).design:
        score = np.r_[-0.9, 0.9 * rng.dirichlet(np.ones(3))]
        assert law.norm((basis.T @ np.outer(score, u)).ravel()) == pytest.approx(0.9)
    t = rng.normal(size=(4, 8))
    t -= t.mean(axis=0)
    sizes = [np.abs(t[:, 0]).sum() / 2, *(np.abs(t[:, list(b)]).sum() / 2 for b in GEOMETRY.blocks)]
    assert law.norm((basis.T @ t).ravel()) == pytest.approx(max(sizes))


@pytest.mark.statistical
def test_directions_are_those_of_uniform_points_of_the_ball(drawn):
    """Against points of cubes that are kept if they are in the ball; Kolmogorov-Smirnov on three statistics
    of each of two columns: a false alarm once in 1,600 seeds."""
    rng, n = np.random.default_rng(4), 8000
    kept = rng.uniform(-1, 1, (n, 8))
    for block in GEOMETRY.blocks:
        points = rng.uniform(-1, 1, (40 * n, len(block)))
        kept[:, list(block)] = points[np.abs(points).sum(axis=1) <= 1.0][:n]
    for block in GEOMETRY.blocks:
        sizes = []
        for sample in (drawn[:n], kept):
            of = (sample / GEOMETRY.norms(sample)[:, None])[:, list(block)]
            sizes.append((of[:, 0], np.abs(of).max(axis=1), np.abs(of).sum(axis=1).round(9)))
        for ours, theirs in zip(*sizes, strict=True):
            assert stats.ks_2samp(ours, theirs).pvalue > 1e-4


# -- the fit


def test_the_exact_density_of_two_categories_integrates_to_one_and_its_ratio_comes_to_epsilon():
    """Two parameters, rows (1, 0) and (0, 1): the tilt has independent Laplace coordinates.

    The worst pair is sought among all neighbours beside some crowds of equal records.
    """
    geometry = OneHot(num_features=1, columns=((0,),))
    fit = calibrate(Logistic(), epsilon=1.0, dim=2, geometry=geometry, solver_share=0.0)
    axis = np.sinh(np.linspace(-6.0, 6.0, 801)) * 0.3
    volume = np.multiply.outer(*[np.gradient(axis)] * 2)

    def density(counts):
        """``counts``: of responses 0 and 1 in either category."""
        total = []
        for none, ones in counts:
            slope, curvature = Logistic().slope_and_curvature(np.zeros_like(axis), axis)
            gradient = none * slope + ones * (slope - 1.0) + fit.ridge * axis
            hessian = (none + ones) * curvature + fit.ridge
            total.append(np.exp(-np.abs(gradient) / fit.law.scale) / (2.0 * fit.law.scale) * hessian)
        return np.multiply.outer(*total)

    assert (density([(3, 1), (0, 2)]) * volume).sum() == pytest.approx(1.0, abs=2e-3)
    worst = 0.0
    for crowd in ((0, 0), (0, 40), (400, 0)):
        for at in range(4):
            for other in range(4):
                one, two = (np.array([crowd, (0, 0)]) for _ in range(2))
                one[at // 2, at % 2] += 1
                two[other // 2, other % 2] += 1
                ratio = np.log(density(one)) - np.log(density(two))
                worst = max(worst, float(np.abs(ratio).max()))
    assert 0.95 <= worst <= 1.0 + 1e-9


def test_a_fit_solves_its_equation_in_these_rows():
    """Without noise to speak of it is the ridge estimate, which SciPy finds, whatever the relation."""
    rng = np.random.default_rng(6)
    x, first, second = records(rng, 3000)
    eta = x[:, 0] + 0.5 * (first - 1) - 0.3 * second
    y = (rng.random(3000) < 1 / (1 + np.exp(-eta))).astype(float)
    rows = Weighing(fit_intercept=True, one_hot=GEOMETRY)(
        SimpleNamespace(features=x, response=y, offset=None)
    )
    fit = calibrate(Logistic(), epsilon=1e7, dim=8, geometry=GEOMETRY)
    theta = tilted_fit(Logistic(), rows, y, fit, rng)[0]

    def objective(t):
        predictor = rows.design @ t
        return np.logaddexp(0.0, predictor).sum() - y @ predictor + 0.5 * fit.ridge * t @ t

    assert theta == pytest.approx(optimize.minimize(objective, np.zeros(8), tol=1e-9).x, abs=1e-3)


def table(n, seed):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    town, job = rng.integers(8, size=n), rng.integers(3, size=n)
    age = rng.uniform(20, 80, n)
    eta = 0.4 * (town - 3.5) + 0.5 * (job == 2) + (age - 50) / 30
    columns = onedraw.Columns({"age": (20.0, 80.0), "town": list("abcdefgh"), "job": list("xyz")})
    frame = pandas.DataFrame(
        {"age": age, "town": np.array(list("abcdefgh"))[town], "job": np.array(list("xyz"))[job]}
    )
    truth = np.r_[1 / 30, 0.4 * np.arange(1, 8), 0.0, 0.5, -1.4 - 5 / 3]
    return frame, columns, eta, truth, rng


@pytest.mark.parametrize("model", ["logistic", "linear", "poisson"])
def test_estimates_with_many_categories_are_close_and_their_intervals_cover(model):
    """10 releases of 11 parameters, epsilon 1. Were a release's intervals as good as four independent ones,
    fewer than 0.84 of them would cover once in 500 seeds; errors are about 1.1 times those of the non-private
    fit, and were 2 to 10 times where categories are points of a cube."""
    kinds = {
        "logistic": (onedraw.LogisticRegression, {"classes": [0, 1]}),
        "linear": (onedraw.LinearRegression, {}),
        "poisson": (onedraw.PoissonRegressor, {}),
    }
    covered, errors = [], []
    for seed in range(10):
        frame, columns, eta, truth, rng = table(10_000, seed)
        draw = {
            "logistic": lambda e, rng=rng: (rng.random(len(e)) < 1 / (1 + np.exp(-e))).astype(int),
            "linear": lambda e, rng=rng: e + 0.5 * rng.standard_normal(len(e)),
            "poisson": lambda e, rng=rng: rng.poisson(np.exp(0.5 * e)).astype(float),
        }[model]
        truth = 0.5 * truth if model == "poisson" else truth
        kind, options = kinds[model]
        fitted = kind(epsilon=1.0, columns=columns, random_state=seed, **options).fit(frame, draw(eta))
        found = fitted.summary()
        covered.append((np.array(found.low) <= truth) & (truth <= np.array(found.high)))
        errors.append(np.r_[fitted.coef_.ravel(), np.ravel(fitted.intercept_)] - truth)
    plain = np.array(found.standard_error)  # about those without privacy
    assert np.mean(covered) >= 0.84
    assert np.sqrt(np.mean((np.array(errors) / plain) ** 2)) < 1.3


@pytest.fixture(scope="module")
def published():
    frame, columns, eta, _, rng = table(6000, 0)
    y = (rng.random(6000) < 1 / (1 + np.exp(-eta))).astype(int)
    options = {"epsilon": 5.0, "columns": columns, "classes": [0, 1], "random_state": 0}
    return onedraw.LogisticRegression(**options).fit(frame, y).release_


def test_a_release_says_how_its_rows_were_made(published):
    """By numbers with other names: who knows rows of indicators only finds no curvature of those."""
    found = published.statistics
    assert found["one_hot"].values == (0, *[1] * 7, *[2] * 2)
    assert OneHot.of_numbers(found["one_hot"].values) == one_hot_of(published.model)
    assert len(found["one_hot_minimiser"].values) == 12  # 10 features and two references
    assert len(found["one_hot_curvature"].values) == 78
    assert not {"minimiser", "centre", "curvature", "curvature_sd"} & set(found)
    read = onedraw.release.Release.from_json(published.to_json())
    assert read.summary() == published.summary()
    without = {name: value for name, value in found.items() if not name.startswith("one_hot")}
    with pytest.raises(InvalidInput, match="does not hold"):
        released_of(replace(published, statistics=without))


@pytest.mark.parametrize("name", ["minimiser", "centre", "curvature", "curvature_sd", ""])
def test_a_file_with_too_few_numbers_is_refused_by_their_name(published, name):
    name = f"one_hot_{name}".removesuffix("_")
    short = replace(published.statistics[name], values=published.statistics[name].values[:-1])
    with pytest.raises(InvalidInput, match=f"released numbers '{name}'"):
        released_of(replace(published, statistics={**published.statistics, name: short}))


def test_more_is_known_of_these_rows_than_of_indicators():
    model = named(features=tuple(f"town={k} (vs 0)" for k in range(1, 16)), feature_bounds=((0.0, 1.0),) * 15)
    assert not too_many_levels(model)
    assert "up to 12" in too_many_levels(model, apart=False)
    assert "up to 12" in too_many_levels(replace(model, feature_bounds=None))
