# SPDX-License-Identifier: Apache-2.0
"""The mechanism, and its guarantee measured against exact posteriors of adversarial neighbours.

On a finite set of parameters with any prior masses the theorem holds as it stands, so densities evaluated on
a grid give exact privacy losses: there is no quadrature error to allow for, only rounding.
"""

import dataclasses

import numpy as np
import pytest
from scipy import optimize

import onedraw
from onedraw.errors import CalibrationError
from onedraw.families import Bernoulli, Gaussian, Poisson
from onedraw.losses import BetaDivergence, Gibbs
from onedraw.mechanisms import OnePosteriorSample, Records
from onedraw.mechanisms._base import EXACTNESS
from onedraw.model import RegressionModel
from onedraw.priors import Prior, ScalePrior
from onedraw.samplers import GridSampler, RejectionSampler

FLOOR = 0.5
SIDE = np.geomspace(1e-7, 20.0, 300)
LINE = np.concatenate([-SIDE[::-1], [0.0], SIDE])[:, None]
"""Slopes fine enough around 0 to tell the two signs of a feature of 1e3 apart."""
PLANE = np.stack(
    np.meshgrid(np.linspace(-12, 12, 97), np.linspace(-12, 3, 40), indexing="ij"), axis=-1
).reshape(-1, 2)
"""Slope and the working coordinate of the scale."""
FAMILIES = {"bernoulli": Bernoulli(), "gaussian": Gaussian(scale_floor=FLOOR), "poisson": Poisson()}


def build(family="bernoulli", sampler=None):
    noise = ScalePrior(floor=FLOOR) if family == "gaussian" else None
    return OnePosteriorSample(
        loss=BetaDivergence(FAMILIES[family]),
        prior=Prior(scale=3.0, noise=noise),
        sampler=sampler or RejectionSampler(),
    )


def log_masses(mechanism, records):
    """Normalised log posterior masses of the grid, for records [(x, y), ...]."""
    table = np.array(records, dtype=float).reshape(-1, 2)
    data = Records(features=table[:, :1], response=table[:, 1])
    grid = LINE if mechanism.prior.noise is None else PLANE
    value = mechanism.posterior(data, fit_intercept=False).log_density(grid)
    return value - np.logaddexp.reduce(value)


def privacy_loss(mechanism, common, one, other):
    """Largest |log ratio| between the posteriors of common + one and common + other."""
    gap = log_masses(mechanism, [*common, *one]) - log_masses(mechanism, [*common, *other])
    return float(np.abs(gap).max())


# -- the contract


def test_an_uncalibrated_mechanism_promises_and_releases_nothing():
    mechanism = build()
    data = Records(features=np.zeros((1, 1)), response=np.zeros(1))
    model = RegressionModel(kind="logistic", features=("x",))
    for use in (
        lambda: mechanism.guarantee,
        lambda: mechanism.sensitivity,
        lambda: mechanism.posterior(data),
        lambda: mechanism.release(data, model=model),
    ):
        with pytest.raises(
            onedraw.CalibrationError, match=r"no guarantee yet: call calibrate\(epsilon=...\) first"
        ):
            use()


def test_calibrate_returns_a_new_object():
    mechanism = build()
    calibrated = mechanism.calibrate(epsilon=2.0, beta=1.5, neighbours="add_remove", rows_per_person=2)
    assert mechanism.calibration is None
    assert calibrated.guarantee == onedraw.Guarantee(
        epsilon=2.0, neighbours="add_remove", rows_per_person=2, bounded_range=2.0
    )
    assert calibrated.sensitivity == 2.0
    assert calibrated.calibrated.weight == pytest.approx(0.5)
    assert calibrated.calibrate(epsilon=1.0).guarantee.epsilon == 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        calibrated.calibration = None


