# SPDX-License-Identifier: Apache-2.0
"""Inference from a release alone: estimates, intervals and tests from parameters and a noisy curvature."""

from onedraw.inference.from_release import Inference, infer, infer_many
from onedraw.inference.mixture import NormalMixture, WaldTest
from onedraw.inference.released import NormalTilt, Released, TiltLaw
from onedraw.inference.weight import ConstantWeight, ExponentialWeight, LogisticWeight, Weight

__all__ = [
    "ConstantWeight",
    "ExponentialWeight",
    "Inference",
    "LogisticWeight",
    "NormalMixture",
    "NormalTilt",
    "Released",
    "TiltLaw",
    "WaldTest",
    "Weight",
    "infer",
    "infer_many",
]
