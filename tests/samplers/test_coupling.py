# SPDX-License-Identifier: Apache-2.0
"""The bound of coupled chains against the exact distance of the same kernel, computed on a fine grid."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from onedraw import ConvergenceError, InvalidInput
from onedraw.samplers.coupling import CoupledKernel, CoupledSampler

pytest.importorskip("jax")
pytestmark = pytest.mark.jax

START, SPREAD = 3.0, 0.5
KERNEL = CoupledKernel(
    step_size=0.25, steps=2, walk_share=0.3, walk_scale=0.5, lag=20, pairs=1500, max_steps=2000
)


@dataclass(frozen=True)
class StandardNormal:
    def __call__(self, position, data):
        return -0.5 * (position @ position) * data


@dataclass(frozen=True)
class Target:
    dim: int = 1
    density: object = StandardNormal()
    data: float = 1.0

    def initial(self, num, rng):
        return START + SPREAD * rng.normal(size=(num, self.dim))

    def monitored(self, positions):
        return positions


def exact_distance(iterations):
    """TV to N(0, 1) after each number of steps: its transition matrix on a grid, from the definition.

    For a standard normal, leapfrog is linear: x' = a x + b p. A proposal is a move to x', of density
    phi((x' - a x)/b)/b, accepted with the probability of its energy error; what is rejected stays.
    """
    grid = np.linspace(-9, 9, 901)
    width = grid[1] - grid[0]
    h = KERNEL.step_size
    one = np.array([[1 - h * h / 2, h], [-h * (1 - h * h / 4), 1 - h * h / 2]])
    (a, b), (c, d) = np.linalg.matrix_power(one, KERNEL.steps)
    x, to = grid[:, None], grid[None, :]
    p = (to - a * x) / b
    final = c * x + d * p
    energy = 0.5 * (x**2 + p**2 - to**2 - final**2)
    moves = stats.norm.pdf(p) / b * np.minimum(1, np.exp(energy)) * width
    walks = stats.norm.pdf(to, x, KERNEL.walk_scale) * np.minimum(1, np.exp(0.5 * (x**2 - to**2))) * width
    matrix = (1 - KERNEL.walk_share) * moves + KERNEL.walk_share * walks
    matrix[np.diag_indices(len(grid))] += 1 - matrix.sum(axis=1)
    law = stats.norm.pdf(grid, START, SPREAD) * width
    target = stats.norm.pdf(grid) * width
    distances = {}
    for t in range(max(iterations) + 1):
        if t in iterations:
            distances[t] = 0.5 * np.abs(law - target).sum()
        law = law @ matrix
    return np.array([distances[t] for t in iterations])


@pytest.fixture(scope="module")
def times():
    return KERNEL.meeting_times(Target(), np.random.default_rng(0))


ITERATIONS = [0, 5, 10, 20, 30, 40]


@pytest.mark.statistical
def test_the_bound_holds_and_is_not_far_off(times):
    """Held against four standard errors at six points: false-alarm rate below 2e-4.

    A bound that forgets the lag, or counts it twice, fails: the exact distance falls tenfold in 20 steps.
    """
    exact = exact_distance(ITERATIONS)
    bound, error = KERNEL.total_variation(times, np.array(ITERATIONS))
    assert (bound + 4 * error >= exact).all(), (exact, bound)
    assert bound[0] <= 1.0 + exact[0]
    useful = exact > 0.02
    assert (bound[useful] - 4 * error[useful] <= 3.0 * exact[useful] + 0.02).all(), (exact, bound)
    assert exact[-1] < 0.05
    assert bound[-1] < 0.2


@pytest.mark.statistical
def test_states_have_the_exact_law_of_the_kernel():
    """The draw after t steps is from the kernel that was measured: KS at t = 60, false-alarm rate 2e-3.

    Coarse steps have a large energy error, so a wrong acceptance would show.
    """
    for kernel in (KERNEL, replace(KERNEL, step_size=1.3, steps=1)):
        states = kernel.draws(Target(), 1500, 60, np.random.default_rng(1))
        assert stats.kstest(states[:, 0], "norm").pvalue > 1e-3
    early = KERNEL.draws(Target(), 200, 0, np.random.default_rng(1))
    assert stats.kstest(early[:, 0], stats.norm(START, SPREAD).cdf).pvalue > 1e-3


def test_chains_from_one_starting_point_part():
    @dataclass(frozen=True)
    class Together(Target):
        def initial(self, num, rng):
            return np.full((num, 1), START)

    states = KERNEL.draws(Together(), 20, 30, np.random.default_rng(2))
    assert len(np.unique(states)) == 20
    pairs = replace(KERNEL, pairs=20)
    assert len(np.unique(pairs.meeting_times(Together(), np.random.default_rng(2)))) > 5


def test_the_formula_counts_the_lags_beyond_t():
    kernel = replace(KERNEL, lag=10)
    bound, error = kernel.total_variation(np.array([10, 25, 60]), np.array([0, 5, 20, 50]))
    # ceil((tau - 10 - t)/10): t = 0: 0, 2, 5; t = 5: 0, 1, 5; t = 20: 0, 0, 3; t = 50: none.
    np.testing.assert_allclose(bound, [7 / 3, 2.0, 1.0, 0.0])
    assert error[-1] == 0.0
    unmet, _ = kernel.total_variation(np.array([10, kernel.max_steps + 1]), np.array([0]))
    assert unmet[0] == np.inf


def test_pairs_meet_in_several_dimensions():
    kernel = CoupledKernel(step_size=0.4, steps=4, walk_scale=0.02, walk_share=0.2, lag=30, pairs=20)
    times = kernel.meeting_times(Target(dim=5), np.random.default_rng(2))
    assert (times < kernel.max_steps).all()


def test_a_draw_is_refused_unless_pairs_show_the_error():
    sampler = CoupledSampler(kernel=replace(KERNEL, pairs=300), iterations=200, sampler_error=0.1)
    draws = sampler.sample(Target(), 3, np.random.default_rng(3))
    assert draws.values.shape == (3, 1)
    assert draws.evidence == sampler.evidence
    assert "within 0.1" in sampler.evidence.statement
    with pytest.raises(
        ConvergenceError, match=r"Coupled chains do not show that 5 iterations come within 0\.1"
    ):
        replace(sampler, iterations=5).sample(Target(), 1, np.random.default_rng(3))
    with pytest.raises(InvalidInput, match="300 pairs cannot show less"):
        replace(sampler, sampler_error=1e-4)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_settings_are_checked(share):
    with pytest.raises(InvalidInput, match="walk_share between 0 and 1"):
        replace(KERNEL, walk_share=share)
