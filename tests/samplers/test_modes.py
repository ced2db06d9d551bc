"""The search for modes: it finds what the records hide, and its matrices can be inverted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onedraw.samplers.modes import find_modes, positive_definite


@pytest.mark.parametrize(
    ("name", "centres"), [("two groups, heavy", [-1.5, 1.5]), ("three groups", [0.0, 4.8])]
)
def test_every_group_of_records_has_its_mode(name: str, centres: list[float], reference: Any) -> None:
    found = np.array(
        [mode.location[0] for mode in find_modes(reference.CASES[name].posterior(), np.random.default_rng(0))]
    )
    for centre in centres:
        assert np.abs(found - centre).min() < 0.1


@pytest.mark.parametrize("name", ["logistic", "huge weight", "huge weight, linear", "huge weight, poisson"])
def test_a_mode_is_higher_than_its_surroundings(name: str, reference: Any) -> None:
    posterior = reference.CASES[name].posterior()
    mode = find_modes(posterior, np.random.default_rng(0))[0]
    steps = (
        np.random.default_rng(0).normal(size=(200, posterior.dim))
        @ np.linalg.cholesky(np.linalg.inv(mode.precision)).T
    )
    heights = posterior.log_density(mode.location + steps)
    assert mode.log_density == pytest.approx(float(posterior.log_density(mode.location[None, :])[0]))
    assert np.mean(heights < mode.log_density) > 0.95


def test_modes_stay_inside_a_truncated_prior(reference: Any) -> None:
    for name in ("logistic, truncated prior", "linear, ceiling"):
        posterior = reference.CASES[name].posterior()
        modes = find_modes(posterior, np.random.default_rng(0))
        assert all(np.isfinite(mode.log_density) for mode in modes)


def test_every_case_gives_matrices_that_can_be_inverted(case: Any) -> None:
    for mode in find_modes(case.posterior(), np.random.default_rng(0)):
        root = np.sqrt(np.diag(mode.precision))
        unit = mode.precision / root[:, None] / root[None, :]
        assert np.linalg.eigvalsh(unit).min() > 1e-13


@pytest.mark.parametrize(
    "hessian",
    [
        np.diag([1.0, -3.0]),
        np.zeros((2, 2)),
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        1e18 * np.ones((2, 2)),
        np.array([[1e18, 1e3], [1e3, 1e-12]]),
    ],
    ids=["saddle", "flat", "indefinite", "singular", "badly scaled"],
)
def test_any_hessian_is_made_positive_definite(hessian: Any, reference: Any) -> None:
    precision = positive_definite(hessian, reference.CASES["logistic"].posterior())
    np.testing.assert_allclose(precision, precision.T, rtol=1e-9)
    np.linalg.cholesky(precision)
    assert np.isfinite(np.linalg.solve(precision, np.ones(2))).all()
