# SPDX-License-Identifier: Apache-2.0
"""What is publicly known about the columns of a table, and how rows become numbers by it."""

from onedraw.columns.declaration import Columns
from onedraw.columns.encoding import (
    Encoding,
    OffsetSource,
    Source,
    Sources,
    encode_response,
    indicators,
)
from onedraw.columns.facts import DROP, Column, Target
from onedraw.columns.values import Reader

__all__ = [
    "Column",
    "Columns",
    "DROP",
    "Encoding",
    "OffsetSource",
    "Reader",
    "Source",
    "Sources",
    "Target",
    "encode_response",
    "indicators",
]