def test_an_unbounded_loss_is_refused():
    mechanism = OnePosteriorSample(
        loss=Gibbs(Gaussian(scale_floor=1.0)), prior=Prior(), sampler=RejectionSampler()
    )
    with pytest.raises(onedraw.CalibrationError, match="unbounded, so no weight makes a draw private"):
        mechanism.calibrate(epsilon=1.0)


def test_records_are_checked():
    with pytest.raises(
        onedraw.InvalidInput, match=r"features \(n, d\) and response \(n,\), got shapes \(2, 1\) and \(3,\)"
    ):
        Records(features=np.zeros((2, 1)), response=np.zeros(3))
    with pytest.raises(onedraw.InvalidInput, match=r"finite records.*Remove or impute"):
        Records(features=np.full((1, 1), np.nan), response=np.zeros(1))
    mechanism = build().calibrate(epsilon=1.0)
    wide = Records(features=np.zeros((2, 3)), response=np.zeros(2))
    with pytest.raises(onedraw.InvalidInput, match="the 1 features of the model, got 3"):
        mechanism.release(wide, model=RegressionModel(kind="logistic", features=("x",)))
    odd = Records(features=np.zeros((1, 1)), response=np.array([31337.0]))
    with pytest.raises(onedraw.InvalidInput) as info:
        mechanism.release(odd, model=RegressionModel(kind="logistic", features=("x",)))
    assert "31337" not in str(info.value)


def test_no_records_release_the_prior():
    mechanism = build(sampler=GridSampler(points=5)).calibrate(epsilon=1.0)
    data = Records(features=np.zeros((0, 1)), response=np.zeros(0))
    posterior = mechanism.posterior(data)
    thetas = np.random.default_rng(0).normal(size=(4, 2))
    np.testing.assert_allclose(posterior.log_density(thetas), mechanism.prior.log_density(thetas))
    release = mechanism.release(data, model=RegressionModel(kind="logistic", features=("x",)), random_state=0)
    assert release.num_records == 0


def test_a_release_reports_the_calibration_it_was_made_with():
    mechanism = build("gaussian").calibrate(epsilon=1.0, draws=3)
    rng = np.random.default_rng(0)
    data = Records(features=rng.normal(size=(50, 1)), response=rng.normal(size=50))
    model = RegressionModel(kind="linear", features=("x",), scale_floor=FLOOR)
    release = mechanism.release(
        data, model=model, random_state=0, assumptions=("One.",), receipt={"dataset": "patients"}
    )
    assert release.mechanism == mechanism.description
    assert release.mechanism["weight"] == mechanism.calibrated.weight
    assert (len(release.draws), release.assumptions, release.receipt) == (
        3,
        ("One.", *EXACTNESS["searched"]),
        {"dataset": "patients"},
    )
    assert release.grid == mechanism.grid
    assert not set(release.to_dict()) & {"diagnostics", "acceptance"}


def test_a_calibration_for_another_loss_is_refused():
    mechanism = build("bernoulli").calibrate(epsilon=1.0)
    with pytest.raises(CalibrationError, match="made for another loss"):
        dataclasses.replace(mechanism, loss=BetaDivergence(Gaussian(scale_floor=1e-6)))
    narrow = build("gaussian").calibrate(epsilon=1.0)
    with pytest.raises(CalibrationError, match="made for another loss"):
        dataclasses.replace(narrow, loss=BetaDivergence(Gaussian(scale_floor=FLOOR / 2)))


# -- the certificate, end to end


