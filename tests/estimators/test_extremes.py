# SPDX-License-Identifier: Apache-2.0
"""No finite record, however extreme, suppresses a release or makes a sound: either could be observed."""

import numpy as np
import pytest

import onedraw
from onedraw.mechanisms import (
    AdaSSP,
    GibbsPosterior,
    LinearNoiseAware,
    LinearSSP,
    LipschitzGibbs,
    OutputPerturbation,
    TiltedFit,
)
from onedraw.records import LARGEST, Records

EXTREMES = [1e200, -1.7e308, 5e-324]
LINEAR = {"feature_norm": 1.5, "response_bound": 1.0}
LOGISTIC = {
    "gibbs_posterior": GibbsPosterior(feature_norm=1.5),
    "lipschitz_gibbs": LipschitzGibbs(feature_norm=1.5),
    "output_perturbation": OutputPerturbation(feature_norm=1.5),
    "tilted_fit": TiltedFit(),
}
NORMAL = {
    "adassp": AdaSSP(**LINEAR),
    "linear_ssp": LinearSSP(**LINEAR),
    "linear_noise_aware": LinearNoiseAware(**LINEAR, draws=4, warm_up=5),
}


def with_mechanism(kind, mechanism):
    delta = 1e-6 if mechanism.requirements.delta == "needed" else 0.0
    return kind(epsilon=1.0, delta=delta, mechanism=mechanism, random_state=0)


ESTIMATORS = {
    "binary": onedraw.LogisticRegression(epsilon=1.0, classes=[0, 1], random_state=0),
    "multinomial": onedraw.LogisticRegression(epsilon=1.0, classes=[0, 1, 2], random_state=0),
    "linear": onedraw.LinearRegression(epsilon=1.0, random_state=0),
    "linear in small units": onedraw.LinearRegression(
        epsilon=1.0, feature_bounds=(0, 1e-100), target_bounds=(0, 1e-100), random_state=0
    ),
    "poisson": onedraw.PoissonRegressor(epsilon=1.0, random_state=0),
    "negative binomial": onedraw.NegativeBinomialRegressor(epsilon=1.0, random_state=0),
    "student_t": onedraw.LinearRegression(epsilon=1.0, errors="student_t", random_state=0),
    "laplace": onedraw.LinearRegression(epsilon=1.0, errors="laplace", random_state=0),
    **{name: with_mechanism(onedraw.LogisticRegression, mechanism) for name, mechanism in LOGISTIC.items()},
    **{name: with_mechanism(onedraw.LinearRegression, mechanism) for name, mechanism in NORMAL.items()},
}


def table(name, extreme):
    """Sixty ordinary records, of which two are made extreme, in their response too where it may be."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(60, 2))
    X[0, 0], X[1] = extreme, [extreme, -extreme]
    kind = ESTIMATORS[name]
    if isinstance(kind, onedraw.LogisticRegression):
        return X, rng.integers(0, len(kind.classes or [0, 1]), 60)
    y = rng.poisson(1.0, 60).astype(float)
    counts = name in ("poisson", "negative binomial")
    y[0] = np.rint(abs(extreme)) if counts else extreme
    return X, y


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_extreme_records_give_a_release(name, extreme):
    """Warnings are errors here, so silence is part of it."""
    fitted = ESTIMATORS[name].fit(*table(name, extreme))
    assert np.isfinite(fitted.release_.draws).all()
    assert onedraw.Release.from_json(fitted.release_.to_json()) == fitted.release_


@pytest.mark.parametrize("name", ["binary", "linear", "student_t", "poisson", "negative binomial"])
def test_they_count_as_the_largest_number(name):
    """The rule, by its consequence: the same draw from records at the limit."""
    X, y = table(name, 1e200)
    at_limit = np.clip(X, -(2.0**53), 2.0**53), y if name == "binary" else np.clip(y, -(2.0**53), 2.0**53)
    draws = [ESTIMATORS[name].fit(*data).release_.draws for data in ((X, y), at_limit)]
    assert draws[0] == draws[1]


def test_records_up_to_the_limit_are_kept_as_they_are():
    features, response = np.array([[LARGEST], [-3.5]]), np.array([-LARGEST, 0.1])
    kept = Records(features=features, response=response)
    assert kept.features is features
    assert kept.response is response
    empty = Records(features=np.zeros((0, 2)), response=np.zeros(0))
    assert empty.features.shape == (0, 2)


@pytest.mark.parametrize("name", ["binary", "linear", "adassp"])
def test_sums_that_overflow_both_ways_make_no_sound(name):
    """Checks for missing values add up a whole table: to plus and minus infinity here, and to NaN."""
    X, y = table(name, 1.0)
    X[:20] = [1.7e308, -1.7e308]
    assert np.isfinite(ESTIMATORS[name].fit(X, y).release_.draws).all()
