# SPDX-License-Identifier: Apache-2.0
"""Inference from releases of every model, against the errors of textbooks where privacy costs nothing.

Epsilon is 200, so intervals must be those of the non-private fit: closed forms by NumPy.
"""

import dataclasses

import numpy as np
import pytest
from scipy import optimize, special, stats

import onedraw
from onedraw.errors import InvalidInput
from onedraw.families.categorical import contrast_basis
from onedraw.mechanisms import TiltedFit
from onedraw.release import Release
from onedraw.uncertainty import inference_of, summarise
from onedraw.uncertainty.released import released_of

N, EPSILON = 8000, 200.0
TRUTH = np.array([0.8, -0.5, 0.3])
BOUNDS = [(-1.0, 1.0)] * 2


def rows(seed=0):
    x = np.random.default_rng(seed).uniform(-1, 1, (N, 2))
    return x, np.column_stack([x, np.ones(N)])


def fitted(kind, x, y, **options):
    mechanism = TiltedFit(inference=options.pop("inference", True))
    model = kind(
        epsilon=EPSILON, mechanism=mechanism, random_state=3, **{"feature_bounds": BOUNDS, **options}
    )
    return model.fit(x, y)


def newton(z, y, mean, variance):
    """The maximum of a likelihood with canonical link, and its curvature."""
    theta = np.zeros(z.shape[1])
    for _ in range(30):
        curvature = (z * variance(z @ theta)[:, None]).T @ z
        theta = theta + np.linalg.solve(curvature, z.T @ (y - mean(z @ theta)))
    return theta, curvature


@pytest.fixture(scope="module")
def linear():
    x, z = rows()
    y = 50.0 + 10.0 * (z @ TRUTH) + 5.0 * np.random.default_rng(1).standard_normal(N)
    return x, z, y, fitted(onedraw.LinearRegression, x, y)


def test_a_linear_model_has_the_errors_of_least_squares(linear):
    """Log-cosh with a cut of 3 has 0.995 of the efficiency of least squares; 6% is for sampling."""
    _, z, y, model = linear
    plain = np.linalg.lstsq(z, y, rcond=None)[0]
    spread = np.std(y - z @ plain)
    errors = spread * np.sqrt(np.linalg.inv(z.T @ z).diagonal())
    np.testing.assert_allclose(model.standard_errors_, errors / np.sqrt(0.995), rtol=0.06)
    assert (abs(model.summary().estimate - plain) < 0.5 * errors).all()
    assert model.summary().names == ("x0", "x1", "(intercept)")
    assert "if the model holds" in str(model.summary())


def test_bounds_of_the_response_move_nothing_but_its_working_units(linear):
    x, _, y, model = linear
    bounded = fitted(onedraw.LinearRegression, x, y, target_bounds=(0.0, 100.0))
    found, other = model.summary(), bounded.summary()
    np.testing.assert_allclose(other.standard_error, found.standard_error, rtol=0.08)
    gap = np.subtract(other.estimate, found.estimate)
    assert (abs(gap) < 0.3 * np.array(found.standard_error)).all()


def test_a_poisson_model_has_the_errors_of_its_likelihood_where_the_cap_hides_nothing():
    """Rates of 0.2: a cap of 1 or 2 keeps nearly all information."""
    x, z = rows()
    y = np.random.default_rng(2).poisson(np.exp(z @ TRUTH - 2.0)).astype(float)
    theta, curvature = newton(z, y, np.exp, np.exp)
    model = fitted(onedraw.PoissonRegressor, x, y)
    errors = np.sqrt(np.linalg.inv(curvature).diagonal())
    assert (model.standard_errors_ > 0.97 * errors).all()
    np.testing.assert_allclose(model.standard_errors_, errors, rtol=0.15)
    assert (abs(model.summary().estimate - theta) < 0.7 * errors).all()


