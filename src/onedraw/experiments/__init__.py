# SPDX-License-Identifier: Apache-2.0
"""The paper's experiments as declarative specifications, and the one runner that computes them."""

from onedraw.experiments.attacks import ATTACKS
from onedraw.experiments.gaussian_calibration import CALIBRATION
from onedraw.experiments.illustrations import INFLUENCE, UPDATE
from onedraw.experiments.logistic import DIMENSIONS, SIMULATED
from onedraw.experiments.logistic_uci import UCI
from onedraw.experiments.networks import (
    CLASSIFICATION,
    CLASSIFICATION_UCI,
    NETWORK_DIMENSIONS,
    REGRESSION,
    REGRESSION_UCI,
)
from onedraw.experiments.requirements import REQUIREMENTS
from onedraw.experiments.runner import Results, run
from onedraw.experiments.spec import SIZES, VERSIONS, Experiment
from onedraw.experiments.theory import ASYMPTOTICS, CONSISTENCY

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        UPDATE,
        INFLUENCE,
        SIMULATED,
        UCI,
        CALIBRATION,
        REGRESSION,
        REGRESSION_UCI,
        CLASSIFICATION,
        CLASSIFICATION_UCI,
        DIMENSIONS,
        NETWORK_DIMENSIONS,
        ATTACKS,
        REQUIREMENTS,
        CONSISTENCY,
        ASYMPTOTICS,
    )
}
"""By name, in the order of the paper."""

__all__ = ["EXPERIMENTS", "Experiment", "Results", "SIZES", "VERSIONS", "run"]
