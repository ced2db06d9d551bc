# SPDX-License-Identifier: Apache-2.0
"""What every registered family answers besides its density; a new one enters by being registered."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from onedraw.errors import InvalidInput
from onedraw.families import (
    FAMILIES,
    KINDS,
    Bernoulli,
    Categorical,
    Cell,
    Family,
    Gaussian,
    Laplace,
    NegativeBinomial,
    Poisson,
    StudentT,
    build_family,
    families_of,
    read_family,
)

EVERY = [build_family(name) for name in FAMILIES]
every_family = pytest.mark.parametrize("family", EVERY, ids=lambda f: f.name)


def responses(family: Family) -> Any:
    """Responses (rows, 1) of the model at predictor 0."""
    shape = (family.num_predictors, 50, 1) if family.vector_predictor else (50, 1)
    scale = None if family.scale_floor is None else np.array(4.0 * family.scale_floor)
    return family.sample(np.zeros(shape), np.random.default_rng(0), scale)


# -- names, options and files


@every_family
def test_a_family_has_a_name_and_a_kind_that_the_registry_knows(family: Family) -> None:
    assert FAMILIES[family.name] is type(family)
    assert family.kind in KINDS
    assert type(family) in families_of(family.kind)
    assert (family.errors is not None) == (family.kind == "linear")


def test_kinds_are_listed_once_and_errors_tell_linear_families_apart() -> None:
    assert set(KINDS) == {"logistic", "multinomial", "linear", "negative_binomial", "poisson"}
    assert sum(len(families_of(kind)) for kind in KINDS) == len(FAMILIES)
    assert {f.errors: f for f in families_of("linear")} == {
        "normal": Gaussian,
        "student_t": StudentT,
        "laplace": Laplace,
    }
    with pytest.raises(InvalidInput, match="Did you mean 'poisson'"):
        families_of("poison")


@pytest.mark.parametrize(
    "family",
    [*EVERY, Categorical(num_classes=7), NegativeBinomial(dispersion=0.3), StudentT(df=2.5, scale_floor=0.7)],
    ids=repr,
)
def test_a_family_is_read_back_from_its_json(family: Family) -> None:
    assert read_family(json.loads(json.dumps(family.to_dict()))) == family


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "gausian"}, "Did you mean 'gaussian'"),
        ({}, "family to be one of"),
        ({"name": "poisson", "df": 3.0}, r"constants of the poisson family \(none\), got df"),
        (
            {"name": "student_t", "dof": 3.0},
            r"constants of the student_t family \(scale_floor, df\), got dof",
        ),
        ({"name": "gaussian", "scale_floor": -1.0}, "scale_floor > 0"),
    ],
)
def test_a_file_that_describes_no_family_is_refused(values: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_family(values)


@every_family
def test_options_fill_their_fields_and_default_to_what_they_say(family: Family) -> None:
    for name, option in family.options.items():
        assert getattr(family, option.field) == option.default
        assert option.about.endswith(".")
        other = option.default + 1
        assert getattr(build_family(family.name, **{name: other}), option.field) == other
        with pytest.raises(InvalidInput, match=f"Expected {name} "):
            build_family(family.name, **{name: -1})
    assert set(family.to_dict()) == {"name", *(option.field for option in family.options.values())}
    with pytest.raises(InvalidInput, match="does not apply to the"):
        build_family(family.name, width=1.0)


@pytest.mark.parametrize(
    ("family", "classes", "sentence"),
    [
        (Bernoulli(), ("no", "yes"), "logistic, coefficients of the log odds of class 'yes' against 'no'"),
        (Bernoulli(), None, "logistic, coefficients of the log odds"),
        (
            Categorical(num_classes=3),
            ("a", "b", "c"),
            "multinomial logistic, one set of coefficients per class, which sum to zero over the classes",
        ),
        (Gaussian(), None, "linear, coefficients of the mean"),
        (Laplace(), None, "linear with Laplace errors, coefficients of the median"),
        (
            StudentT(df=3.0),
            None,
            "linear with Student t errors of 3 degrees of freedom, coefficients of the centre",
        ),
        (Poisson(), None, "Poisson, coefficients of the log mean"),
        (
            NegativeBinomial(dispersion=2.0),
            None,
            "negative binomial of dispersion 2, coefficients of the log mean",
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_family_says_what_its_coefficients_are_of(family: Family, classes: Any, sentence: str) -> None:
    assert family.describe(classes) == sentence


# -- responses


@pytest.mark.parametrize(
    ("family", "mean"),
    [
        (Bernoulli(), lambda eta: stats.bernoulli(special.expit(eta)).mean()),
        (Poisson(), lambda eta: stats.poisson(np.exp(eta)).mean()),
        (
            NegativeBinomial(dispersion=2.0),
            lambda eta: stats.nbinom(2.0, 2.0 / (2.0 + np.exp(eta))).mean(),
        ),
        (Gaussian(), lambda eta: stats.norm(eta).mean()),
        (StudentT(df=1.0), lambda eta: stats.t(1.0, eta).median()),
        (Laplace(), lambda eta: stats.laplace(eta).median()),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_inverse_link_gives_the_mean(family: Family, mean: Any) -> None:
    eta = np.linspace(-3.0, 3.0, 13)
    np.testing.assert_allclose(family.mean(eta), mean(eta), rtol=1e-12)
    assert np.isfinite(family.mean(np.array([-1e4, 1e4]))).all()


def test_the_inverse_link_of_classes_gives_their_probabilities() -> None:
    family = Categorical(num_classes=4)
    eta = np.random.default_rng(0).normal(size=(3, 5, 2))
    expected = special.softmax(np.einsum("kq,qij->kij", family.contrasts, eta), axis=0)
    np.testing.assert_allclose(family.mean(eta), expected, rtol=1e-12)


@every_family
def test_a_rough_predictor_makes_its_response_likely(family: Family) -> None:
    """At least half as likely as under the best of many predictors."""
    y = responses(family)
    rough = family.rough_predictor(y)
    scale = None if family.scale_floor is None else np.array(family.scale_floor)
    shape = (family.num_predictors, 1, 4000) if family.vector_predictor else (1, 4000)
    many = np.random.default_rng(1).normal(0.0, 6.0, size=shape)
    best = family.log_density(y, many, scale).max(axis=1)
    assert (family.log_density(y, rough, scale)[:, 0] > best - np.log(2.0)).all()


def test_a_family_without_starting_values_cannot_be_made() -> None:
    class Silent(Poisson):
        rough_predictor = Family.rough_predictor

    with pytest.raises(TypeError, match="rough_predictor"):
        Silent()


@every_family
def test_all_responses_of_the_model_pass_and_others_are_refused_in_one_wording(family: Family) -> None:
    y = responses(family)
    family.check_response(y)
    with pytest.raises(InvalidInput, match="but some values are not") as caught:
        family.check_response(np.append(y, [[np.nan]], axis=0))
    assert str(caught.value).startswith(f"Expected a response of {family.response}, ")
    assert str(caught.value).endswith(family.response_remedy)


# -- what a family may decline


@every_family
def test_bounds_over_cells_are_known_or_refused(family: Family) -> None:
    y, edge = responses(family)[:2], np.zeros((2, 1))
    cell = Cell(eta_low=edge, eta_high=edge + 1, scale_low=edge[:1] + 1, scale_high=edge[:1] + 2)
    if family.has_cell_bounds:
        assert family.loss_minimum(y, cell, 2.0).shape == (2, 1)
        assert family.loss_concavity(y, cell, 2.0)[0].shape == (2, 1)
        return
    for bound in (family.loss_minimum, family.loss_concavity):
        with pytest.raises(InvalidInput, match=f"No proved bound is known for the {family.name} family"):
            bound(y, cell, 2.0)


@every_family
def test_what_is_not_known_is_refused_by_name(family: Family) -> None:
    for refused in (
        lambda: Family.drift_support(family, np.zeros(1)),
        lambda: Family.location_information(family, 2.0, 1.0),
        lambda: Family.scale_noise_ratio(family, 2.0, 1.0),
        lambda: Family.expected_loss(family, np.ones(1), np.ones(1), 2.0),
    ):
        with pytest.raises(InvalidInput, match=f"of the {family.name} family is not known"):
            refused()
    with pytest.raises(InvalidInput, match="pass beta as a number"):
        Family.reference_table(family, 1.0)


@every_family
def test_intervals_are_known_for_every_registered_family(family: Family) -> None:
    assert family.has_intervals
    assert 0.0 < family.noise_ratio(1.5, 1.0) < 1.5
    if family.has_scale:
        assert family.location_information(1.5, 1.0) > 0.0
        assert 0.0 < family.scale_noise_ratio(1.5, 1.0) < 1.5
    else:
        y, eta = family.drift_support(np.zeros((family.num_predictors, 1)))
        family.check_response(y)
        at = np.broadcast_to(eta[:, None, :], (family.num_predictors, len(y), 1))
        density = np.exp(family.log_density(y[:, None], at if family.vector_predictor else at[0]))
        assert float(density.sum()) == pytest.approx(1.0, abs=1e-6)
