# SPDX-License-Identifier: Apache-2.0
"""Has a Markov chain converged? Rank-normalised split R-hat, bulk and tail effective sample size, E-BFMI.

Every number here depends on the private data and stays inside the process. Passing is evidence, never proof:
chains that all miss the same mode agree with each other.

With chains cut in halves and values replaced by normal scores of their ranks (z), and W, B the within- and
between-chain variance of m half-chains of length n,

    R-hat = sqrt(((n - 1)/n W + B/n) / W),     the larger of z and of the folded |x - median|,
    ESS   = m n / tau,   tau = -1 + 2 sum of P_k,   P_k = rho_2k + rho_2k+1 made positive and decreasing
            [Geyer 1992], with rho the autocorrelations of all chains combined; tail ESS is the smaller one of
            the indicators x <= 5% and x <= 95% quantile [Vehtari et al. 2021],
    E-BFMI = sum (E_t - E_t-1)^2 / sum (E_t - mean E)^2, of one chain's energies [Betancourt 2016].

>>> import numpy as np
>>> independent = np.random.default_rng(0).normal(size=(4, 500))
>>> bool(rhat(independent) < 1.01), bool(bulk_ess(independent) > 1500), bool(e_bfmi(independent).min() > 1.5)
(True, True, True)
>>> bool(rhat(independent + np.arange(4.0)[:, None]) > 1.5)
True
"""

from __future__ import annotations

import numpy as np
from scipy import fft, special

from onedraw.types import AnyArray, Array

FEWEST_DRAWS = 4
"""Half a chain needs two draws to have a variance."""


def rhat(chains: Array) -> float:
    """Rank-normalised split R-hat of values (chains, draws); infinite for unusable chains."""
    if not _usable(chains):
        return np.inf
    halves = _split(chains)
    folded = np.abs(halves - np.median(halves))
    return max(_potential_scale_reduction(_normal_scores(values)) for values in (halves, folded))


def bulk_ess(chains: Array) -> float:
    """Effective number of independent draws for the centre of the distribution; 0 for unusable chains."""
    return _ess(_normal_scores(_split(chains))) if _usable(chains) else 0.0


def tail_ess(chains: Array) -> float:
    """The smaller effective number of draws for the 5% and the 95% quantile; 0 for unusable chains."""
    if not _usable(chains):
        return 0.0
    low, high = np.quantile(chains, [0.05, 0.95])
    return min(_ess(_split((chains <= limit).astype(np.float64))) for limit in (low, high))


def e_bfmi(energies: Array) -> Array:
    """Energy fraction of missing information of each chain, (chains,), from energies (chains, draws)."""
    spread = np.square(energies - energies.mean(axis=1, keepdims=True)).sum(axis=1)
    steps = np.square(np.diff(energies, axis=1)).sum(axis=1)
    return np.asarray(np.divide(steps, spread, out=np.zeros_like(steps), where=spread > 0.0))


def _usable(chains: Array) -> bool:
    """Finite, long enough, and no constant chain: one that never moved has no ranks to compare."""
    if chains.shape[1] < FEWEST_DRAWS or not np.isfinite(chains).all():
        return False
    return bool((np.ptp(chains, axis=1) > 0.0).all())


def _split(chains: Array) -> Array:
    """Each chain as two; the middle draw of an odd number is left out."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def _normal_scores(chains: Array) -> Array:
    ranks = _average_ranks(chains.ravel()).reshape(chains.shape)
    scores: Array = special.ndtri((ranks - 0.375) / (chains.size + 0.25))
    return scores


def _average_ranks(values: Array) -> Array:
    """Ranks from 1, ties shared."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last: AnyArray = np.cumsum(counts)
    return np.asarray((last - 0.5 * (counts - 1))[inverse])


def _potential_scale_reduction(chains: Array) -> float:
    draws = chains.shape[1]
    within = float(chains.var(axis=1, ddof=1).mean())
    between = draws * float(chains.mean(axis=1).var(ddof=1))
    if within == 0.0:
        return np.inf
    return float(np.sqrt((draws - 1.0) / draws + between / (draws * within)))


def _autocovariance(chains: Array) -> Array:
    """Of each chain at every lag, divided by the number of draws, by the fast Fourier transform."""
    draws = chains.shape[1]
    size = fft.next_fast_len(2 * draws, real=True)
    spectrum = fft.rfft(chains - chains.mean(axis=1, keepdims=True), size, axis=1)
    return np.asarray(fft.irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :draws] / draws)


def _ess(chains: Array) -> float:
    draws = chains.shape[1]
    covariance = _autocovariance(chains)
    within = float(covariance[:, 0].mean()) * draws / (draws - 1.0)
    if within == 0.0:  # an indicator that is the same everywhere
        return float(chains.size)
    total = within * (draws - 1.0) / draws + float(chains.mean(axis=1).var(ddof=1))
    rho = 1.0 - (within - covariance.mean(axis=0)) / total
    rho[0] = 1.0
    # Sums of two neighbouring autocorrelations of a reversible chain are positive and fall; the first that is
    # not ends the sum, because from there on noise dominates.
    even = rho[: draws - draws % 2]
    pairs = even[0::2] + even[1::2]
    last = max(1, (draws - 3) // 2)
    negative = np.flatnonzero(pairs[1 : last + 1] < 0.0)
    stop = int(negative[0]) + 1 if len(negative) else last
    monotone = np.minimum.accumulate(pairs[:stop])
    tail = max(float(rho[2 * stop]), 0.0) if 2 * stop < draws else 0.0
    tau = -1.0 + 2.0 * float(monotone.sum()) + tail
    return float(chains.size / max(tau, 1.0 / np.log10(chains.size)))
