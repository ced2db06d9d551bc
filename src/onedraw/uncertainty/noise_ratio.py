# SPDX-License-Identifier: Apache-2.0
"""kappa: how much sampling noise the loss minimiser has, at most, for the curvature that the draws reveal.

The draws spread like the inverse of the curvature H of the loss; the minimiser varies by H^-1 K H^-1 / n,
where K is the variance of the gradient. At the model, with score s = d log f/d eta and b = beta - 1,

    H = E_x[ H(eta) x x' ],  H(eta) = integral f^beta s^2,
    K = E_x[ K(eta) x x' ],  K(eta) = integral f^(2 beta - 1) s^2 - (integral f^beta s)^2,

so K <= kappa H with kappa = sup K(eta)/H(eta), whatever the features. Always kappa <= M^b with M the
largest density, because f^(2 beta - 1) <= f^beta M^b. Sharper, family by family:

* Bernoulli: K(eta)/H(eta) = p(1-p) (p^(beta-2) + (1-p)^(beta-2)), at most 2^-b for beta <= 3.
* Categorical: H and K are matrices, and kappa is that of two classes, proved below.
* Gaussian: K(eta)/H(eta) depends on the scale only: (2 pi scale^2)^(-b/2) (beta/(2 beta - 1))^(3/2). The
  scale itself has a constant of its own, from the moments of r^2 - 1 under the powers of the density.
* Poisson: the ratio vanishes at both ends of eta; its largest value is found on a fine grid.

Proof for several classes. In logits s_k = e_k - p. For a direction a let c_k = a's_k, so sum p_k c_k = 0, and

    a'Ha = sum p_k^(b+1) c_k^2,   a'Ka = sum p_k^(2b+1) c_k^2 - (sum p_k^(b+1) c_k)^2.

kappa, the largest Bernoulli ratio, is at least 2^-b, so p_k^(2b+1) <= kappa p_k^(b+1) if p_k <= 1/2, and
a'Ka <= kappa a'Ha unless a class with P > 1/2 has c_1 != 0. Let c_1 = 1 there and Q = 1 - P, and let sums run
over the other classes: m = -sum p_k^(b+1) c_k / P and G = sum p_k^(b+1) (kappa - p_k^b) c_k^2 / P^2. To be
shown is

    P^(2b+1) - (P^(b+1) - P m)^2 <= kappa P^(b+1) + P^2 G.

By Cauchy and Schwarz G >= m^2/S with S = sum p_k^(b+1)/(kappa - p_k^b) <= Q^(b+1)/(kappa - Q^b), because the
other p_k <= Q < 1/2 and sum to Q. The largest of 2 P^b m - m^2 (1 + 1/S) is P^(2b) S/(1 + S), and
S/(1 + S) <= Q^(b+1)/(kappa - P Q^b), so it is enough that

    P^(b+1) Q^(b+1)/(kappa - P Q^b) + P^b Q <= kappa,   which is   P^b Q + P Q^b <= kappa:

the left side is the Bernoulli ratio at P.

>>> from onedraw.families import Bernoulli
>>> round(noise_ratio(Bernoulli(), 2.5), 4), round(noise_ratio(Bernoulli(), 2.0), 4)
(0.3536, 0.5)
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.families import Bernoulli, Categorical, Family, Gaussian, Poisson
from onedraw.types import Array


def noise_ratio(family: Family, beta: float, scale: float | None = None) -> float:
    """kappa of the coefficients; ``scale`` is needed for the Gaussian family only."""
    if isinstance(family, Gaussian):
        if scale is None:
            raise InvalidInput("Expected the scale at which to evaluate the Gaussian noise ratio, got None.")
        return gaussian_curvature(2.0 * beta - 1.0, scale) / gaussian_curvature(beta, scale)
    return _discrete_ratio(family, beta)


@lru_cache(maxsize=256)
def _discrete_ratio(family: Family, beta: float) -> float:
    if isinstance(family, Bernoulli | Categorical):
        return float(bernoulli_ratio(np.linspace(1e-6, 0.5, 100_001), beta).max())
    if isinstance(family, Poisson):
        return _poisson_ratio(beta)
    return math.exp((beta - 1.0) * family.log_sup_density)


def bernoulli_ratio(p: Array, beta: float) -> Array:
    """K(eta)/H(eta) of a Bernoulli response with probability p.

    The gradient of the loss takes two values, which differ by p(1-p)(p^(b-1) + (1-p)^(b-1)); its variance is
    p(1-p) times the square of that, and H is p^2 (1-p)^2 (p^(b-1) + (1-p)^(b-1)).
    """
    return p * (1.0 - p) * (p ** (beta - 2.0) + (1.0 - p) ** (beta - 2.0))


def gaussian_curvature(power: float, scale: float) -> float:
    """integral f^power s^2 for the location of N(., scale^2)."""
    height = math.exp(-0.5 * (power - 1.0) * math.log(2.0 * math.pi * scale**2))
    return float(height * power**-1.5 / scale**2)


def gaussian_scale_ratio(beta: float, scale: float) -> float:
    """kappa of the residual scale, whose score is (r^2 - 1)/scale with r the standardised residual.

    Under f^g, up to its mass, r is N(0, 1/g): E[(r^2 - 1)^2] = 3/g^2 - 2/g + 1.
    """

    def mass(power: float) -> float:
        return math.exp(-0.5 * (power - 1.0) * math.log(2.0 * math.pi * scale**2)) / math.sqrt(power)

    def squared(power: float) -> float:
        return mass(power) * (3.0 / power**2 - 2.0 / power + 1.0)

    mean = mass(beta) * (1.0 / beta - 1.0)
    return (squared(2.0 * beta - 1.0) - mean**2) / squared(beta)


def _poisson_ratio(beta: float) -> float:
    """The largest K/H over eta; means from exp(-8) to exp(3.5), beyond which the ratio falls."""
    eta = np.linspace(-8.0, 3.5, 1151)
    y = np.arange(200.0)[:, None]
    log_density = Poisson().log_density(y, np.broadcast_to(eta, (len(y), len(eta))))
    score = y - np.exp(eta)
    power = np.exp(beta * log_density)
    curvature = (power * score**2).sum(axis=0)
    noise = (np.exp((beta - 1.0) * log_density) * power * score**2).sum(axis=0)
    noise -= (power * score).sum(axis=0) ** 2
    return min(1.0, float((noise / curvature).max()) * (1.0 + 1e-4))  # the grid may miss the top by 1e-5
