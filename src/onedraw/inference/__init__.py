# SPDX-License-Identifier: Apache-2.0
"""Inference from a release alone: estimates, intervals and tests from parameters and a noisy curvature."""

from onedraw.inference.classes import ClassWeight
from onedraw.inference.from_release import Inference, infer, infer_many
from onedraw.inference.layout import Layout
from onedraw.inference.mixture import NormalMixture, WaldTest
from onedraw.inference.released import NormalTilt, Released, TiltLaw
from onedraw.inference.score import DispersedScore, EfficientScore, ModelScore, RobustScore, ScoreLaw
from onedraw.inference.weight import (
    ConstantWeight,
    CountVariance,
    CountWeight,
    ExponentialWeight,
    LogisticVariance,
    LogisticWeight,
    Weight,
)

__all__ = [
    "ClassWeight",
    "ConstantWeight",
    "CountVariance",
    "CountWeight",
    "DispersedScore",
    "EfficientScore",
    "ExponentialWeight",
    "Inference",
    "Layout",
    "LogisticVariance",
    "LogisticWeight",
    "ModelScore",
    "NormalMixture",
    "NormalTilt",
    "Released",
    "RobustScore",
    "ScoreLaw",
    "TiltLaw",
    "WaldTest",
    "Weight",
    "infer",
    "infer_many",
]
