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
* Location-scale: s is odd around the location, so K(eta)/H(eta) is the integral of f^(2 beta - 1) s^2 over
  that of f^beta s^2, which depends on the scale only. The scale itself has a constant of its own, from its
  own score.
* Counts: the ratio vanishes at both ends of eta; its largest value is found on a fine grid. Beyond the grid
  it is at most the b-th power of the largest probability, which falls with eta: the derivative of log f at
  the mode is (k - mu) times something positive, and no mode of these families lies above its mean.

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

the left side is the Bernoulli ratio at P. Nothing is used of the scores but that their mean is zero, so the
constant of two classes bounds that of every mass function with one predictor too, counts included.

>>> round(class_noise_ratio(2.5), 4), round(class_noise_ratio(2.0), 4)
(0.3536, 0.5)
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from onedraw.types import Array


@lru_cache(maxsize=256)
def class_noise_ratio(beta: float) -> float:
    """kappa of two or more classes."""
    return float(_bernoulli_ratio(np.linspace(1e-6, 0.5, 100_001), beta).max())


def _bernoulli_ratio(p: Array, beta: float) -> Array:
    """K(eta)/H(eta) of a Bernoulli response with probability p.

    The gradient of the loss takes two values, which differ by p(1-p)(p^(b-1) + (1-p)^(b-1)); its variance is
    p(1-p) times the square of that, and H is p^2 (1-p)^2 (p^(b-1) + (1-p)^(b-1)).
    """
    return p * (1.0 - p) * (p ** (beta - 2.0) + (1.0 - p) ** (beta - 2.0))


def largest_ratio(log_density: Array, score: Array, beta: float) -> float:
    """The largest K/H over columns, from log densities and scores (responses, columns)."""
    power = np.exp(beta * log_density)
    curvature = (power * score**2).sum(axis=0)
    noise = (np.exp((beta - 1.0) * log_density) * power * score**2).sum(axis=0)
    noise -= (power * score).sum(axis=0) ** 2
    return float((noise / curvature).max())
