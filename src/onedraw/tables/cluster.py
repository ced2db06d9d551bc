# SPDX-License-Identifier: Apache-2.0
"""A table whose blocks lie on the workers of a Dask cluster: only sums and the look come back.

Each partition is turned into a block on a worker, checked there and kept there. A pass sends the kernel to
the blocks and adds up what they return, in pairs and in the order of the partitions, so that a seed gives the
same draw on any number of workers.

Guarantee:
    What others can see on a shared scheduler are random task keys, one per partition and pass, and how long
    they take: no name, log line or exception holds a record, a partition size, a partial sum or a parameter
    (an unrounded draw is one). Workers catch what goes wrong and return a code for it, as distributed would
    log the text. Folders that workers may spill to get mode 0700; distributed removes them. Arrays travel
    between workers and to the client as the scheduler's connections send them: use TLS where that matters.

Edge cases:
    A block on a worker that is lost is read again from its partition, and the sum goes on: the randomness
    stays with the client, so nothing can be drawn twice. Partitions that were scattered from a client cannot
    be read again; then, and if workers keep failing, ``TableError`` is raised and nothing is released.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from onedraw._extras import optional
from onedraw.errors import InvalidInput, TableError
from onedraw.private import Withheld
from onedraw.tables import base
from onedraw.tables.base import Block, Kernel, Prepare, Sums, chosen_rows, pairwise, seed_of_look
from onedraw.tables.stream import checksum, joined

LOST = "The cluster could not finish a pass over the table, so nothing is released."
REFUSED, BROKEN = "refused", "broken"
TRIM_THRESHOLD, MMAP_THRESHOLD, KEPT = -1, -3, 1 << 25
"""Parameters of glibc's mallopt, and bytes up to which a worker keeps what it has."""
FAN = 32
"""Parts that are added in one go."""


