# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import onedraw
from onedraw.estimators import from_release
from onedraw.mechanisms import OnePosterior

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, size=(400, 2))
COUNTS = RNG.poisson(np.exp(0.3 + X[:, 0]))
LABELS = np.where(X[:, 0] + RNG.normal(size=400) > 0, "yes", "no")
THREE = RNG.integers(0, 3, 400)

FITS = {
    "logistic": (onedraw.LogisticRegression(epsilon=1.0, classes=["no", "yes"], random_state=0), LABELS),
    "multinomial": (onedraw.LogisticRegression(epsilon=1.0, classes=[0, 1, 2], random_state=0), THREE),
    "linear": (
        onedraw.LinearRegression(
            epsilon=1.0,
            target_bounds=(0, 20),
            mechanism=OnePosterior(noise_floor=0.5),
            feature_bounds=(-1, 1),
            random_state=0,
        ),
        10 + 3 * X[:, 0],
    ),
    "student_t": (onedraw.LinearRegression(epsilon=1.0, errors="student_t", random_state=0), X[:, 0]),
    "laplace": (onedraw.LinearRegression(epsilon=1.0, errors="laplace", draws=2, random_state=0), X[:, 0]),
    "negative_binomial": (
        onedraw.NegativeBinomialRegressor(epsilon=1.0, dispersion=2.5, rows_per_person=2, random_state=0),
        COUNTS,
    ),
    "poisson": (onedraw.PoissonRegressor(epsilon=1.0, fit_intercept=False, draws=3, random_state=0), COUNTS),
}


@pytest.fixture(params=FITS)
def name(request):
    return request.param


@pytest.fixture
def fitted(name):
    model, y = FITS[name]
    return clone(model).fit(X, y)


def reread(model):
    return onedraw.Release.from_json(model.release_.to_json())


def test_a_rebuilt_estimator_predicts_as_the_fitted_one(fitted):
    rebuilt = from_release(reread(fitted))
    assert type(rebuilt) is type(fitted)
    assert (rebuilt.predict(X) == fitted.predict(X)).all()
    if hasattr(fitted, "predict_proba"):
        assert (rebuilt.predict_proba(X) == fitted.predict_proba(X)).all()


def test_it_has_every_learned_attribute_of_the_fitted_one(fitted):
    rebuilt = from_release(reread(fitted))
    assert rebuilt.guarantee_ == fitted.guarantee_
    learned = [name for name in vars(fitted) if name.endswith("_") and name != "plan_"]
    assert "coef_" in learned
    for name in learned:
        np.testing.assert_array_equal(getattr(rebuilt, name), getattr(fitted, name), err_msg=name)


def test_its_options_describe_the_same_mechanism(name, fitted):
    """A clone fitted with the same seed to the same data gives the same draws."""
    again = clone(from_release(reread(fitted))).set_params(random_state=0)
    assert again.fit(X, FITS[name][1]).release_.draws == fitted.release_.draws
    assert again.release_.mechanism == fitted.release_.mechanism
    assert again.release_.guarantee == fitted.release_.guarantee
    assert again.release_.model == fitted.release_.model


def test_named_features_are_checked_by_name():
    frame = pd.DataFrame(X, columns=["age", "dose"])
    fitted = onedraw.LogisticRegression(epsilon=1.0, classes=["no", "yes"]).fit(frame, LABELS)
    rebuilt = from_release(reread(fitted))
    assert (rebuilt.predict(frame) == fitted.predict(frame)).all()
    with pytest.raises(ValueError, match="feature names"):
        rebuilt.predict(frame[["dose", "age"]])


@pytest.mark.parametrize("evidence", ["proved", "enumerated"])
def test_the_evidence_is_kept(evidence):
    mechanism = OnePosterior(evidence=evidence)
    model = onedraw.LogisticRegression(epsilon=1.0, classes=["no", "yes"], mechanism=mechanism)
    fitted = model.fit(X[:, :1], LABELS)
    assert from_release(reread(fitted)).mechanism == mechanism
