# SPDX-License-Identifier: Apache-2.0
"""What a tilted fit releases together is paid for together. Its laws and certificates: ``tests/tilted``."""

import dataclasses
import math

import numpy as np
import pytest

from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Categorical, Gaussian, NegativeBinomial, Poisson
from onedraw.mechanisms import Shape, TiltedFit
from onedraw.model import RegressionModel
from onedraw.privacy import Request
from onedraw.tilted.curvature import curvature_law
from onedraw.tilted.recipes import recipe_of

BOUNDS = ((-1.0, 1.0), (-1.0, 1.0))
SHAPE = Shape(
    model=RegressionModel(family=Bernoulli(), features=("a", "b"), feature_bounds=BOUNDS), num_records=60
)
UNBOUNDED = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")), num_records=60)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_fit_and_its_curvature_share_the_budget(share, delta):
    request = Request(epsilon=2.0, delta=delta, neighbours="add_remove", rows_per_person=3)
    private = Shape(model=SHAPE.model)
    mechanism = TiltedFit(inference=True, curvature_share=share).calibrate(request, private)
    fit, curvature = mechanism.terms, mechanism.terms_of_curvature
    assert curvature.epsilon == pytest.approx(share * 2.0)
    assert fit.epsilon + fit.count_epsilon + curvature.epsilon == pytest.approx(2.0, rel=1e-12)
    assert fit.delta + curvature.delta <= delta * (1 + 1e-12)
    for part in (fit, curvature):
        assert (part.neighbours, part.rows_per_person) == ("add_remove", 3)


@pytest.mark.parametrize("inference", [True, False])
def test_units_that_are_found_privately_are_paid_for(inference, released, examples):
    request = Request(epsilon=2.0, neighbours="add_remove", rows_per_person=3)
    private = Shape(model=UNBOUNDED.model)
    mechanism = TiltedFit(inference=inference).calibrate(request, private)
    units, curvature = mechanism.terms_of_units, mechanism.terms_of_curvature
    fit = mechanism.terms
    spent = units.epsilon + fit.epsilon + fit.count_epsilon + (curvature.epsilon if inference else 0.0)
    assert spent == pytest.approx(2.0, rel=1e-12)
    assert (units.neighbours, units.rows_per_person) == ("add_remove", 3)
    found = released(mechanism, examples.records(UNBOUNDED.model), 0)
    assert len(found.statistics["feature_units"].values) == 2
    assert found.mechanism.numbers["epsilon_of_units"] == units.epsilon


def test_a_public_cut_or_public_bounds_leave_nothing_to_find():
    for mechanism, shape in ((TiltedFit(cut=2.0), UNBOUNDED), (TiltedFit(), SHAPE)):
        found = mechanism.calibrate(Request(epsilon=2.0), shape)
        assert found.terms_of_units is None
        assert found.terms.epsilon == 2.0


def test_without_inference_the_fit_has_all_of_it_and_no_curvature_is_released(released, examples):
    mechanism = TiltedFit(inference=False).calibrate(Request(epsilon=2.0), SHAPE)
    assert mechanism.terms.epsilon == 2.0
    assert mechanism.terms_of_curvature is None
    data = examples.records(SHAPE.model)
    assert "curvature" not in released(mechanism, data, 0).statistics
    whole = TiltedFit(inference=True).calibrate(Request(epsilon=2.0), Shape(model=SHAPE.model))
    assert "curvature" in released(whole, data, 0).statistics


@pytest.mark.parametrize("classes", [3, 10, 11, 40])
def test_most_of_epsilon_buys_the_tilt_however_many_classes_there_are(classes):
    family, names = Categorical(num_classes=classes), tuple(range(classes))
    model = RegressionModel(family=family, features=("a",), classes=names, feature_bounds=((-1.0, 1.0),))
    numbers = TiltedFit().calibrate(Request(epsilon=1.0), Shape(model=model)).made.numbers
    assert 2.0 < numbers["tilt_scale"] < 2.6


