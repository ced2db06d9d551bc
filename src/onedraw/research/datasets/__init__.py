# SPDX-License-Identifier: Apache-2.0
"""The paper's public data sets: where they come from, what their columns mean, and how they are prepared."""

from onedraw.research.datasets.loading import Table, load
from onedraw.research.datasets.preparing import Prepared, prepare
from onedraw.research.datasets.records import Categories, DataSet, Ignored, Interval, Number
from onedraw.research.datasets.registry import DATASETS

__all__ = [
    "Categories",
    "DATASETS",
    "DataSet",
    "Ignored",
    "Interval",
    "Number",
    "Prepared",
    "Table",
    "load",
    "prepare",
]