def test_releases_of_counts_are_read_by_the_loss_that_made_them():
    """Earlier versions capped counts and called it "cap": neither may be taken for the other."""
    x, z = rows()
    y = np.random.default_rng(2).poisson(np.exp(z @ TRUTH)).astype(float)
    release = fitted(onedraw.PoissonRegressor, x, y).release_
    cap, cut = (release.statistics[name] for name in ("largest_count", "count_cut"))
    assert "cap" not in release.statistics
    weight = released_of(release).weight
    assert (weight.cap, weight.cut) == (cap.values[0], cut.values[0])
    others = {k: v for k, v in release.statistics.items() if k not in ("largest_count", "count_cut")}
    earlier = released_of(dataclasses.replace(release, statistics={**others, "cap": cap})).weight
    assert (earlier.cap, earlier.cut) == (cap.values[0], None)
    wide = {**release.statistics, "largest_count": dataclasses.replace(cap, values=(1e6,))}
    with pytest.raises(InvalidInput, match="largest count between 1 and 1000, got 1e"):
        released_of(dataclasses.replace(release, statistics=wide))
    with pytest.raises(InvalidInput, match="largest_count"):
        released_of(dataclasses.replace(release, statistics=others))


@pytest.fixture(scope="module")
def logistic():
    x, z = rows()
    y = (np.random.default_rng(4).random(N) < 1 / (1 + np.exp(-z @ TRUTH))).astype(int)
    return x, z, y, fitted(onedraw.LogisticRegression, x, y, classes=[0, 1])


def test_a_private_number_of_rows_is_read_from_the_curvature(logistic):
    x, z, y, public = logistic
    private = fitted(onedraw.LogisticRegression, x, y, classes=[0, 1], neighbours="add_remove")
    assert private.release_.num_records is None
    probability = 1 / (1 + np.exp(-z @ TRUTH))
    curvature = (z * (probability * (1 - probability))[:, None]).T @ z
    errors = np.sqrt(np.linalg.inv(curvature).diagonal())
    np.testing.assert_allclose(private.standard_errors_, errors, rtol=0.06)
    np.testing.assert_allclose(public.standard_errors_, errors, rtol=0.06)


def test_rows_of_a_person_count_as_if_they_were_one(logistic):
    x, _, y, public = logistic
    several = fitted(onedraw.LogisticRegression, x, y, classes=[0, 1], rows_per_person=4)
    np.testing.assert_allclose(several.standard_errors_, 2.0 * public.standard_errors_, rtol=0.06)
    assert "identical rows" in several.summary().caveats[0]


def sandwich(z, curvature, score):
    inverse = np.linalg.inv(curvature)
    return np.sqrt((inverse @ (z * (score**2)[:, None]).T @ z @ inverse).diagonal())


def test_robust_errors_are_those_of_the_sandwich_where_the_spread_depends_on_the_features():
    """Least squares knows no sandwich of log-cosh, so it is built here, at the released fit."""
    x, z = rows()
    noise = (0.2 + 3.0 * abs(x[:, 0])) * np.random.default_rng(5).standard_normal(N)
    y = z @ TRUTH + noise
    plain, robust = (fitted(onedraw.LinearRegression, x, y, inference=kind) for kind in (True, "robust"))
    cut = robust.release_.statistics["score_bound"].values[0]
    relative = (y - z @ np.array(robust.summary().estimate)) / cut
    curvature = (z / np.cosh(np.clip(relative, -300, 300))[:, None] ** 2).T @ z
    errors = sandwich(z, curvature, cut * np.tanh(relative))
    np.testing.assert_allclose(robust.standard_errors_, errors, rtol=0.06)
    assert plain.standard_errors_[0] < 0.85 * errors[0]


@pytest.fixture(scope="module")
def curved_classes():
    """Three classes, the first of them rare in the middle of a feature, which no softmax of rows is."""
    x, z = rows()
    logits = 0.4 * z @ np.array([TRUTH, -TRUTH, 0.5 * TRUTH[::-1]]).T
    logits[:, 0] += 4.0 * x[:, 0] ** 2 - 3.5
    cumulated = special.softmax(logits, axis=1).cumsum(1)
    y = (np.random.default_rng(8).random((N, 1)) > cumulated[:, :2]).sum(1)
    return z, y, fitted(onedraw.LogisticRegression, x, y, classes=[0, 1, 2], inference="robust")