@pytest.mark.parametrize("epsilon", [1.0, 1e-2, 1e-4])
def test_the_last_bits_of_a_noisy_curvature_are_dropped_whatever_its_noise(epsilon, released, examples):
    mechanism = TiltedFit(inference=True).calibrate(Request(epsilon=epsilon), Shape(model=SHAPE.model))
    found = released(mechanism, examples.records(SHAPE.model), 0).statistics
    noise = min(found["curvature_sd"].values)
    assert found["curvature"].step == pytest.approx(2.0**-40 * noise, rel=0.5)
    assert found["curvature"].step >= 2**8 * math.ulp(noise)


def test_robust_errors_cost_the_share_of_the_curvature_twice(released, examples):
    whole = TiltedFit(inference="robust", curvature_share=0.1).calibrate(Request(epsilon=20.0), SHAPE)
    assert whole.terms.epsilon + 2 * whole.terms_of_curvature.epsilon == pytest.approx(20.0, rel=1e-12)
    found = released(whole, examples.records(SHAPE.model), 0).statistics
    assert {"curvature", "curvature_sd", "score_products", "score_products_sd"} <= set(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inference": "sandwich"}, "one of 'auto', 'robust'"),
        ({"inference": "robust", "curvature_share": 0.5}, "below 0.5 for robust"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        TiltedFit(**options).calibrate(Request(epsilon=1.0), SHAPE)


def sized(records, **facts):
    return Shape(model=dataclasses.replace(SHAPE.model, **facts), num_records=records)


@pytest.mark.parametrize("inference", [True, "robust"])
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (sized(100), "too few for intervals: about .* would be the least"),
        (sized(10**6, fit_intercept=False, feature_bounds=None), "need declared feature bounds"),
        (sized(10**6, fit_intercept=False, family=Gaussian()), "need an intercept"),
    ],
)
def test_a_curvature_that_gives_no_intervals_is_refused_beforehand(shape, message, inference):
    with pytest.raises(InvalidInput, match=message) as refused:
        TiltedFit(inference=inference).calibrate(Request(epsilon=1.0), shape)
    assert "inference=False" in str(refused.value)
    assert TiltedFit().calibrate(Request(epsilon=1.0), shape).terms_of_curvature is None


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("bounds", [BOUNDS, None])
def test_the_products_of_the_scores_of_classes_have_the_noise_of_their_bounds(
    neighbours, bounds, released, examples
):
    """The noise is that of a trace of 3, the entries of a row, and not of 9, those of the matrix."""
    shape = sized(None, family=Categorical(num_classes=4), classes=tuple(range(4)), feature_bounds=bounds)
    request = Request(epsilon=20.0, neighbours=neighbours, rows_per_person=2)
    whole = TiltedFit(inference="robust", curvature_share=0.1).calibrate(request, shape)
    found = released(whole, examples.records(shape.model), 0).statistics
    assert len(found["score_products"].values) == 9 * 10 // 2
    law = curvature_law(
        dim=9,
        trace=3.0,
        entry=None if bounds is None else 1.0,
        epsilon=2.0,
        neighbours=neighbours,
        rows_per_person=2,
    )
    stated = found["score_products_sd"].values
    assert stated == pytest.approx((law.diagonal_sd, law.off_diagonal_sd), rel=1e-6)


@pytest.mark.parametrize(
    ("records", "request_", "reason"),
    [
        (10**5, {}, None),
        (10**5, {"neighbours": "add_remove"}, "the number of rows is private"),
        (None, {}, "the number of rows is not known"),
        (900, {}, "most releases have them from about 1,200 records, or epsilon 1.3"),
    ],
)
def test_a_curvature_is_released_by_default_where_intervals_usually_follow(records, request_, reason):
    mechanism = TiltedFit().calibrate(Request(epsilon=1.0, **request_), sized(records))
    if reason is None:
        assert mechanism.terms_of_curvature.epsilon == pytest.approx(0.25)
        assert "25% of epsilon" in mechanism.remark
    else:
        assert mechanism.terms_of_curvature is None
        assert mechanism.terms.epsilon + mechanism.terms.count_epsilon == 1.0
        assert reason in mechanism.remark


