# SPDX-License-Identifier: Apache-2.0
"""The private records of a NumPyro model: columns of numbers by name, one row per record.

Guarantee:
    Errors quote names of columns, never a value. Numbers beyond 2^53 stay as they are: the loss of a record
    is within its certificate for any number [``onedraw.nn.observed``].

>>> import numpy as np
>>> columns = Columns.read({"x": np.array([0.5, 41.5]), "y": np.array([0, 1])})
>>> columns, len(columns)
(Columns(...), 2)
>>> columns.outline
(('x', (), '<f8'), ('y', (), '<i8'))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onedraw.errors import InvalidInput
from onedraw.private import Withheld
from onedraw.types import AnyArray

Outline = tuple[tuple[str, tuple[int, ...], str], ...]
"""Name, shape of one record and type of each column."""
WIDE = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.bool_}
"""What numbers are computed in, by their kind in NumPy."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Columns(Withheld):
    """Private columns of numbers of one length."""

    arrays: Mapping[str, AnyArray]

    @classmethod
    def read(cls, records: Mapping[str, Any]) -> Columns:
        """Columns as arrays of numbers; no value decides anything here."""
        if not records:
            raise InvalidInput("Expected records by name, for example {'x': X, 'y': y}, got none.")
        arrays = {name: np.asarray(value) for name, value in records.items()}
        for name, value in arrays.items():
            if value.dtype.kind not in WIDE or value.ndim == 0:
                raise InvalidInput(
                    f"Expected column {name!r} to be an array of numbers with one row per record. Encode "
                    "text as numbers first; pass constants as public=..."
                )
        if len({len(value) for value in arrays.values()}) > 1:
            raise InvalidInput(f"Expected columns {sorted(arrays)} of one length, one row per record.")
        return cls(arrays={name: value.astype(WIDE[value.dtype.kind]) for name, value in arrays.items()})

    def __len__(self) -> int:
        """How many records there are; private where neighbours may differ in it."""
        return len(next(iter(self.arrays.values())))

    @property
    def outline(self) -> Outline:
        """Names, shapes and types, which are public."""
        return tuple((name, value.shape[1:], value.dtype.str) for name, value in self.arrays.items())

    def check_finite(self) -> None:
        """Refuse numbers that are none; the error quotes the name of the column only."""
        for name, value in self.arrays.items():
            if not np.isfinite(value).all():
                raise InvalidInput(
                    f"Expected finite numbers in column {name!r}. Remove or impute the others."
                )