class Shard:
    """A block as it lies on a worker. It can be moved to another worker, and shows nothing."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content

    def __repr__(self) -> str:
        return "Shard(...)"

    def __getstate__(self) -> Any:
        block = self.content
        return (type(block), dict(vars(block))) if isinstance(block, Block) else (None, block)

    def __setstate__(self, state: Any) -> None:
        kind, content = state
        self.content = content if kind is None else kind(**{k: v for k, v in content.items() if k[0] != "_"})


@dataclass(frozen=True)
class Failure:
    """What went wrong on a worker, in words that quote nothing."""

    code: str
    message: str = ""


@dataclass(eq=False, repr=False)
class _Held(Withheld):
    """The blocks on the workers, and what the first pass found."""

    shards: list[Any]
    sizes: list[tuple[int, int]]
    """The number of records of each, and their checksum."""
    look: Block | None = None
    scans: int = 0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Cluster(Withheld):
    """Records on the workers of ``client``; ``prepared`` are maps of blocks, ``empty`` is one of none."""

    in_memory: ClassVar[bool] = False

    client: Any
    held: _Held
    empty: Block
    prepared: tuple[Prepare, ...] = field(default=())

    @classmethod
    def of(cls, partitions: Sequence[Any], read: Prepare, empty: Block) -> Cluster:
        """From delayed partitions, each of which ``read`` turns into a block on a worker."""
        distributed = optional("distributed", "Reading from a cluster", "dask")
        try:
            client = distributed.get_client()
        except ValueError:
            raise InvalidInput(
                "There is no cluster to read this table with. Start one: distributed.Client(), or "
                "distributed.Client('tcp://...') with the address of a scheduler."
            ) from None
        client.register_plugin(_private_scratch(distributed))
        delayed = optional("dask", "Reading from a cluster", "dask").delayed
        made = [delayed(_read)(read, part, dask_key_name=_key()) for part in partitions]
        shards = [distributed.futures_of(part)[0] for part in client.persist(made)]
        found = _gathered(client, [_submit(client, _size, shard) for shard in shards])
        return cls(client=client, held=_Held(shards=list(shards), sizes=found), empty=empty)

    def __len__(self) -> int:
        """How many records; private where neighbours may differ in it."""
        return sum(size for size, _ in self.held.sizes)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self._made(self.empty).shape[1]

    @property
    def scans(self) -> int:
        """Passes over the records so far. Private: it depends on the data."""
        return self.held.scans

    def map(self, prepare: Prepare) -> Cluster:
        return replace(self, prepared=(*self.prepared, prepare))

    def sum(self, kernel: Kernel) -> Sums:
        self.held.scans += 1
        client = self.client
        asked = Shard((self.prepared, kernel))  # part of each task: what is scattered dies with its worker
        level = [
            _submit(client, _sum, asked, shard, Shard(seen))
            for shard, seen in zip(self.held.shards, self.held.sizes, strict=True)
            if seen[0]
        ]
        if not level:
            return kernel(self._made(self.empty))
        while len(level) > FAN:  # a power of two, so that the order is that of ``pairwise`` over all parts
            level = [
                _submit(client, _add, *level[first : first + FAN]) for first in range(0, len(level), FAN)
            ]
        return pairwise(part.content for part in _gathered(client, level))

    def check(self, checks: Callable[[Any], None], rng: np.random.Generator) -> None:
        self.held.scans += 1
        chosen = chosen_rows(len(self), seed_of_look(len(self), rng))
        edges = np.cumsum([0, *(size for size, _ in self.held.sizes)])
        asked, parts = Shard(checks), []
        if not len(self):
            checks(self.empty)
        for shard, first, last in zip(self.held.shards, edges, edges[1:], strict=False):
            low, high = np.searchsorted(chosen, [first, last])
            parts.append(_submit(self.client, _look, asked, shard, Shard(chosen[low:high] - first)))
        self.held.look = joined([self.empty, *(part.content for part in _gathered(self.client, parts))])

    def look(self, rng: np.random.Generator) -> Any:
        if self.held.look is None:
            self.check(_nothing, rng)
        return self._made(self.held.look)

    def settled(self) -> Any:
        return self.look(np.random.default_rng()) if len(self) <= base.LOOK else self

    def _made(self, block: Any) -> Any:
        for prepare in self.prepared:
            block = prepare(block)
        return block


# -- what runs on the workers


def _guarded(work: Callable[..., Any]) -> Callable[..., Any]:
    """Nothing that goes wrong is raised on a worker, which would log it; a failure is passed on as it is."""

    def safe(*arguments: Any) -> Any:
        for argument in arguments:
            if isinstance(argument, Failure):
                return argument
        try:
            with np.errstate(all="ignore"):
                return work(*arguments)
        except (InvalidInput, TableError) as error:
            return Failure(REFUSED if isinstance(error, InvalidInput) else BROKEN, error.facts)
        except Exception:
            return Failure(BROKEN)

    return safe


def _read(read: Prepare, partition: Any) -> Any:
    return _guarded(lambda part: Shard(read(part)))(partition)


def _size(shard: Any) -> Any:
    return _guarded(lambda held: (len(held.content), checksum(held.content)))(shard)


def _look(checks: Any, shard: Any, rows: Any) -> Any:
    def look(asked: Shard, held: Shard, places: Shard) -> Shard:
        if len(held.content):
            asked.content(held.content)
        return Shard(held.content.take(places.content))

    return _guarded(look)(checks, shard, rows)


def _sum(kernel: Any, shard: Any, seen: Any) -> Any:
    def part(asked: Shard, held: Shard, known: Shard) -> Shard:
        block = held.content
        if (len(block), checksum(block)) != known.content:
            raise TableError("The table changed between two passes over it, so nothing is released.")
        prepared, summed = asked.content
        for prepare in prepared:
            block = prepare(block)
        return Shard(summed(block))

    return _guarded(part)(kernel, shard, seen)


def _add(*parts: Any) -> Any:
    return _guarded(lambda *held: Shard(pairwise(part.content for part in held)))(*parts)


def _nothing(block: Any) -> None:
    """Refuses no block."""


# -- what the client does


def _key() -> str:
    """A key that tells nothing: those that dask makes hash the arguments."""
    return f"onedraw-{secrets.token_hex(12)}"


def _submit(client: Any, work: Callable[..., Any], *arguments: Any) -> Any:
    return client.submit(work, *arguments, key=_key(), pure=False, retries=3)


def _gathered(client: Any, futures: list[Any]) -> list[Any]:
    """What the futures hold, or the first failure as an error."""
    try:
        found: list[Any] = client.gather(futures)
    except Exception:  # a lost worker too often, a partition that cannot be read again, no connection
        raise TableError(LOST) from None
    for result in found:
        if isinstance(result, Failure):
            kind = InvalidInput if result.code == REFUSED else TableError
            raise kind(result.message or LOST)
    return found


def _keep_memory() -> None:
    """Let a worker use the memory of one array for the next.

    Distributed sets a threshold from which on memory is handed back at once; every piece of a pass then takes
    fresh pages, which made passes of 64 parameters 2.8 times dearer.
    """
    with contextlib.suppress(OSError, AttributeError):  # where there is no glibc
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, KEPT)
        library.mallopt(TRIM_THRESHOLD, 2 * KEPT)


def _private_scratch(distributed: Any) -> Any:
    """A plugin that closes the folder to which a worker may spill, also of workers that come later."""

    class PrivateScratch(distributed.WorkerPlugin):
        name = "onedraw-private-scratch"

        def setup(self, worker: Any) -> None:
            with contextlib.suppress(OSError):
                os.chmod(worker.local_directory, 0o700)
            _keep_memory()

    return PrivateScratch()
