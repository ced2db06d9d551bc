# SPDX-License-Identifier: Apache-2.0
"""What a tilted fit releases together is paid for together. Its laws and certificates: ``tests/tilted``."""

import math

import pytest

from onedraw.families import Bernoulli, Categorical
from onedraw.mechanisms import Shape, TiltedFit
from onedraw.model import RegressionModel
from onedraw.privacy import Request

SHAPE = Shape(model=RegressionModel(family=Bernoulli(), features=("a", "b")))


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_fit_and_its_curvature_share_the_budget(share, delta):
    request = Request(epsilon=2.0, delta=delta, neighbours="add_remove", rows_per_person=3)
    mechanism = TiltedFit(inference=True, curvature_share=share).calibrate(request, SHAPE)
    fit, curvature = mechanism.terms, mechanism.terms_of_curvature
    assert curvature.epsilon == pytest.approx(share * 2.0)
    assert fit.epsilon + curvature.epsilon == pytest.approx(2.0)
    assert fit.epsilon + curvature.epsilon <= 2.0 * (1 + 1e-12)
    assert fit.delta + curvature.delta <= delta * (1 + 1e-12)
    for part in (fit, curvature):
        assert (part.neighbours, part.rows_per_person) == ("add_remove", 3)


def test_without_inference_the_fit_has_all_of_it_and_no_curvature_is_released(released, examples):
    mechanism = TiltedFit(inference=False).calibrate(Request(epsilon=2.0), SHAPE)
    assert mechanism.terms.epsilon == 2.0
    assert mechanism.terms_of_curvature is None
    data = examples.records(SHAPE.model)
    assert "curvature" not in released(mechanism, data, 0).statistics
    whole = TiltedFit(inference=True).calibrate(Request(epsilon=2.0), SHAPE)
    assert "curvature" in released(whole, data, 0).statistics


@pytest.mark.parametrize("classes", [3, 10, 11, 40])
def test_most_of_epsilon_buys_the_tilt_however_many_classes_there_are(classes):
    family, names = Categorical(num_classes=classes), tuple(range(classes))
    model = RegressionModel(family=family, features=("a",), classes=names, feature_bounds=((-1.0, 1.0),))
    numbers = TiltedFit().calibrate(Request(epsilon=1.0), Shape(model=model)).made.numbers
    assert 2.0 < numbers["tilt_scale"] < 2.6


@pytest.mark.parametrize("epsilon", [1.0, 1e-2, 1e-4])
def test_the_last_bits_of_a_noisy_curvature_are_dropped_whatever_its_noise(epsilon, released, examples):
    mechanism = TiltedFit(inference=True).calibrate(Request(epsilon=epsilon), SHAPE)
    found = released(mechanism, examples.records(SHAPE.model), 0).statistics
    noise = min(found["curvature_sd"].values)
    assert found["curvature"].step == pytest.approx(2.0**-40 * noise, rel=0.5)
    assert found["curvature"].step >= 2**8 * math.ulp(noise)
