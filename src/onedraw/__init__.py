# SPDX-License-Identifier: Apache-2.0
"""Publish models fitted to sensitive data with differential privacy, as one draw from a beta-divergence
posterior.

>>> import onedraw
>>> onedraw.calibrate("bernoulli", epsilon=1.0).epsilon
1.0
"""

from onedraw import mechanisms, nn, unsafe
from onedraw._version import __version__
from onedraw.answers import Answer, compare, mean, proportion, rate
from onedraw.columns import Column, Columns, Target
from onedraw.errors import (
    AcceptanceTooLow,
    BudgetExceeded,
    CalibrationError,
    ConvergenceError,
    DuplicateDataWarning,
    InvalidInput,
    LedgerError,
    MissingExtra,
    NoiseWarning,
    NonFiniteDensity,
    OnedrawError,
    ReleaseFormatError,
    SamplingError,
    UnitsWarning,
    UnknownDataset,
)
from onedraw.estimators import (
    LinearRegression,
    LogisticRegression,
    MLPClassifier,
    MLPRegressor,
    NegativeBinomialRegressor,
    PoissonRegressor,
    PrivateModel,
)
from onedraw.formulas import fit
from onedraw.ledger import Ledger, Receipt
from onedraw.privacy import Calibration, Guarantee, calibrate
from onedraw.release import Release
from onedraw.samplers import Evidence

__all__ = [
    "AcceptanceTooLow",
    "Answer",
    "BudgetExceeded",
    "Calibration",
    "CalibrationError",
    "Column",
    "Columns",
    "ConvergenceError",
    "DuplicateDataWarning",
    "Evidence",
    "Guarantee",
    "InvalidInput",
    "Ledger",
    "LedgerError",
    "LinearRegression",
    "LogisticRegression",
    "MLPClassifier",
    "MLPRegressor",
    "MissingExtra",
    "NegativeBinomialRegressor",
    "NoiseWarning",
    "NonFiniteDensity",
    "OnedrawError",
    "PoissonRegressor",
    "PrivateModel",
    "Receipt",
    "Release",
    "ReleaseFormatError",
    "SamplingError",
    "Target",
    "UnitsWarning",
    "UnknownDataset",
    "__version__",
    "calibrate",
    "compare",
    "fit",
    "mean",
    "mechanisms",
    "nn",
    "proportion",
    "rate",
    "unsafe",
]
