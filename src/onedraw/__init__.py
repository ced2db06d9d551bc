# SPDX-License-Identifier: Apache-2.0
"""Publish models fitted to sensitive data with differential privacy, as one draw from a beta-divergence
posterior.

>>> import onedraw
>>> onedraw.calibrate("bernoulli", epsilon=1.0).epsilon
1.0
"""

from onedraw import unsafe
from onedraw._version import __version__
from onedraw.errors import (
    AcceptanceTooLow,
    CalibrationError,
    InvalidInput,
    MissingExtra,
    NonFiniteDensity,
    OnedrawError,
    ReleaseFormatError,
    SamplingError,
)
from onedraw.estimators import LinearRegression, LogisticRegression, PoissonRegressor
from onedraw.privacy import Calibration, Guarantee, calibrate
from onedraw.release import Release
from onedraw.samplers import Evidence

__all__ = [
    "AcceptanceTooLow",
    "Calibration",
    "CalibrationError",
    "Evidence",
    "Guarantee",
    "InvalidInput",
    "LinearRegression",
    "LogisticRegression",
    "MissingExtra",
    "NonFiniteDensity",
    "OnedrawError",
    "PoissonRegressor",
    "Release",
    "ReleaseFormatError",
    "SamplingError",
    "__version__",
    "calibrate",
    "unsafe",
]
