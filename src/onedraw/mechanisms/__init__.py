# SPDX-License-Identifier: Apache-2.0
"""Mechanisms: options, calibrated by public facts to a guarantee; ``onedraw.publishing`` releases."""

from onedraw.mechanisms.adassp import AdaSSP
from onedraw.mechanisms.atom_sampler import AtomSampler
from onedraw.mechanisms.base import Mechanism, Requirements, Shape
from onedraw.mechanisms.beta_bernoulli_draw import BetaBernoulliDraw
from onedraw.mechanisms.defensive_rejection import DefensiveRejection
from onedraw.mechanisms.fast_mh import FastMH
from onedraw.mechanisms.gaussian_mean_draw import GaussianMeanDraw
from onedraw.mechanisms.gibbs_posterior import GibbsPosterior
from onedraw.mechanisms.lipschitz_gibbs import LipschitzGibbs
from onedraw.mechanisms.minibatch_barker import MinibatchBarker
from onedraw.mechanisms.noise_aware import BetaBernoulliNoiseAware, LinearNoiseAware
from onedraw.mechanisms.one_posterior import OnePosterior
from onedraw.mechanisms.output_perturbation import OutputPerturbation
from onedraw.mechanisms.penalty_chain import PenaltyChain
from onedraw.mechanisms.private_barker import PrivateBarker
from onedraw.mechanisms.private_hmc import PrivateHMC
from onedraw.mechanisms.private_sgld import PrivateSGLD
from onedraw.mechanisms.proposal_draw import ProposalDraw
from onedraw.mechanisms.sufficient_statistics import BetaBernoulliSSP, LinearSSP
from onedraw.mechanisms.tilted_fit import TiltedFit

__all__ = [
    "AdaSSP",
    "AtomSampler",
    "BetaBernoulliDraw",
    "BetaBernoulliNoiseAware",
    "BetaBernoulliSSP",
    "DefensiveRejection",
    "FastMH",
    "GaussianMeanDraw",
    "GibbsPosterior",
    "LinearNoiseAware",
    "LinearSSP",
    "LipschitzGibbs",
    "Mechanism",
    "MinibatchBarker",
    "OnePosterior",
    "OutputPerturbation",
    "PenaltyChain",
    "PrivateBarker",
    "PrivateHMC",
    "PrivateSGLD",
    "ProposalDraw",
    "Requirements",
    "Shape",
    "TiltedFit",
]
