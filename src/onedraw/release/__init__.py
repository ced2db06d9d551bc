# SPDX-License-Identifier: Apache-2.0
"""What may leave: the release, the public grid that its numbers lie on, and its file."""

from onedraw.release.grid import Grid, coefficient_step, scale_step
from onedraw.release.made import Made, Statistic
from onedraw.release.release import Release

__all__ = ["Grid", "Made", "Release", "Statistic", "coefficient_step", "scale_step"]