def test_robust_errors_of_classes_are_those_of_the_sandwich_where_the_model_is_wrong(curved_classes):
    """The sandwich of the log loss and half of Brier's score, by derivatives of it at the released fit: the
    slope by differences of scores. That of the inference may be off by a few per cent (``inference.score``).
    """
    z, y, robust = curved_classes
    basis = contrast_basis(3)
    coef = np.array(robust.summary().estimate)
    theta = basis.T @ np.column_stack([coef[:6].reshape(3, 2), coef[6:]])

    def probabilities(point):
        return special.softmax(z @ point.reshape(2, 3).T @ basis.T, axis=1)

    def scores(point):
        pi = probabilities(point)
        gap = pi - np.eye(3)[y]
        gap = gap + 0.5 * pi * (gap - (pi * gap).sum(1, keepdims=True))
        return np.einsum("na,ni->nai", gap @ basis, z).reshape(N, 6)

    step = 1e-5 * np.eye(6)
    slope = np.array([(scores(theta.ravel() + e) - scores(theta.ravel() - e)).sum(0) for e in step]) / 2e-5
    inverse = np.linalg.inv(slope)
    covariance = inverse @ scores(theta.ravel()).T @ scores(theta.ravel()) @ inverse
    order = [3 * c + j for c in range(3) for j in range(2)] + [3 * c + 2 for c in range(3)]
    report = np.kron(basis, np.eye(3))[order]
    errors = np.sqrt((report @ covariance @ report.T).diagonal())
    np.testing.assert_allclose(robust.standard_errors_, errors, rtol=0.08)
    pi = probabilities(theta)
    variance = basis.T @ (pi[:, :, None] * (np.eye(3) - pi[:, None, :])) @ basis
    information = np.einsum("nab,ni,nj->aibj", variance, z, z, optimize=True).reshape(6, 6)
    assert np.sqrt((report @ np.linalg.inv(information) @ report.T)[0, 0]) < 0.8 * errors[0]


def test_robust_errors_of_classes_follow_from_the_file_and_say_what_they_are(curved_classes, tmp_path):
    *_, robust = curved_classes
    robust.release_.to_json(tmp_path / "robust.json")
    read = summarise(Release.from_json(tmp_path / "robust.json"))
    np.testing.assert_array_equal(read.standard_error, robust.summary().standard_error)
    assert "Errors are robust (sandwich)" in str(read)
    assert "if the model holds" not in str(read)
    total = robust.wald_test(["x0 [0]", "x0 [1]"])
    assert total.p_value == inference_of(robust.release_).wald_test(["x0 [0]", "x0 [1]"]).p_value


def test_robust_errors_of_counts_are_refused_because_bounded_scores_of_others_have_other_means():
    """Negative binomial counts of size 3 and mean 2 look like Poisson ones of a lower mean."""
    k, cap, cut = np.arange(60), 4.0, 1.5

    def score(law, location):
        return (law.pmf(k) * np.tanh((location - np.minimum(k, cap)) / cut)).sum()

    location = optimize.brentq(lambda t: score(stats.nbinom(3.0, 3.0 / 5.0), t), 0.0, cap)
    poisson = optimize.brentq(lambda mean: score(stats.poisson(mean), location), 0.1, 10.0)
    assert np.log(2.0 / poisson) > 0.05  # an intercept has a standard error of about 0.01 at 10,000 records
    x, _ = rows()
    with pytest.raises(InvalidInput, match="the score of a count is bounded"):
        fitted(onedraw.PoissonRegressor, x, np.zeros(N), inference="robust")


# -- what follows from an inference


