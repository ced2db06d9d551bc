# SPDX-License-Identifier: Apache-2.0
"""The paper's experiments as declarative specifications, and the one runner that computes them."""

from onedraw.research.experiments.attacks import ATTACKS
from onedraw.research.experiments.gaussian_calibration import CALIBRATION
from onedraw.research.experiments.illustrations import INFLUENCE, UPDATE
from onedraw.research.experiments.logistic import DIMENSIONS, SIMULATED, WIDE
from onedraw.research.experiments.logistic_uci import UCI
from onedraw.research.experiments.networks import (
    CLASSIFICATION,
    CLASSIFICATION_UCI,
    NETWORK_DIMENSIONS,
    REGRESSION,
    REGRESSION_UCI,
)
from onedraw.research.experiments.random_units import RANDOM_UNITS
from onedraw.research.experiments.requirements import REQUIREMENTS
from onedraw.research.experiments.runner import Results, run
from onedraw.research.experiments.spec import SIZES, VERSIONS, Experiment
from onedraw.research.experiments.theory import ASYMPTOTICS, CONSISTENCY

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        UPDATE,
        SIMULATED,
        WIDE,
        UCI,
        CALIBRATION,
        REGRESSION,
        REGRESSION_UCI,
        ATTACKS,
        INFLUENCE,
        CLASSIFICATION,
        CLASSIFICATION_UCI,
        DIMENSIONS,
        NETWORK_DIMENSIONS,
        REQUIREMENTS,
        CONSISTENCY,
        ASYMPTOTICS,
        RANDOM_UNITS,
    )
}
"""By name, in the order of the paper's figures."""

__all__ = ["EXPERIMENTS", "Experiment", "Results", "SIZES", "VERSIONS", "run"]
