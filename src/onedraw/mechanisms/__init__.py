# SPDX-License-Identifier: Apache-2.0
"""Mechanisms: each is calibrated before it sees data, states its guarantee, then releases."""

from onedraw.mechanisms._base import Mechanism
from onedraw.mechanisms.adassp import AdaSSP
from onedraw.mechanisms.conjugate_rdp import BetaBernoulliDraw, GaussianMeanDraw
from onedraw.mechanisms.gibbs_posterior import GibbsPosterior
from onedraw.mechanisms.lipschitz_gibbs import LipschitzGibbs
from onedraw.mechanisms.noise_aware import BetaBernoulliNoiseAware, LinearNoiseAware
from onedraw.mechanisms.objective_perturbation import ObjectivePerturbation
from onedraw.mechanisms.one_posterior import OnePosteriorSample
from onedraw.mechanisms.output_perturbation import OutputPerturbation
from onedraw.mechanisms.records import Records
from onedraw.mechanisms.sufficient_statistics import BetaBernoulliSSP, LinearSSP

__all__ = [
    "AdaSSP",
    "BetaBernoulliDraw",
    "BetaBernoulliNoiseAware",
    "BetaBernoulliSSP",
    "GaussianMeanDraw",
    "GibbsPosterior",
    "LinearNoiseAware",
    "LinearSSP",
    "LipschitzGibbs",
    "Mechanism",
    "ObjectivePerturbation",
    "OnePosteriorSample",
    "OutputPerturbation",
    "Records",
]
