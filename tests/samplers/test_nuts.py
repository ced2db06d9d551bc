# SPDX-License-Identifier: Apache-2.0
import contextlib
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from onedraw import ConvergenceError, InvalidInput, NonFiniteDensity
from onedraw.model import NetworkModel
from onedraw.nn.networks import NetworkPosterior
from onedraw.records import Records
from onedraw.samplers import RejectionSampler, nuts
from onedraw.samplers.nuts import NutsSampler, above

jax = pytest.importorskip("jax")
pytest.importorskip("blackjax")
pytestmark = pytest.mark.jax


def as_network(case):
    """A network without hidden layers is the generalised linear model of the oracle's case."""
    linear = case.posterior()
    model = NetworkModel(
        family=linear.loss.family,
        features=("x",),
        hidden_layer_sizes=(),
        classes=None if case.floor else (0, 1),
    )
    return NetworkPosterior(
        model=model,
        beta=case.beta,
        weight=case.weight,
        prior=linear.prior,
        records=Records(features=case.x, response=case.y),
    )


@pytest.fixture(scope="module")
def thinned(reference):
    """Every fifth state of four chains, for the logistic and the linear case."""

    def draw(name):
        case = reference.CASES[name]
        posterior, rng = as_network(case), np.random.default_rng(11)
        sampler = NutsSampler(warmup=500, kept=1500)
        chains = sampler.run(posterior.density, posterior.data, posterior.initial(4, rng), rng)
        return case, case.natural(np.concatenate(list(chains.positions[:, ::5]))), chains

    return {name: draw(name) for name in ("logistic", "linear with intercept")}


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["logistic", "linear with intercept"])
def test_states_follow_the_posterior_of_the_grid_oracle(name, thinned, reference):
    """False-alarm rate 1e-3 at this seed's distribution (Bonferroni over margins, conditionals and joint).

    The linear case has a scale above its floor, so a missing Jacobian or a floor that is not kept fails here.
    """
    case, values, _ = thinned[name]
    found = reference.Oracle(case).p_values(values)
    assert min(found.values()) > 1e-3 / len(found), found


@pytest.mark.statistical
def test_states_agree_with_the_exact_sampler(thinned):
    """Two-sample KS on two margins, false-alarm rate 1e-3 (Bonferroni)."""
    case, values, _ = thinned["logistic"]
    exact = RejectionSampler().sample(case.posterior(), 1200, np.random.default_rng(5)).values
    for i in range(2):
        assert stats.ks_2samp(values[:, i], exact[:, i]).pvalue > 5e-4


def test_the_scale_never_falls_below_its_floor(thinned):
    case, values, _ = thinned["linear with intercept"]
    assert (values[:, -1] >= case.floor).all()
    with jax.enable_x64(True):
        u = np.array([-1e4, -50.0, 0.0, 10.0, 1e4])
        scale, log_jacobian = (np.asarray(part) for part in above(0.1, u))
    assert (scale >= 0.1).all()
    assert np.isfinite(scale).all()
    np.testing.assert_array_equal(log_jacobian, u)  # d scale/du = exp(u)


def test_the_users_jax_configuration_is_left_alone(thinned):
    assert not jax.config.jax_enable_x64
    assert jax.numpy.ones(1).dtype == "float32"
    assert thinned["logistic"][2].positions.dtype == "float64"


# -- any density, any tree


TRACES = []


@dataclass(frozen=True)
class Funnelless:
    """x ~ N(2, 0.5^2) of shape (2,), s = 1 + exp(u) with an exponential(1) prior on s - 1."""

    def __call__(self, position, data):
        TRACES.append(1)
        s, log_jacobian = above(1.0, position["u"])
        centred = (position["x"] - data) / 0.5
        return -0.5 * (centred**2).sum() - (s - 1.0) + log_jacobian


@dataclass(frozen=True, eq=False)
class Target:
    """The same density as a posterior of a flat vector."""

    density: object
    data: object = 2.0
    start: float = 0.0

    def initial(self, num, rng):
        return np.full((num, 3), self.start) + 0.1 * rng.normal(size=(num, 3))

    def monitored(self, positions):
        return positions


@dataclass(frozen=True)
class Flat:
    def __call__(self, position, data):
        return Funnelless()({"x": position[:2], "u": position[2]}, data)


SAMPLER = NutsSampler(chains=2, warmup=200, kept=400, min_ess=50, max_rhat=1.05)


@pytest.mark.statistical
def test_a_tree_with_a_bounded_leaf_is_sampled(thinned):
    """KS on thinned states of all chains against the known law, false-alarm rate 1e-3 (Bonferroni)."""
    rng = np.random.default_rng(3)
    initial = {"u": np.zeros(2), "x": np.zeros((2, 2))}
    sampler = replace(SAMPLER, kept=1500)
    chains = sampler.run(Funnelless(), np.array(2.0), initial, rng)
    excess = np.exp(chains.positions["u"][:, ::5]).ravel()
    assert stats.kstest(excess, "expon").pvalue > 5e-4
    x = chains.positions["x"][:, ::5].reshape(-1, 2)
    assert stats.kstest(x[:, 0], stats.norm(2.0, 0.5).cdf).pvalue > 5e-4


