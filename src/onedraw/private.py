# SPDX-License-Identifier: Apache-2.0
"""Types for what may not leave the process: records, posteriors, states of samplers, a private count.

``Withheld`` is the base of classes that hold such things: they show none of it when they are printed, and
refuse to be pickled, copied, compared or iterated. ``Private`` is a box around one value, for what has no
class of its own. ``opened`` is the one way into a box; a test reads the imports of the package and lists the
few modules that may use it.

Guarantee:
    The types catch accidents: a log line, a notebook cell, a pickle of a half-finished fit. They are no
    barrier against code that looks into the memory of its own process.

>>> box = Private([41.0, 62.5])
>>> box, f"{box}"
(Private(...), 'Private(...)')
>>> sum(opened(box))
103.5
>>> import pickle; pickle.dumps(box)
Traceback (most recent call last):
TypeError: Private holds private data and cannot be pickled or copied. Release something instead.
"""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")


class Withheld:
    """Base of objects that hold private data and do not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} holds private data and cannot be pickled or copied. "
            "Release something instead."
        )

    def __eq__(self, other: object) -> bool:
        raise TypeError(f"{type(self).__name__} holds private data and cannot be compared.")

    __hash__ = object.__hash__

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds private data and cannot be iterated.")

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds private data: its truth would tell about it.")


class Private(Withheld, Generic[T]):
    """A box around one private value."""

    __slots__ = ("__content",)

    def __init__(self, content: T) -> None:
        self.__content = content

    def _open(self) -> T:
        return self.__content


def opened(box: Private[T]) -> T:
    """What the box holds. From here on it is the caller's duty that nothing of it leaves."""
    return box._open()
