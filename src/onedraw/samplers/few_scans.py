# SPDX-License-Identifier: Apache-2.0
"""The mode and the envelope of a posterior with many more records than a look, in three scans of them.

The look stands in for all records, corrected by a quadratic (``Corrected``). So the mode of a correction at
the look's mode is the mode: one scan for that, a second one that verifies it and gives the correction there;
on that the envelope is fitted and the largest ratio searched for; and a third scan takes the true ratio and
its slope at the tops that were found.

Where anything is not as it should be (several modes, kinks, a mode that is not one, an envelope that fits
badly, a ratio that still rises) the ordinary search goes on over all records. Nothing rests on the look: an
exact draw does not depend on the envelope, and the bound is taken from true ratios.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from onedraw.posterior import Posterior
from onedraw.samplers.ascent import ratio_quadratic, to_the_top, trusted_step
from onedraw.samplers.corrected import Corrected
from onedraw.samplers.envelope import Mixture
from onedraw.samplers.fitting import GOOD_ACCEPTANCE, PILOT, Fit, judged, laplace_mixture, tops_of
from onedraw.samplers.modes import NEARLY_THERE, Mode, climb, is_skewed, positive_definite, sampled_modes
from onedraw.tables import base

FEWEST_LOOKS = 2
"""Of records: from so many looks on it is worth it."""
SMALL_GAIN = 1e-2
"""Nats that a top may still gain by its true slope; they are added to the bound, and its margin is larger."""


def is_worth_it(posterior: Posterior) -> bool:
    """Whether there are so many records that scans of them are what a draw costs."""
    if posterior.num_records < FEWEST_LOOKS * base.LOOK:
        return False
    return not (posterior.loss.family.has_kinks or is_skewed(posterior))


def fitted_in_few_scans(posterior: Posterior, rng: np.random.Generator) -> tuple[list[Mode], Fit] | None:
    """The mode and an envelope with its bound, or None where it takes more than a look to find them."""
    points = sampled_modes(posterior, rng)
    if len(points) != 1:
        return None
    look = posterior.subsample(base.LOOK, rng)
    looks = posterior.num_records / base.LOOK
    start = climb(look, points[0], known=[])
    assert start is not None
    corrected = Corrected.at(look, start.location, posterior.local_quadratic(start.location), looks)
    found = climb(corrected, start.location, known=[])
    assert found is not None
    quadratic = value, gradient, hessian = posterior.local_quadratic(found.location)
    precision = positive_definite(hessian, posterior)
    step = np.linalg.solve(precision, gradient)
    gain = float(gradient @ step)
    if not gain < NEARLY_THERE:
        return None
    modes = [Mode(location=found.location + step, log_density=value + 0.5 * gain, precision=precision)]
    corrected = Corrected.at(look, found.location, quadratic, looks)
    nowhere = np.empty((0, posterior.dim))
    fit = judged(corrected, laplace_mixture(posterior, modes), modes, rng, PILOT, nowhere)
    if fit.acceptance <= GOOD_ACCEPTANCE:
        return None
    verified = _verified(posterior, corrected, fit, modes[0], rng)
    return None if verified.acceptance <= GOOD_ACCEPTANCE else (modes, verified)


def _verified(
    posterior: Posterior, corrected: Corrected, fit: Fit, mode: Mode, rng: np.random.Generator
) -> Fit:
    """The fit with a bound from true ratios, at the tops of the ratio over the look or uphill of them."""
    mixture: Mixture = fit.envelope
    tops = np.stack([top for _, top in tops_of(corrected, fit, mode, rng)])
    value, gradient = posterior.log_density_and_gradient(tops)
    value, gradient = value - mixture.log_density(tops), gradient - mixture.gradient(tops)
    root = np.asarray(np.linalg.cholesky(mode.precision), dtype=float)
    for i, top in enumerate(tops):
        bend = ratio_quadratic(corrected, mixture, top, root)[2]
        slope = linalg.solve_triangular(root, gradient[i], lower=True)
        value[i] += (gain := trusted_step(slope, bend, 1.0)[1])
        if not gain < SMALL_GAIN:
            value[i], tops[i] = to_the_top(posterior, mixture, top, mode)
    order = np.argsort(-value)
    bound = max(fit.bound, float(value[order[0]]))
    return Fit(mixture, bound, fit.acceptance * float(np.exp(fit.bound - bound)), tops[order])
