# SPDX-License-Identifier: Apache-2.0
"""A table whose blocks lie on the workers of a Dask cluster: only sums and the look come back.

Each partition is turned into a block on a worker, checked there and kept there. A pass sends the kernel to
the blocks and adds up what they return, in pairs and in the order of the partitions, so that a seed gives the
same draw on any number of workers.

The first pass over a table that was mapped prepares its blocks, and the workers keep these in place of those
they were made from: one copy of the records lies there, in the form that was asked for last. ``release`` ends
it. Who goes back to an earlier form, which no fit does as a rule, has the partitions read again.

Guarantee:
    What others can see on a shared scheduler are random task keys, one per partition for each pass and each
    form of the blocks, and how long they take: no name, log line or exception holds a record, a partition
    size, a partial sum or a parameter (an unrounded draw is one). Workers catch what goes wrong and return a
    code for it, as distributed would log the text. Folders that workers may spill to get mode 0700;
    distributed removes them. Arrays travel between workers and to the client as the scheduler's connections
    send them: use TLS where that matters.

    Every sum is over the records of the first pass: whatever is made of a partition, the first time or after
    a worker was lost, is made of records with the size and the checksum that were found then.

Edge cases:
    A block on a worker that is lost is read again from its partition, prepared again, and the sum goes on:
    the randomness stays with the client, so nothing can be drawn twice. Partitions that were scattered from a
    client cannot be read again; then, and if workers keep failing, ``TableError`` is raised and nothing is
    released.
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
    """The blocks on the workers, and what the first pass found; shared by all tables made of them."""

    client: Any
    partitions: Sequence[Any]
    read: Prepare
    shards: list[Any] = field(default_factory=list)
    """One for each partition: the records as ``prepared`` made them. None are held before and after a fit."""
    prepared: tuple[Prepare, ...] = ()
    asked: list[Any] = field(default_factory=list)
    """What workers were asked for and have not answered yet."""
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """The number of records of each, and their checksum."""
    look: Block | None = None
    scans: int = 0

    def blocks(self, wanted: tuple[Prepare, ...]) -> list[Any]:
        """The blocks as these maps make them, which workers keep from now on in place of those they had.

        A block is let go of as soon as the one made of it is there; the scheduler knows how to make both
        again. Maps are the same if they are one object.
        """
        known = len(self.prepared)
        if not self.shards or list(map(id, wanted[:known])) != list(map(id, self.prepared)):
            self.shards, self.prepared, known = self._from_partitions(), (), 0
        if rest := wanted[known:]:
            maps = Shard(rest)
            made = [
                self.kept(_prepare, maps, shard, Shard(None if known else seen))
                for shard, seen in zip(self.shards, self.sizes, strict=True)
            ]
            self.shards, self.prepared = made, wanted
        return self.shards

    def _from_partitions(self) -> list[Any]:
        distributed = optional("distributed", "Reading from a cluster", "dask")
        delayed = optional("dask", "Reading from a cluster", "dask").delayed
        made = [delayed(_read)(self.read, part, dask_key_name=_key()) for part in self.partitions]
        return [distributed.futures_of(part)[0] for part in self.client.persist(made)]

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What a worker will find, for ``gathered`` to fetch or to give up."""
        self.asked.append(self.kept(work, *arguments))
        return self.asked[-1]

    def kept(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What a worker will find and keep."""
        return self.client.submit(work, *arguments, key=_key(), pure=False, retries=3)

    def gathered(self, futures: list[Any]) -> list[Any]:
        """What the futures hold, or the first failure as an error."""
        try:
            found: list[Any] = self.client.gather(futures)
        except Exception:  # a lost worker too often, a partition that cannot be read again, no connection
            raise TableError(LOST) from None
        finally:
            self._give_up(self.asked)
        for result in found:
            if isinstance(result, Failure):
                kind = InvalidInput if result.code == REFUSED else TableError
                raise kind(result.message or LOST)
        return found

    def release(self) -> None:
        """Let the workers forget all of it, whatever else in this process still knows the futures."""
        self._give_up(self.asked)
        self._give_up(self.shards)

    @staticmethod
    def _give_up(futures: list[Any]) -> None:
        for future in futures:
            future.release()
        futures.clear()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Cluster(Withheld):
    """Records on the workers of a client; ``prepared`` are maps of blocks, ``empty`` is one of none."""

    in_memory: ClassVar[bool] = False

    held: _Held
    empty: Block
    prepared: tuple[Prepare, ...] = ()

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
        held = _Held(client=client, partitions=partitions, read=read)
        try:
            held.sizes = held.gathered([held.submit(_size, shard) for shard in held.blocks(())])
        except BaseException:  # nobody else could release what a traceback holds
            held.release()
            raise
        return cls(held=held, empty=empty)

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
        held = self.held
        held.scans += 1
        asked = Shard(kernel)  # part of each task: what is scattered dies with its worker
        level = [
            # Prepared blocks were compared as they were made, and are made again of what is compared again.
            held.submit(_sum, asked, shard, Shard(None if self.prepared else seen))
            for shard, seen in zip(held.blocks(self.prepared), held.sizes, strict=True)
            if seen[0]
        ]
        if not level:
            return kernel(self._made(self.empty))
        while len(level) > FAN:  # a power of two, so that the order is that of ``pairwise`` over all parts
            level = [held.submit(_add, *level[first : first + FAN]) for first in range(0, len(level), FAN)]
        return pairwise(part.content for part in held.gathered(level))

    def check(self, checks: Callable[[Any], None], rng: np.random.Generator) -> None:
        held = self.held
        held.scans += 1
        chosen = chosen_rows(len(self), seed_of_look(len(self), rng))
        edges = np.cumsum([0, *(size for size, _ in held.sizes)])
        asked, parts = Shard(checks), []
        if not len(self):
            checks(self.empty)
        for shard, first, last in zip(held.blocks(()), edges, edges[1:], strict=False):
            low, high = np.searchsorted(chosen, [first, last])
            parts.append(held.submit(_look, asked, shard, Shard(chosen[low:high] - first)))
        held.look = joined([self.empty, *(part.content for part in held.gathered(parts))])

    def look(self, rng: np.random.Generator) -> Any:
        if self.held.look is None:
            self.check(_nothing, rng)
        return self._made(self.held.look)

    def settled(self) -> Any:
        if len(self) > base.LOOK:
            return self
        look = self.look(np.random.default_rng())
        self.release()
        return look

    def release(self) -> None:
        self.held.release()

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
            with np.errstate(all="ignore"), base.one_thread():
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


def _prepare(prepared: Any, shard: Any, seen: Any) -> Any:
    def made(asked: Shard, held: Shard, known: Shard) -> Shard:
        block = _as_seen(held, known)
        for prepare in asked.content:
            block = prepare(block)
        return Shard(block)

    return _guarded(made)(prepared, shard, seen)


def _sum(kernel: Any, shard: Any, seen: Any) -> Any:
    def part(asked: Shard, held: Shard, known: Shard) -> Shard:
        return Shard(asked.content(_as_seen(held, known)))

    return _guarded(part)(kernel, shard, seen)


def _as_seen(held: Shard, known: Shard) -> Any:
    """The block, if it is the one that was first seen; of a block of other blocks nothing is known."""
    block = held.content
    if known.content is not None and (len(block), checksum(block)) != known.content:
        raise TableError("The table changed between two passes over it, so nothing is released.")
    return block


def _add(*parts: Any) -> Any:
    return _guarded(lambda *held: Shard(pairwise(part.content for part in held)))(*parts)


def _nothing(block: Any) -> None:
    """Refuses no block."""


# -- what the client does


def _key() -> str:
    """A key that tells nothing: those that dask makes hash the arguments."""
    return f"onedraw-{secrets.token_hex(12)}"


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