def random_records(rng, family, count):
    x = rng.choice([rng.normal(), 10 * rng.normal(), 1e3, -1e3, 0.0, 1.0], size=count)
    if family == "bernoulli":
        y = rng.integers(0, 2, size=count)
    elif family == "poisson":
        y = rng.choice([0, 1, 5, 1000], size=count)
    else:
        y = rng.choice([0.0, 1.0, -4.0, 1e4, x[0]], size=count)
    return list(zip(x.tolist(), y.tolist(), strict=True))


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("options", [{}, {"beta": 1.2}, {"beta": 4.0}, {"rows_per_person": 3}])
def test_random_neighbours_stay_within_epsilon(family, neighbours, options):
    rng = np.random.default_rng(0)
    rows = options.get("rows_per_person", 1)
    for epsilon in (0.3, 2.0, 15.0):
        mechanism = build(family).calibrate(epsilon=epsilon, neighbours=neighbours, **options)
        for _ in range(4 if family == "gaussian" else 25):
            common = random_records(rng, family, 1) * rng.choice([0, 1, 8, 40])
            one = random_records(rng, family, rows)
            other = random_records(rng, family, rows) if neighbours == "replace_one" else []
            assert privacy_loss(mechanism, common, one, other) <= epsilon + 1e-9


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_searched_neighbours_stay_within_epsilon(family, neighbours):
    """Nelder-Mead over the features of an anchor (repeated 12 times) and of the changed record, for every
    pair of responses."""
    epsilon = 1.0
    mechanism = build(family).calibrate(epsilon=epsilon, neighbours=neighbours)
    worst = 0.0
    for responses in ([1, 1, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]):

        def loss(x, responses=responses):
            anchor, one, other = zip(np.sinh(x).tolist(), responses, strict=True)
            return -privacy_loss(
                mechanism, [anchor] * 12, [one], [other] if neighbours == "replace_one" else []
            )

        found = optimize.minimize(loss, [2.0, 1.0, -1.0], method="Nelder-Mead", options={"maxfev": 60})
        worst = max(worst, -found.fun)
    assert worst <= epsilon + 1e-9
    assert worst >= 0.5 * epsilon


def designed_pair(family, neighbours):
    """Common records that leave almost no mass where the changed record matters most, and the change."""
    if family == "bernoulli":
        anchor, one, other = (1e3, 1), (1e3, 1), (1e3, 0)
    elif family == "poisson":
        anchor, one, other = (-1e3, 0), (-1e3, 0), (1e3, 0)
    else:
        anchor, one, other = (1.0, 0.0), (1.0, 0.0), (1.0, 8.0)
    count = 80 if family == "bernoulli" else 1500
    return [anchor] * count, [other], [one] if neighbours == "replace_one" else []


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    ("family", "beta"), [("bernoulli", "auto"), ("bernoulli", 3.0), ("gaussian", 1.5), ("poisson", 1.05)]
)
def test_a_designed_pair_comes_near_epsilon(family, beta, neighbours):
    """At least 0.9 epsilon, so a weight twice too small fails; and twice too large breaks epsilon by far.

    No mean makes a positive count certain, so the certificate for counts is an upper bound: this
    pair reaches 1/beta of it.
    """
    epsilon = 1.0
    mechanism = build(family).calibrate(epsilon=epsilon, beta=beta, neighbours=neighbours)
    common, one, other = designed_pair(family, neighbours)
    reached = privacy_loss(mechanism, common, one, other)
    assert 0.9 * epsilon <= reached <= epsilon + 1e-9
    doubled = dataclasses.replace(
        mechanism,
        calibration=dataclasses.replace(mechanism.calibrated, weight=2 * mechanism.calibrated.weight),
    )
    assert privacy_loss(doubled, common, one, other) >= 1.8 * epsilon


def test_several_rows_of_a_person_add_up_to_epsilon():
    mechanism = build().calibrate(epsilon=1.0, rows_per_person=4)
    reached = privacy_loss(mechanism, [(1e3, 1)] * 200, [(1e3, 0)] * 4, [(1e3, 1)] * 4)
    assert 0.9 <= reached <= 1.0 + 1e-9


def test_several_draws_split_epsilon():
    """The joint loss of k independent draws is k times that of one."""
    mechanism = build().calibrate(epsilon=1.0, draws=5)
    reached = privacy_loss(mechanism, *designed_pair("bernoulli", "replace_one"))
    assert mechanism.guarantee.draws == 5
    assert 0.85 <= 5 * reached <= 1.0 + 1e-9
