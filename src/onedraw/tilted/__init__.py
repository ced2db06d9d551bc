# SPDX-License-Identifier: Apache-2.0
"""The tilted fit: regressions whose objective carries a random linear term, private by its known law.

Read in this order: ``weights`` (rows that bound every record), ``losses`` (with ``count_loss`` and
``softmax_loss``; ``capped_counts`` is the law of what the first of them looks at), ``laws`` (of the tilt,
with ``class_law`` for several classes, ``one_hot`` for columns of categories and ``norm_laws`` for both),
``calibration`` (the theorem, with ``gaussian_tilt`` for delta > 0), ``sums`` and ``solver`` (the minimiser,
certified), ``fit``; then ``quantiles``, ``windows`` and ``linear`` for responses without bounds, ``units``
for features without, and ``curvature`` for what intervals need. ``terms`` says what may be spent, and
``recipes`` on which stages.
"""

from onedraw.tilted.calibration import Calibration, calibrate
from onedraw.tilted.class_law import ClassNormLaw
from onedraw.tilted.count_loss import CountCosh
from onedraw.tilted.curvature import CurvatureLaw, NoisyCurvature, curvature_law
from onedraw.tilted.fit import tilted_fit, tilted_minimiser
from onedraw.tilted.laws import BallLaw, CubeLaw, GaussianLaw, Law
from onedraw.tilted.linear import LinearFit, Shares, linear_fit
from onedraw.tilted.losses import LogCosh, Logistic, Loss
from onedraw.tilted.quantiles import quantile, size_of_counts, spread_of_residuals
from onedraw.tilted.softmax_loss import Softmax
from onedraw.tilted.solver import minimise
from onedraw.tilted.sums import Sums
from onedraw.tilted.terms import Terms
from onedraw.tilted.units import UnitTerms
from onedraw.tilted.weights import Rows, ball_rows, cube_rows
from onedraw.tilted.windows import Window, window_of_half

__all__ = [
    "BallLaw",
    "Calibration",
    "ClassNormLaw",
    "CountCosh",
    "CubeLaw",
    "CurvatureLaw",
    "GaussianLaw",
    "Law",
    "LinearFit",
    "LogCosh",
    "Logistic",
    "Loss",
    "NoisyCurvature",
    "Rows",
    "Shares",
    "Softmax",
    "Sums",
    "Terms",
    "UnitTerms",
    "Window",
    "ball_rows",
    "calibrate",
    "cube_rows",
    "curvature_law",
    "linear_fit",
    "minimise",
    "quantile",
    "size_of_counts",
    "spread_of_residuals",
    "tilted_fit",
    "tilted_minimiser",
    "window_of_half",
]