def with_categories(*levels, family=None, **facts):
    names = tuple(f"c{i}={k} (vs 0)" for i, count in enumerate(levels) for k in range(1, count))
    bounds = ((0.0, 1.0),) * (len(names) + 1)
    model = RegressionModel(
        family=Bernoulli() if family is None else family,
        features=("age", *names),
        feature_bounds=bounds,
        **facts,
    )
    return Shape(model=model, num_records=10**6)


@pytest.mark.parametrize("family", [Bernoulli(), Poisson()])
@pytest.mark.parametrize("levels", [(4,), (5,), (20,), (8, 4, 3, 2)])
def test_columns_of_categories_have_intervals(levels, family):
    shape = with_categories(*levels, family=family)
    assert TiltedFit().calibrate(Request(epsilon=1.0), shape).terms_of_curvature is not None
    assert TiltedFit(inference=True).calibrate(Request(epsilon=1.0), shape).terms_of_curvature is not None


@pytest.mark.parametrize(
    ("shape", "asked", "reason"),
    [
        (with_categories(21), True, "'c0' has 21 categories.*studied up to 20"),
        (with_categories(8, 5), True, "'c1' has 5 categories.*up to 32 combinations"),
        (with_categories(5, fit_intercept=False), True, "need an intercept"),
        (with_categories(5), "robust", "robust errors have not been studied"),
        (with_categories(5, family=NegativeBinomial(dispersion=2.0)), True, "intervals would be too short"),
    ],
)
def test_categories_that_were_not_studied_have_no_intervals_and_none_are_paid_for(shape, asked, reason):
    with pytest.raises(InvalidInput, match=reason) as refused:
        TiltedFit(inference=asked).calibrate(Request(epsilon=1.0), shape)
    assert "inference=" in str(refused.value)
    if asked is True:
        by_default = TiltedFit().calibrate(Request(epsilon=1.0), shape)
        assert by_default.terms_of_curvature is None
        assert "categories" in by_default.remark


@pytest.mark.parametrize(("count", "refused"), [(5, True), (4, False)])
@pytest.mark.parametrize("intercept", [True, False])
def test_an_indicator_for_each_of_many_categories_has_no_intervals(count, refused, intercept):
    """As ``0 + town`` gives them; the parts of a spline look alike and are no categories."""
    names = [*(f"C(town)[{k}]" for k in range(count)), *(f"bs(age, df=6)[{k}]" for k in range(1, 7))]
    options = {"fit_intercept": intercept, "feature_bounds": ((0.0, 1.0),) * len(names)}
    model = RegressionModel(family=Bernoulli(), features=tuple(names), **options)
    found = TiltedFit().calibrate(Request(epsilon=1.0), Shape(model=model, num_records=10**6))
    assert (found.terms_of_curvature is None) is refused
    assert ("'C(town)' has 5 categories" in found.remark) is refused


@pytest.mark.parametrize(("count", "refused"), [(4, True), (3, False)])
@pytest.mark.parametrize("of", ["T.", ""])
def test_products_with_many_indicators_have_no_intervals(count, refused, of):
    names = [f"town[{of}{k}]" for k in range(count)]
    model = RegressionModel(family=Bernoulli(), features=(*names, "age", *(f"{n}:age" for n in names)))
    shape = Shape(model=model, num_records=10**6)
    found = TiltedFit().calibrate(Request(epsilon=1.0), shape)
    assert (found.terms_of_curvature is None) is refused
    assert ("multiplies a column" in found.remark) is refused


@pytest.mark.parametrize(("levels", "smallest"), [(4, 0.134), (5, 0.063), (8, 0.0125)])
def test_the_moments_of_indicators_of_one_column_are_nearly_singular(levels, smallest):
    """What ``uncertainty.categories`` quotes, from the rows themselves."""
    rows = np.column_stack([np.ones(levels), 2.0 * np.eye(levels)[:, 1:] - 1.0])
    assert np.linalg.eigvalsh(rows.T @ rows / levels)[0] == pytest.approx(smallest, rel=0.01)


