# SPDX-License-Identifier: Apache-2.0
"""The version, written in this one place and read by the build.

>>> __version__.count(".")
2
"""

__version__ = "0.1.0"