def test_contrasts_tests_and_means_agree_with_the_table(linear):
    x, _, _, model = linear
    found = model.summary()
    single = model.contrast("x1")
    assert single.estimate[0] == pytest.approx(found.estimate[1])
    assert single.low[0] == pytest.approx(found.low[1])
    assert model.wald_test("x1").p_value == found.p_value[1]
    assert model.contrast({"x0": 2.0}).standard_error[0] == pytest.approx(2.0 * found.standard_error[0])
    several = model.contrast([{"x0": 1.0, "x1": -1.0}, {"x1": 3.0}], level=0.5)
    assert several.names == ("x0 -1 x1", "3 x1")
    assert several.estimate[0] == pytest.approx(found.estimate[0] - found.estimate[1], abs=1e-2)
    zero = model.mean_interval(np.zeros((1, 2)))[0]
    np.testing.assert_allclose(zero, [found.low[2], found.high[2]])
    assert model.wald_test({"x0": 1.0}, found.low[0]).p_value == pytest.approx(0.05, abs=1e-6)
    joint = model.wald_test(["x0", "x1"], [found.estimate[0], found.estimate[1]])
    assert (joint.degrees, joint.z) == (2, None)
    assert joint.p_value > 0.99
    # Rows are taken piece by piece; products of matrices of other sizes may round otherwise.
    pieces, alone = model.mean_interval(x[:1500])[[0, -1]], model.mean_interval(x[[0, 1499]])
    np.testing.assert_allclose(pieces, alone, rtol=1e-13)


def test_intervals_of_probabilities_are_those_of_the_predictor(logistic):
    x, _, _, model = logistic
    low, high = model.mean_interval(x[:50]).T
    assert ((low > 0) & (low < high) & (high < 1)).all()
    predictor = model.contrast(np.array([[*x[7], 1.0]]))
    assert low[7] == pytest.approx(1 / (1 + np.exp(-predictor.low[0])))


def test_who_holds_the_file_gets_the_same_numbers(linear, tmp_path):
    _, _, _, model = linear
    model.release_.to_json(tmp_path / "release.json")
    read = Release.from_json(tmp_path / "release.json")
    assert summarise(read, 0.9) == model.summary(0.9)
    assert inference_of(read).wald_test(["x0", "x1"]) == model.wald_test(["x0", "x1"])


@pytest.mark.parametrize(
    ("contrasts", "message"),
    [
        ({"x9": 1.0}, "one of 'x0', 'x1'"),
        ({"x0": 0.0}, "not all 0"),
        (np.ones((1, 7)), "one weight for each of 3"),
        (["x0", {"x0": 2.0}], "linearly independent"),
    ],
)
def test_contrasts_that_make_no_sense_are_refused(linear, contrasts, message):
    with pytest.raises(onedraw.InvalidInput, match=message):
        linear[3].wald_test(contrasts)


def test_a_curvature_that_noise_hides_is_refused_by_what_was_released(logistic):
    release = logistic[3].release_
    noisy = dataclasses.replace(
        release.statistics["curvature_sd"],
        values=tuple(2.0**20 * v for v in release.statistics["curvature_sd"].values),
    )
    hidden = dataclasses.replace(release, statistics={**release.statistics, "curvature_sd": noisy})
    with pytest.raises(onedraw.InvalidInput, match=r"mostly by assumption|of use"):
        summarise(hidden)


def test_a_ledger_is_not_charged_for_what_is_refused_beforehand(tmp_path):
    ledger = onedraw.Ledger(tmp_path / "budget.db")
    ledger.create("study", epsilon=5.0)
    model = onedraw.LinearRegression(
        epsilon=1.0,
        mechanism=TiltedFit(inference=True),
        fit_intercept=False,
        ledger=ledger,
        dataset="study",
    )
    with pytest.raises(onedraw.InvalidInput, match="need an intercept"):
        model.fit(*rows())
    assert not [entry for entry in ledger.history("study") if entry.kind == "charge"]


def test_a_summary_says_what_it_rests_on_where_noise_could_hide_a_direction():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (10_000, 10))
    y = x @ np.linspace(-1.0, 1.0, 10) + 0.5 * rng.standard_normal(10_000)
    for epsilon, said in [(1.0, True), (20.0, False)]:
        model = onedraw.LinearRegression(epsilon=epsilon, feature_bounds=[(-1, 1)] * 10, random_state=0)
        table = model.fit(x, y).summary()
        assert ("Caveat: The noise could hide that a column hardly varies" in str(table)) is said
        assert ("could hide" in table.to_html()) is said