@pytest.mark.parametrize(("num_records", "said"), [(119, True), (121, False), (None, False)])
def test_a_plan_says_where_a_draw_would_be_closer_than_a_linear_fit(num_records, said):
    model = RegressionModel(family=Gaussian(), features=("a", "b"))
    shape = Shape(model=model, num_records=num_records)
    assert ("one_posterior" in TiltedFit().calibrate(Request(epsilon=1.0), shape).outlook) is said
    logistic = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")), num_records=num_records)
    assert "one_posterior" not in TiltedFit().calibrate(Request(epsilon=1.0), logistic).outlook


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("bounds", [BOUNDS, None])
def test_an_alignment_is_paid_for(bounds, delta, released, examples):
    request = Request(epsilon=2.0, delta=delta, neighbours="add_remove", rows_per_person=3)
    shape = sized(None, feature_bounds=bounds)
    mechanism = TiltedFit(align=True, inference=True).calibrate(request, shape)
    alignment, units, fit = mechanism.terms_of_alignment, mechanism.terms_of_units, mechanism.terms
    parts = [alignment, fit, mechanism.terms_of_curvature]
    spent = sum(part.epsilon for part in parts) + fit.count_epsilon
    spent += 0.0 if units is None else units.epsilon
    assert spent == pytest.approx(2.0, rel=1e-12)
    assert sum(part.delta for part in parts) <= delta * (1 + 1e-12)
    assert all((part.neighbours, part.rows_per_person) == ("add_remove", 3) for part in parts)
    found = released(mechanism, examples.records(shape.model), 0)
    assert found.mechanism.numbers["epsilon_of_alignment"] == alignment.epsilon == pytest.approx(0.3)
    assert len(found.statistics["alignment"].values) == 2 * 3
    # Whatever the declared bounds, aligned rows lie in a ball: its tilt, and a curvature of bounded trace.
    loss = recipe_of(shape.model).loss
    tilt = fit.calibrated(loss, 3, "ball")
    assert found.statistics["tilt_scale"].values[0] == pytest.approx(tilt.law.scale, rel=1e-9)
    law = curvature_law(
        dim=3,
        trace=3.0 * loss.information.trace_bound,
        entry=None,
        epsilon=mechanism.terms_of_curvature.epsilon,
        delta=mechanism.terms_of_curvature.delta,
        neighbours="add_remove",
        rows_per_person=3,
    )
    assert found.statistics["aligned_curvature_sd"].values[0] == pytest.approx(law.diagonal_sd, rel=1e-9)
    assert TiltedFit(inference=True).calibrate(request, shape).terms_of_alignment is None


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"fit_intercept": False}, "features and an intercept"),
        ({"features": (), "feature_bounds": None}, "features and an intercept"),
        (
            {"features": ("town=b (vs a)", "town=c (vs a)"), "feature_bounds": ((0.0, 1.0),) * 2},
            r"categories \('town'\)",
        ),
    ],
)
def test_what_cannot_be_aligned_is_refused_beforehand(facts, message):
    with pytest.raises(InvalidInput, match=message) as refused:
        TiltedFit(align=True).calibrate(Request(epsilon=1.0), sized(1000, **facts))
    assert "align=False" in str(refused.value)
    with pytest.raises(InvalidInput, match="align='yes'"):
        TiltedFit(align="yes").calibrate(Request(epsilon=1.0), sized(1000))


def test_the_parameters_of_aligned_rows_are_turned_back(released, examples):
    """C' theta from what is published, with so much epsilon that the ridge pulls at little."""
    shape = sized(None)
    mechanism = TiltedFit(align=True, inference=True).calibrate(Request(epsilon=1e6), shape)
    found = released(mechanism, examples.records(shape.model), 0)
    frame = np.vstack([found.statistics["alignment"].array().reshape(2, 3), np.eye(3)[2:]])
    theta = found.statistics["aligned_minimiser"].array()
    assert np.linalg.cond(frame) > 1.1  # not the identity
    assert np.append(found.estimate.coef, found.estimate.intercept) == pytest.approx(
        theta @ frame, rel=0.02
    )
