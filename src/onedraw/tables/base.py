# SPDX-License-Identifier: Apache-2.0
"""What the library knows of where records are: a table sums a kernel over them, and shows a random look.

A *block* holds records in memory. A *kernel* is a small frozen object that holds parameters, never records,
can be pickled, and maps a block to a tuple of arrays: what its records add to some sums. A *table* is any
number of blocks, wherever they lie; a block is a table of itself. ``onedraw.tables`` has a stream of blocks
that are loaded one after another, and blocks that lie on the workers of a cluster.

Guarantee:
    Sums of several blocks are added in pairs, in an order that depends on the number of blocks alone
    (``PairwiseSum``): the same partitions give the same bits, whatever thread or machine was first. A part
    takes at most ceil(log2(number of blocks)) roundings on its way into the sum.

A search may need a few records themselves. They come from one *look*: ``LOOK`` records chosen at random, all
of them if there are no more, taken in the pass that checks the records. At random, never evenly spaced:
tables come ordered, and a stride could miss every record of a group.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from onedraw.private import Withheld
from onedraw.types import AnyArray, Array

LOOK = 1 << 18
"""Records of a look."""

Sums = tuple[Array, ...]
Kernel = Callable[[Any], Sums]
"""Maps a block to what its records add to some sums."""
Prepare = Callable[[Any], Any]
"""Maps a block to a block, record by record; to be pickled like a kernel."""
B = TypeVar("B", bound="Block")
Rows = slice | NDArray[np.intp]


_ONE_THREAD: ContextVar[bool] = ContextVar("_ONE_THREAD", default=False)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Have kernels work in the thread that calls them: for a worker, which is one of many on its machine."""
    before = _ONE_THREAD.set(True)
    try:
        yield
    finally:
        _ONE_THREAD.reset(before)


def on_one_thread() -> bool:
    """Whether a kernel should leave the other cores alone. What it finds does not depend on it."""
    return _ONE_THREAD.get()


class Table(Protocol):
    """Records somewhere. Private."""

    @property
    def in_memory(self) -> bool:
        """Whether a sum reads nothing from elsewhere, so that two cost no more than one of both."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """The number of records, private where neighbours may differ in it, and that of their features."""
        ...

    def sum(self, kernel: Kernel) -> Sums:
        """The sums of what the kernel makes of each block: one pass over the records."""
        ...

    def map(self, prepare: Prepare) -> Any:
        """The table of prepared blocks."""
        ...

    def look(self, rng: np.random.Generator) -> Any:
        """A block of ``LOOK`` random records, always the same ones; of all records if there are no more."""
        ...

    def check(self, checks: Callable[[Any], None], rng: np.random.Generator) -> None:
        """Let ``checks`` refuse a block, in one pass that also takes the look.

        Blocks without records are not asked about, unless there is no other.
        """
        ...

    def settled(self) -> Any:
        """The table once it was checked: in memory, if it is no longer than a look."""
        ...

    def release(self) -> None:
        """Let go of what other processes keep for this table; it is not read again."""
        ...


class Block(Withheld):
    """Records in memory: a table of one block. Subclasses are frozen dataclasses of arrays."""

    in_memory: ClassVar[bool] = True
    _seed: AnyArray | None = None
    """Of the places of the look, once they are settled; they are chosen when it is first asked for."""
    _chosen: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        """How many records."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, int]:
        raise NotImplementedError

    def take(self: B, rows: Rows) -> B:
        """Some of the records."""
        raise NotImplementedError

    def sum(self, kernel: Kernel) -> Sums:
        return kernel(self)

    def map(self, prepare: Callable[[Any], B]) -> B:
        prepared = prepare(self)
        object.__setattr__(prepared, "_seed", self._seed)
        object.__setattr__(prepared, "_chosen", self._chosen)
        return prepared

    def look(self: B, rng: np.random.Generator) -> B:
        if len(self) <= LOOK:
            return self
        if self._seed is None:
            object.__setattr__(self, "_seed", seed_of_look(len(self), rng))
        if self._chosen is None:
            object.__setattr__(self, "_chosen", chosen_rows(len(self), self._seed))
        assert self._chosen is not None
        return self.take(self._chosen)

    def check(self, checks: Callable[[Any], None], rng: np.random.Generator) -> None:
        checks(self)
        object.__setattr__(self, "_seed", seed_of_look(len(self), rng))

    def settled(self: B) -> B:
        return self

    def release(self) -> None:
        """Nothing: what the process itself holds goes with its last name."""


