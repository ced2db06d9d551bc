# SPDX-License-Identifier: Apache-2.0
"""Mechanisms: each is calibrated before it sees data, states its guarantee, then releases."""

from onedraw.mechanisms.one_posterior import OnePosteriorSample, Records

__all__ = ["OnePosteriorSample", "Records"]
