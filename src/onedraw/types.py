# SPDX-License-Identifier: Apache-2.0
"""Shared type aliases.

>>> import numpy as np
>>> a: Array = np.zeros(3)
>>> a.dtype
dtype('float64')
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
"""A float64 array; shapes stand in the docstring of the function that takes it."""

AnyArray: TypeAlias = NDArray[Any]

Neighbours: TypeAlias = Literal["replace_one", "add_remove"]
"""Which data sets count as neighbours: one person's record replaced, or added or removed."""
