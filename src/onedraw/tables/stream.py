# SPDX-License-Identifier: Apache-2.0
"""A table of blocks that are loaded one after another: memory holds two of them, however many there are.

Guarantee:
    The proofs count each record once in each sum, and the same records in all sums of a fit. So every pass
    verifies that it sees what the first one saw: as many blocks, with as many records and the same checksums.
    A pass that does not raises ``TableError``, and nothing is released. (CRC-32 finds accidents; whoever
    forges files between two passes of his own fit has the records anyway.)

The first pass is that of ``check``: it lets a mechanism refuse records before anything is computed, notes the
checksums and takes the look.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from onedraw.errors import TableError
from onedraw.private import Withheld
from onedraw.tables import base
from onedraw.tables.base import Block, Kernel, PairwiseSum, Prepare, Sums, chosen_rows, seed_of_look
from onedraw.types import Array

CHANGED = (
    "The table changed between two passes over it, so nothing is released. Fit again once it is at rest."
)


class Source(Protocol):
    """Where the pieces of a table come from."""

    @property
    def num_records(self) -> int:
        """How many records all pieces hold."""
        ...

    def pieces(self) -> Iterator[Any]:
        """The pieces, in an order that is always the same; raises ``TableError`` if they cannot be read."""
        ...


@dataclass(eq=False, repr=False)
class _Seen(Withheld):
    """What the first pass saw, shared by all tables that are prepared from one stream."""

    checksums: list[tuple[int, int]] | None = None
    chosen: NDArray[np.intp] | None = None
    look: Block | None = None
    scans: int = 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Stream(Withheld):
    """Records that are read from a ``source``, piece by piece.

    ``read`` turns a piece into a block of records, of which ``empty`` is one without any; ``prepared`` are
    maps of such blocks.
    """

    in_memory: ClassVar[bool] = False

    source: Source
    read: Prepare
    empty: Block
    prepared: tuple[Prepare, ...] = ()
    seen: _Seen = field(default_factory=_Seen)

    def __len__(self) -> int:
        """How many records; private where neighbours may differ in it."""
        return self.source.num_records

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self._made(self.empty).shape[1]

    @property
    def scans(self) -> int:
        """Passes over the records so far. Private: it depends on the data."""
        return self.seen.scans

    def map(self, prepare: Prepare) -> Stream:
        return replace(self, prepared=(*self.prepared, prepare))

    def sum(self, kernel: Kernel) -> Sums:
        total = PairwiseSum()
        with contextlib.closing(self._blocks()) as blocks:
            for block in blocks:
                total.add(kernel(self._made(block)))
        return total.result(kernel(self._made(self.empty)))

    def check(self, checks: Callable[[Any], None], rng: np.random.Generator) -> None:
        self.seen.chosen = chosen_rows(len(self), seed_of_look(len(self), rng))
        parts: list[Block] = []
        first = 0
        with contextlib.closing(self._blocks()) as blocks:
            for block in blocks:
                checks(block)
                here = self.seen.chosen
                low, high = np.searchsorted(here, [first, first + len(block)])
                parts.append(block.take(here[low:high] - first))
                first += len(block)
        if not first:
            checks(self.empty)
        self.seen.look = joined([self.empty, *parts])

    def settled(self) -> Any:
        return self.look(np.random.default_rng()) if len(self) <= base.LOOK else self

    def release(self) -> None:
        """Nothing: no process keeps records for a stream."""

    def look(self, rng: np.random.Generator) -> Any:
        if self.seen.look is None:
            self.check(lambda block: None, rng)
        look: Any = self.seen.look
        return self._made(look)

    def _made(self, block: Any) -> Any:
        for prepare in self.prepared:
            block = prepare(block)
        return block

    def _blocks(self) -> Generator[Any, None, None]:
        """The blocks of one pass, the next one read ahead, compared with those of the first pass."""
        self.seen.scans += 1
        noted: list[tuple[int, int]] = []
        known = self.seen.checksums
        with contextlib.closing(_ahead(map(self.read, self.source.pieces()))) as blocks:
            for block in blocks:
                noted.append((len(block), checksum(block)))
                if known is not None and noted[-1:] != known[len(noted) - 1 : len(noted)]:
                    raise TableError(CHANGED)
                yield block
        if sum(size for size, _ in noted) != len(self) or (known is not None and len(known) != len(noted)):
            raise TableError(CHANGED)
        self.seen.checksums = noted


def checksum(block: Any) -> int:
    """CRC-32 of the arrays of a block."""
    found = 0
    for value in vars(block).values():
        if isinstance(value, np.ndarray):
            raw: Any = np.ascontiguousarray(value)
            found = zlib.crc32(raw, found)
    return found


def joined(blocks: list[Any]) -> Any:
    """One block of the records of several."""
    names = [name for name, value in vars(blocks[0]).items() if isinstance(value, np.ndarray)]
    arrays: dict[str, Array] = {name: np.concatenate([vars(b)[name] for b in blocks]) for name in names}
    return replace(blocks[0], **arrays)


def _ahead(items: Iterator[Any]) -> Generator[Any, None, None]:
    """The items, the next of which is being made while one is in use."""
    waiting: queue.Queue[tuple[bool, Any]] = queue.Queue(maxsize=1)
    stop = threading.Event()

    def make() -> None:
        try:
            for item in items:
                if not _put(waiting, (True, item), stop):
                    return
            _put(waiting, (False, None), stop)
        except BaseException as error:  # whatever it is, it belongs to the reader
            _put(waiting, (False, error), stop)

    maker = threading.Thread(target=make, name="onedraw-reader", daemon=True)
    maker.start()
    try:
        while True:
            more, item = waiting.get()
            if more:
                yield item
                item = None  # two blocks in memory, not three
            elif item is None:
                return
            else:
                raise item
    finally:
        stop.set()
        maker.join()


def _put(waiting: queue.Queue[tuple[bool, Any]], item: tuple[bool, Any], stop: threading.Event) -> bool:
    """Whether the item was handed over before somebody stopped waiting for it."""
    while not stop.is_set():
        with contextlib.suppress(queue.Full):
            waiting.put(item, timeout=0.1)
            return True
    return False
