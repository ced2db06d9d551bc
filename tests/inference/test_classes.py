# SPDX-License-Identifier: Apache-2.0
"""Inference for three and more classes: the law of the rows, what is not normal, and whole releases."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

import onedraw
from onedraw.errors import InvalidInput
from onedraw.families.categorical import contrast_basis
from onedraw.inference import ClassWeight, EfficientScore, LogisticWeight, NormalTilt, Released
from onedraw.inference.components import solved
from onedraw.inference.curvature import row_law
from onedraw.inference.information import or_nan
from onedraw.inference.misfit import DIAGONAL, LEAST, OFF_DIAGONAL, ratios
from onedraw.inference.moments import MomentSpace
from onedraw.inference.nodes import nodes
from onedraw.inference.noisy import CurvatureDensity, NoisyCurvature
from onedraw.inference.rows import Rows
from onedraw.inference.space import RowSpace
from onedraw.mechanisms import TiltedFit
from onedraw.mechanisms.tilted_fit import CURVATURE_SHARE
from onedraw.release import Release
from onedraw.tilted.class_law import ClassNormLaw
from onedraw.tilted.curvature import curvature_law
from onedraw.uncertainty.released import released_of

# -- the law of the rows


def one_cell(moments):
    return Rows.of_moments(moments, intercept=True)


@pytest.mark.parametrize("free", [0, 1, 3, 40])
def test_nodes_have_the_moments_of_normal_rows(free):
    points = nodes(free, 32)
    np.testing.assert_allclose(points.T @ points / len(points), np.eye(free), atol=1e-9)
    np.testing.assert_allclose(points.mean(0), np.zeros(free), atol=1e-12)


def softmax_sums(rows, mass, theta):
    """The mean score and curvature of weighted rows, from the definition, predictor by predictor."""
    basis = contrast_basis(len(theta) + 1)
    pi = special.softmax(rows @ theta.T @ basis.T, axis=1)
    mean, q = pi @ basis, len(theta)
    curvature = np.empty((q, rows.shape[1], q, rows.shape[1]))
    for a, b in np.ndindex(q, q):
        covariance = pi @ (basis[:, a] * basis[:, b]) - mean[:, a] * mean[:, b]
        curvature[a, :, b] = (rows * (mass * covariance)[:, None]).T @ rows
    return mean.T @ (rows * mass[:, None]), curvature.reshape(theta.size, theta.size)


def test_the_curvature_and_the_score_are_those_of_normal_rows():
    """Against quadrature over one feature; the score has 256 nodes, which err by little of what varies."""
    places, masses = np.polynomial.hermite_e.hermegauss(40)
    rows = np.column_stack([np.ones(40), 0.3 + 0.8 * places])
    mass = masses / masses.sum()
    theta = np.array([[-0.4, 0.9], [0.6, 0.5]])
    score, curvature = softmax_sums(rows, mass, theta)
    moments = (rows * mass[:, None]).T @ rows
    law = row_law(ClassWeight(classes=3), one_cell(moments[None]), theta.reshape(1, 4))
    np.testing.assert_allclose(law.score[0], score.ravel(), atol=0.005)
    np.testing.assert_allclose(law.curvature[0], curvature, atol=1e-6)


def test_the_truth_is_found_from_the_mean_score_with_briers_score():
    """Of a fit at other parameters than the truth, by the definition, over the nodes of one feature."""
    count, points = 700.0, nodes(1, 256)
    rows, mass = np.column_stack([np.ones(256), 0.3 + 0.8 * points[:, 0]]), np.full(256, count / 256)
    fit, truth = np.array([[-0.4, 0.9], [0.6, 0.5]]), np.array([[-0.1, 0.5], [0.3, 0.8]])
    basis = contrast_basis(3)
    seen, true = (special.softmax(rows @ each.T @ basis.T, axis=1) for each in (fit, truth))
    bent = seen[:, :, None] * (np.eye(3) - seen[:, None, :])  # V in classes
    scores = ((np.eye(3) + 0.5 * bent) @ (true - seen)[:, :, None])[:, :, 0]
    shift = (scores @ basis).T @ (rows * mass[:, None])
    cell = one_cell((rows.T @ rows / 256)[None])
    weight = ClassWeight(classes=3, brier=0.5)
    found = solved(weight, cell, np.array([count]), fit.reshape(1, 4), shift.reshape(1, 4))
    np.testing.assert_allclose(found.point[0], truth.ravel(), atol=1e-6)
    places, masses = np.polynomial.hermite_e.hermegauss(60)
    rows, mass = np.column_stack([np.ones(60), 0.3 + 0.8 * places]), count * masses / masses.sum()
    information = softmax_sums(rows, mass, truth)[1]
    np.testing.assert_allclose(found.curvature[0], information, rtol=1e-4)
    true = special.softmax(rows @ truth.T @ basis.T, axis=1)
    variance = basis.T @ (true[:, :, None] * (np.eye(3) - true[:, None, :])) @ basis
    steeper = variance + 0.5 * variance @ variance
    slope = np.einsum("n,nab,ni,nj->aibj", mass, steeper, rows, rows).reshape(4, 4)
    np.testing.assert_allclose(found.slope[0], slope, rtol=1e-4)
    score = EfficientScore().covariances(found, np.random.default_rng(0))
    error = found.inverse @ score @ found.inverse
    np.testing.assert_allclose(error[0], np.linalg.inv(information), rtol=1e-4)


def test_two_classes_agree_with_the_logistic_formula():
    """A contrast of two classes is the log odds over sqrt(2), so its curvature is twice as large."""
    moments = np.array([[1.0, 0.2, -0.1], [0.2, 0.6, 0.1], [-0.1, 0.1, 0.4]])[None]
    theta = np.array([[0.3, -0.5, 0.7]])
    classes = row_law(ClassWeight(classes=2), one_cell(moments), theta)
    logistic = row_law(LogisticWeight(), one_cell(moments), np.sqrt(2.0) * theta)
    np.testing.assert_allclose(classes.curvature, 2.0 * logistic.curvature, atol=0.006)


@pytest.mark.parametrize("classes", [3, 5])
@pytest.mark.parametrize("columns", [3, 5, 12])
def test_the_information_is_that_of_many_rows(columns, classes):
    """Of 200,000 normal rows and their mirror images: 2% of the scale of an entry is five standard errors."""
    rng, dim = np.random.default_rng(columns), columns + 1
    root = rng.normal(size=(dim, dim)) / np.sqrt(dim)
    moments = root @ root.T + 0.3 * np.eye(dim)
    moments /= np.sqrt(np.outer(moments.diagonal(), moments.diagonal()))
    theta = rng.normal(size=(classes - 1, dim)) / np.sqrt(columns)
    law = row_law(ClassWeight(classes=classes), one_cell(moments[None]), theta.reshape(1, -1))
    centre, covariance = moments[0], moments - np.outer(moments[0], moments[0])
    noise = rng.multivariate_normal(np.zeros(dim), covariance, 200_000, method="eigh")
    rows = centre + np.concatenate([noise, -noise])
    expected = softmax_sums(rows, np.full(len(rows), 1.0 / len(rows)), theta)[1]
    size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    np.testing.assert_allclose(law.curvature[0] / size, expected / size, atol=0.02)


@pytest.mark.parametrize(
    ("dim", "classes", "intercept"),
    [(1, 3, True), (2, 4, False), (3, 3, True), (4, 3, True), (4, 3, False), (6, 5, True)],
)
def test_the_gradient_of_the_density_agrees_with_differences(dim, classes, intercept, differs_as_it_says):
    rng, n = np.random.default_rng(dim), dim * (classes - 1)
    space = RowSpace(plain=MomentSpace(dim=dim, intercept=intercept, count_sd=0.2))
    raw = rng.normal(size=(3, n, n))
    density = CurvatureDensity(
        space=space,
        weight=ClassWeight(classes=classes),
        theta=0.5 * rng.normal(size=(3, n)),
        count=np.full(3, 1000.0),
        noisy=NoisyCurvature(
            matrix=60 * (raw + raw.transpose(0, 2, 1)) + 300 * np.eye(n),
            diagonal_sd=np.full(3, 200.0),
            offdiagonal_sd=np.full(3, 300.0),
            misfit=np.full((3, n, n), 50.0),
        ),
    )
    differs_as_it_says(density, 0.4 * rng.normal(size=(3, space.size)))


def test_a_diverging_proposal_is_no_error():
    law = row_law(ClassWeight(classes=3), one_cell(np.full((2, 2, 2), np.nan)), np.zeros((2, 4)))
    assert np.isnan(law.curvature).all()
    assert np.isnan(law.pullback(np.zeros((2, 4, 4))).covariance[:, 1, 1]).all()


# -- curvatures that are not those of normal rows


def test_a_misfit_follows_a_sharp_release_and_its_own_spread_otherwise():
    """Moments of 4,000 draws: 10 per cent is four standard errors or more."""
    rng, model = np.random.default_rng(0), np.array([[100.0, 30.0], [30.0, 60.0]])
    released = np.array([[93.0, 32.0], [32.0, 66.0]])
    factor = np.linalg.cholesky(model)
    sharp = ratios(released, 1e-6, 1e-6, model[None], rng)[0]
    np.testing.assert_allclose(factor @ sharp @ factor.T, released, rtol=1e-5)
    blind = ratios(released, 1e6, 1e6, np.repeat(model[None], 4000, axis=0), rng)
    spread = (factor @ blind @ factor.T).std(axis=0)
    assert spread.diagonal() == pytest.approx(DIAGONAL * model.diagonal(), rel=0.1)
    assert spread[0, 1] == pytest.approx(OFF_DIAGONAL * np.sqrt(100.0 * 60.0), rel=0.1)
    assert np.linalg.eigvalsh(ratios(-released, 1e-6, 1e-6, model[None], rng)[0]).min() >= LEAST - 1e-9


def test_a_solution_moves_by_the_corrected_curvature():
    """A small shift moves the parameters by H^-1 times it, H the curvature with its misfit."""
    moments, theta = np.array([[[1.0, 0.1], [0.1, 0.4]]]), np.array([[0.2, -0.3, 0.4, 0.1]])
    law = row_law(ClassWeight(classes=3), one_cell(moments), theta)
    factor = np.linalg.cholesky(500.0 * law.jacobian[0])
    ratio = np.diag([0.7, 1.2, 1.0, 0.9]) + 0.05
    shift = 1e-3 * np.array([[1.0, -2.0, 0.5, 1.0]])
    found = solved(
        ClassWeight(classes=3), one_cell(moments), np.array([500.0]), theta, shift, ratio=ratio[None]
    )
    expected = np.linalg.solve(factor @ ratio @ factor.T, shift[0])
    np.testing.assert_allclose(found.point[0] - theta[0], expected, rtol=1e-3)
    np.testing.assert_allclose(found.inverse[0], np.linalg.inv(factor @ ratio @ factor.T), rtol=1e-3)


def test_parameters_that_are_no_multiple_of_the_predictors_are_refused():
    with pytest.raises(InvalidInput, match="2 predictors, got 3"):
        Released(
            theta=np.zeros(3), ridge=1.0, tilt=NormalTilt(dim=3, scale=1.0), curvature=np.eye(3),
            diagonal_sd=1.0, offdiagonal_sd=1.0, count=10.0, weight=ClassWeight(classes=3),
        )  # fmt: skip


# -- whole releases, where privacy costs nothing: the errors of textbooks

N, TRUTH = 8000, np.array([[0.8, -0.5, 0.3], [-0.6, 0.1, -0.4], [-0.2, 0.4, 0.1]])
NAMES = tuple(f"{name} [{label}]" for label in "abc" for name in ("x0", "x1"))


def fitted(features, **options):
    rng = np.random.default_rng(4)
    x = features(rng)
    z = np.column_stack([x, np.ones(N)])
    pi = special.softmax(z @ TRUTH.T, axis=1)
    y = np.array(list("abc"))[(rng.random((N, 1)) > pi.cumsum(axis=1)).sum(axis=1)]
    basis = contrast_basis(3)
    _, curvature = softmax_sums(z, np.ones(N), basis.T @ TRUTH)
    report = np.kron(basis, np.eye(3))
    errors = np.sqrt((report @ np.linalg.inv(curvature) @ report.T).diagonal()).reshape(3, 3)
    model = onedraw.LogisticRegression(
        epsilon=200.0,
        mechanism=TiltedFit(inference=True),
        classes=list("abc"),
        feature_bounds=[(-1.0, 1.0)] * 2,
        random_state=3,
        **options,
    )
    return model.fit(x, y), np.concatenate([errors[:, :2].ravel(), errors[:, 2]])


@pytest.fixture(scope="module")
def uniform():
    return fitted(lambda rng: rng.uniform(-1.0, 1.0, (N, 2)))


def test_every_class_has_the_errors_of_its_likelihood(uniform):
    model, errors = uniform
    found = model.summary()
    assert found.names[:6] == NAMES
    np.testing.assert_allclose(found.standard_error, errors, rtol=0.06)
    truth = np.concatenate([TRUTH[:, :2].ravel(), TRUTH[:, 2]])
    assert (abs(np.array(found.estimate) - truth) < 4.0 * errors).all()


def test_what_is_released_is_the_information_with_the_noise_of_its_bounds(uniform):
    """Entries of at most 1/2 and a trace of at most p (1 - 1/K): those of the log loss, not of the loss
    of the fit, which curves 7 to 25% more. Six standard deviations of the noise; the seed is fixed."""
    found = released_of(uniform[0].release_)
    z = np.column_stack([np.random.default_rng(4).uniform(-1.0, 1.0, (N, 2)), np.ones(N)])
    _, expected = softmax_sums(z, np.ones(N), found.theta.reshape(2, 3))
    noise = max(found.diagonal_sd, found.offdiagonal_sd)
    assert 6.0 * noise < 0.02 * expected.diagonal().min()
    np.testing.assert_allclose(found.curvature, expected, atol=6.0 * noise)
    law = curvature_law(dim=6, trace=3.0 * (1.0 - 1.0 / 3.0), entry=0.5, epsilon=CURVATURE_SHARE * 200.0)
    assert found.diagonal_sd == pytest.approx(law.diagonal_sd, rel=1e-6)
    assert found.offdiagonal_sd == pytest.approx(law.off_diagonal_sd, rel=1e-6)


def test_skewed_dummies_have_the_errors_of_their_likelihood():
    """Rows that are far from normal: the released blocks are followed, not the formula."""
    model, errors = fitted(lambda rng: np.where(rng.random((N, 2)) < [0.12, 0.8], 1.0, -1.0))
    np.testing.assert_allclose(model.summary().standard_error, errors, rtol=0.06)


def test_a_private_number_of_rows_is_read_from_the_curvature():
    model, errors = fitted(lambda rng: rng.uniform(-1.0, 1.0, (N, 2)), neighbours="add_remove")
    assert model.release_.num_records is None
    np.testing.assert_allclose(model.summary().standard_error, errors, rtol=0.08)


def test_the_file_alone_gives_the_same_numbers(uniform):
    model, _ = uniform
    assert Release.from_json(model.release_.to_json()).summary().estimate == model.summary().estimate


def test_a_release_states_the_scale_of_its_tilt_and_one_that_does_not_is_read_by_the_earlier_law(uniform):
    """The earlier law was a sum of independent tilts along the differences of classes; 4,000 draws of it,
    five standard errors and Kolmogorov-Smirnov: a false alarm once in 6,000 seeds."""
    model, _ = uniform
    own = released_of(model.release_).tilt
    assert isinstance(own, ClassNormLaw)
    assert own.scale == pytest.approx(model.release_.mechanism.numbers["tilt_scale"])
    assert own.variance == pytest.approx(model.release_.statistics["tilt_sd"].values[0] ** 2)
    without = {name: value for name, value in model.release_.statistics.items() if name != "tilt_scale"}
    earlier = released_of(replace(model.release_, statistics=without)).tilt
    assert earlier.variance == pytest.approx(own.variance)
    rng = np.random.default_rng(8)
    drawn = np.array([earlier.sample(rng) for _ in range(4000)])
    second = drawn[:, :, None] * drawn[:, None, :]
    error = second.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(second.mean(axis=0) - own.variance * np.eye(6)) < 5.0 * error).all()
    logits = (contrast_basis(3) @ drawn.reshape(-1, 2, 3))[:, 0, 0] / earlier.part.scale
    terms = rng.gamma(4.0, 1.0, (2, 4000)) * rng.uniform(-1.0, 1.0, (2, 4000))
    assert stats.ks_2samp(logits, terms.sum(axis=0)).pvalue > 1e-4


def test_classes_are_compared_by_contrasts_and_odds_ratios(uniform):
    model, _ = uniform
    found = model.contrast({"x0 [a]": 1.0, "x0 [b]": -1.0})
    assert abs(found.estimate[0] - 1.4) < 4.0 * found.standard_error[0]
    ratio = model.contrast({"x0 [a]": 1.0, "x0 [b]": -1.0}, exponentiate=True)
    assert (ratio.quantity, ratio.estimate[0]) == ("odds ratio", pytest.approx(np.exp(found.estimate[0])))
    np.testing.assert_allclose(model.summary(exponentiate=True).estimate, np.exp(model.summary().estimate))
    assert model.wald_test(["x0 [a]", "x0 [b]"]).p_value < 1e-6
    assert model.wald_test(["x0 [a]", "x0 [b]"], [0.8, -0.6]).p_value > 1e-3
    with pytest.raises(InvalidInput, match="linearly independent"):  # coefficients sum to zero over classes
        model.wald_test(["x0 [a]", "x0 [b]", "x0 [c]"])


def test_probabilities_of_all_classes_have_intervals(uniform):
    model, _ = uniform
    points = np.array([[0.0, 0.0], [0.9, -0.9]])
    ends = model.mean_interval(points)
    assert ends.shape == (2, 3, 2)
    truth = special.softmax(np.column_stack([points, np.ones(2)]) @ TRUTH.T, axis=1)
    half = 0.5 * (ends[:, :, 1] - ends[:, :, 0])
    assert (abs(truth - ends.mean(axis=2)) < 2.5 * half).all()
    # The delta method at a row of zeros: the errors of the probabilities by their gradient in the intercepts.
    assert (half < 0.03).all()
    assert (half > 0.005).all()


def test_a_singular_proposal_among_others_has_no_inverse_and_ends_nothing():
    found = or_nan(np.linalg.inv, np.array([[[2.0]], [[0.0]], [[4.0]]]))
    np.testing.assert_array_equal(found, np.array([[[0.5]], [[np.nan]], [[0.25]]]))