def test_a_second_run_compiles_nothing_for_any_number_of_iterations():
    rng = np.random.default_rng(0)
    target = Target(Flat())
    SAMPLER.sample(target, 1, rng)
    before = len(TRACES)
    other = replace(target, density=Flat(), data=3.0)  # an equal density and other data
    loose = replace(SAMPLER, warmup=100, kept=250, min_ess=2, max_rhat=2.0, max_divergent=0.5)
    loose.sample(other, 1, rng)
    assert len(TRACES) == before > 0


def test_draws_come_from_different_chains_and_seeds_decide():
    rows = [SAMPLER._choose(2, np.random.default_rng(seed)) for seed in range(50)]
    assert all(len(set(chains)) == 2 for chains, _ in rows)
    assert {int(chains[0]) for chains, _ in rows} == {0, 1}
    chains, iterations = SAMPLER._choose(300, np.random.default_rng(0))
    assert len(set(zip(chains, iterations, strict=True))) == 300
    with pytest.raises(InvalidInput, match=r"at most chains \* kept = 800 draws, got 801"):
        SAMPLER._choose(801, np.random.default_rng(0))
    first, again = (SAMPLER.sample(Target(Flat()), 1, np.random.default_rng(9)).values for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_chains_that_do_not_converge_release_nothing():
    class TwoPlaces(Target):
        def monitored(self, positions):
            # What is watched differs between the chains, as if each had its own mode.
            return positions + np.repeat([0.0, 9.0], len(positions) // 2)[:, None]

    with pytest.raises(ConvergenceError, match=r"Raise warmup \(now 200\) and kept \(now 400\)") as info:
        SAMPLER.sample(TwoPlaces(Flat()), 1, np.random.default_rng(0))
    assert "rhat" not in str(info.value).lower()
    with pytest.raises(ConvergenceError):
        replace(SAMPLER, min_ess=1e5).sample(Target(Flat()), 1, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("name", "value"),
    [("rhat", 1.06), ("bulk_ess", 49.0), ("tail_ess", 49.0), ("divergent", 0.02), ("bfmi", 0.1)],
)
def test_every_diagnostic_must_pass(name, value):
    good = {"rhat": 1.0, "bulk_ess": 500.0, "tail_ess": 500.0, "divergent": 0.0, "bfmi": 1.0}
    assert SAMPLER.converged(good)
    assert not SAMPLER.converged({**good, name: value})
    assert not SAMPLER.converged({**good, name: np.nan})


def test_a_density_that_is_not_finite_at_the_start_is_an_error():
    with pytest.raises(NonFiniteDensity, match="not finite at a draw from the prior"):
        SAMPLER.sample(Target(Flat(), data=np.nan), 1, np.random.default_rng(0))


def test_progress_counts_to_the_end_where_it_is_asked_for(monkeypatch):
    seen = []

    @contextlib.contextmanager
    def watched(what, total, *, shown):
        counted = []
        yield counted.append
        seen.append((total, sum(counted), shown))

    monkeypatch.setattr(nuts, "progress", watched)
    for asked in (True, False):
        replace(SAMPLER, progress=asked).run(
            Funnelless(), np.array(2.0), {"u": np.zeros(2), "x": np.zeros((2, 2))}, np.random.default_rng(0)
        )
    total = SAMPLER.chains * (SAMPLER.warmup + SAMPLER.kept)
    assert seen == [(total, total, True), (total, total, False)]


def test_chains_and_iterations_share_no_random_numbers():
    """Chains from one starting point part at once and stay apart, and no state comes twice."""
    initial = {"u": np.zeros(3), "x": np.zeros((3, 2))}
    sampler = replace(SAMPLER, chains=3, warmup=100, kept=100)
    x = sampler.run(Funnelless(), np.array(2.0), initial, np.random.default_rng(4)).positions["x"]
    values = x[:, :, 0].ravel()
    assert len(np.unique(values)) > 0.9 * len(values)  # a rejected move repeats a state, within its chain
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not np.isin(x[i, :, 0], x[j, :, 0]).any()
        # Chains with common momenta come together; independent ones stay apart: |r| < 0.4 at 1e-4.
        assert abs(np.corrcoef(x[i, :, 0], x[j, :, 0])[0, 1]) < 0.4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chains": 1}, "Diagnostics compare chains"),
        ({"warmup": 5}, "warmup to be a whole number >= 20"),
        ({"kept": 3}, "kept to be a whole number >= 8"),
        ({"target_acceptance": 1.0}, "target_acceptance between 0 and 1"),
        ({"max_rhat": 1.0}, "max_rhat > 1"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(InvalidInput, match=message):
        NutsSampler(**options)


def test_the_default_thresholds_are_the_recommended_ones():
    """Vehtari et al. 2021: R-hat below 1.01, effective sizes of 100 a chain."""
    sampler = NutsSampler()
    assert (sampler.max_rhat, sampler.min_ess / sampler.chains) == (1.01, 100.0)


def test_evidence_is_made_of_settings_alone():
    assert SAMPLER.sample(Target(Flat()), 1, np.random.default_rng(0)).evidence == SAMPLER.evidence
    assert SAMPLER.evidence.level == "diagnosed"
