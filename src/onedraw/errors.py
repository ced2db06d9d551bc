# SPDX-License-Identifier: Apache-2.0
"""Every exception onedraw raises on purpose, as one tree.

::

    OnedrawError
    ├── InvalidInput (ValueError)        a value breaks a stated requirement
    │   └── CalibrationError             no beta or weight gives the requested guarantee
    ├── SamplingError (RuntimeError)     no exact draw was made, so nothing is released
    │   ├── AcceptanceTooLow             the envelope fits too badly to finish
    │   └── NonFiniteDensity             the log density is not a number somewhere
    ├── ReleaseFormatError (ValueError)  a release file is truncated, edited or of another version
    └── MissingExtra (ImportError)       an optional dependency is not installed

A message names the value, the requirement and the remedy. None of them quotes a private record.

>>> issubclass(CalibrationError, ValueError)
True
"""

from __future__ import annotations


class OnedrawError(Exception):
    """Base of all errors raised on purpose by this package."""


class InvalidInput(OnedrawError, ValueError):
    """A value breaks a stated requirement."""


class CalibrationError(InvalidInput):
    """No beta or weight gives the requested guarantee.

    Attributes:
        requested: the epsilon that was asked for.
        reachable: the smallest epsilon that can be reached, if one exists.
    """

    def __init__(
        self, message: str, *, requested: float | None = None, reachable: float | None = None
    ) -> None:
        super().__init__(message)
        self.requested = requested
        self.reachable = reachable


class SamplingError(OnedrawError, RuntimeError):
    """No exact draw was made, so nothing is released."""


class AcceptanceTooLow(SamplingError):
    """The envelope fits the posterior too badly to finish in a reasonable number of proposals."""


class NonFiniteDensity(SamplingError):
    """The log density is not a number somewhere, so no draw can be trusted."""


class ReleaseFormatError(OnedrawError, ValueError):
    """A release file is truncated, edited by hand, or written by another schema version."""


class MissingExtra(OnedrawError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra: pip install 'onedraw[{extra}]'.")
        self.extra = extra