def seed_of_look(num_records: int, rng: np.random.Generator) -> AnyArray | None:
    """What decides which records a look shows; None if it shows all of them.

    A seed, as numbers that nobody can predict take their time: places are many, and are never published.
    """
    return rng.integers(1 << 63, size=4) if num_records > LOOK else None


def chosen_rows(num_records: int, seed: AnyArray | None) -> NDArray[np.intp]:
    """The places of a look, in order: the same wherever the records lie.

    Every set of ``LOOK`` places is as likely as any other: which places random numbers have met is so, given
    how many, and so is which of them are left out again. A few times quicker than NumPy's own choice.
    """
    if num_records <= LOOK:
        return np.arange(num_records)
    rng, found = np.random.default_rng(seed), np.empty(0, dtype=np.int64)
    while len(found) < LOOK:
        # So many draws meet all but a few thousandths of the places wanted, or more.
        missing = -num_records * math.log1p(-(LOOK - len(found)) / num_records)
        drawn = rng.integers(0, num_records, min(int(1.01 * missing) + 64, 4 * LOOK))
        met = np.sort(np.concatenate([found, drawn]))  # np.unique would hash, many times slower
        found = met[np.append(True, met[1:] > met[:-1])]
    surplus = rng.choice(len(found), len(found) - LOOK, replace=False)
    return np.delete(found, surplus).astype(np.intp, copy=False)


@dataclass(frozen=True)
class Together:
    """Several kernels in one pass, which ``split`` takes apart again; any may be such a kernel itself."""

    kernels: tuple[Kernel, ...]

    def __call__(self, block: Any) -> Sums:
        found: list[Array] = []
        for kernel in self.kernels:
            parts = kernel(block)
            # An empty array, which adds up to itself, says by its shape how many arrays are the kernel's.
            found += [*parts, np.zeros((0, len(parts)))]
        return tuple(found)

    @staticmethod
    def split(sums: Sums) -> list[Sums]:
        """The sums of each kernel."""
        found: list[Sums] = []
        while sums:
            size = sums[-1].shape[1]
            found.append(sums[len(sums) - 1 - size : -1])
            sums = sums[: len(sums) - 1 - size]
        return found[::-1]


class PairwiseSum:
    """Adds parts as they come, in pairs of equal weight: a binary counter of partial sums.

    >>> total = PairwiseSum()
    >>> for value in range(5):
    ...     total.add((np.array([float(value)]),))
    >>> total.result()
    (array([10.]),)
    """

    def __init__(self) -> None:
        self._levels: list[Sums | None] = []

    def add(self, part: Sums) -> None:
        """Take in the next part."""
        for level, held in enumerate(self._levels):
            if held is None:
                self._levels[level] = part
                return
            part, self._levels[level] = added(held, part), None
        self._levels.append(part)

    def result(self, nothing: Sums | None = None) -> Sums:
        """The sum of all parts, or ``nothing`` if there was none."""
        total: Sums | None = None
        for held in self._levels:
            if held is not None:
                total = held if total is None else added(held, total)
        total = nothing if total is None else total
        assert total is not None
        return total


def added(left: Sums, right: Sums) -> Sums:
    """The sums of two parts, the earlier one first."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def pairwise(parts: Iterable[Sums]) -> Sums:
    """The sum of the parts in the order of ``PairwiseSum``."""
    total = PairwiseSum()
    for part in parts:
        total.add(part)
    return total.result()
