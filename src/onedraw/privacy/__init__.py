# SPDX-License-Identifier: Apache-2.0
"""Privacy accounting: calibration, composition and the guarantee. No data ever enter this folder."""

from onedraw.privacy.calibration import Calibration, calibrate, calibrate_loss
from onedraw.privacy.composition import (
    bounded_range_delta,
    compose_bounded_range,
    compose_pure,
    compose_zcdp,
    range_per_draw,
    zcdp_of_bounded_range,
    zcdp_to_epsilon,
)
from onedraw.privacy.gaussian import gaussian_delta, gaussian_parameter
from onedraw.privacy.guarantee import Guarantee
from onedraw.privacy.reference import best_beta
from onedraw.privacy.request import Request

__all__ = [
    "Calibration",
    "Guarantee",
    "Request",
    "best_beta",
    "bounded_range_delta",
    "calibrate",
    "calibrate_loss",
    "compose_bounded_range",
    "compose_pure",
    "compose_zcdp",
    "gaussian_delta",
    "gaussian_parameter",
    "range_per_draw",
    "zcdp_of_bounded_range",
    "zcdp_to_epsilon",
]
