# SPDX-License-Identifier: Apache-2.0
"""What reproduces the paper: its data sets, experiments and figures. The library never imports it."""
