# SPDX-License-Identifier: Apache-2.0
"""A private choice whose counts are taken in the pass that already works with what will be chosen.

One stage of a fit makes a choice from sums over all records and noise; the next begins with sums that
depend on the choice: two passes. But a random look tells the sums nearly, and the noise is drawn already. So
the choice is *foreseen* from the look, the next stage begins with it, and its first pass takes both: the sums
that the choice is made from, and its own. Where the choice then turns out another one, the next stage is
begun anew with it, at the cost of a pass.

Guarantee:
    What is chosen is a function of the sums over all records and of its own noise, as without foresight: a
    choice that is only foreseen is never published, and ``staged`` does not return before it was confirmed.
    Whether it is confirmed depends on the records, the look and the noise of the choice, and not on what the
    next stage draws. So, given the choice, that has the law which the guarantee of the next stage assumes;
    nothing is published of what it drew for a choice that was not made. A seeded generator goes back to where
    the next stage began, unless a choice has asked it for noise since: no number serves two stages.

>>> import numpy as np
>>> from onedraw.design import Observed
>>> table = Observed(features=np.zeros((4, 0)), response=np.array([1.0, 5.0, 7.0, 9.0]))
>>> total = lambda block: (np.array([block.response.sum()]),)
>>> rng, mean = np.random.default_rng(), lambda most, table: most / len(table)
>>> staged(table, total, lambda sums: float(sums[0][0]), mean, rng)
5.5
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from onedraw.private import Withheld
from onedraw.tables.base import Kernel, Prepare, Sums, Table, Together

T = TypeVar("T")
R = TypeVar("R")


def staged(
    table: Table,
    kernel: Kernel,
    chosen: Callable[[Sums], T],
    then: Callable[[T, Any], R],
    rng: np.random.Generator,
    *,
    guess: T | None = None,
) -> R:
    """``then(chosen(table.sum(kernel)), table)``, where possible in one pass less.

    ``chosen`` must give the same for the same sums, so its noise must be drawn before. ``then`` is given the
    choice and a table, which it must read all records from. The choice is foreseen by ``chosen`` from the
    sums of the look, unless a ``guess`` says otherwise; the next stage is begun anew if they differ. In
    memory a pass costs less than foresight, and nothing is foreseen.
    """
    if table.in_memory:
        return then(chosen(table.sum(kernel)), table)
    if guess is None:
        look = table.look(rng)
        guess = chosen(scaled_up(look.sum(kernel), table.shape[0] / len(look)))
    choice = _Choice(table=table, kernel=kernel, chosen=chosen, foreseen=guess, rng=rng)
    before = _state(rng)
    try:
        found = then(guess, Foreseen(held=table, choice=choice))
        if not choice.confirmed:
            choice.confirm(table.sum(kernel))
    except _Otherwise as error:
        if error.choice is not choice:
            raise
        otherwise: T = error.value
    else:
        return found
    if before is not None and not choice.drew:
        rng.bit_generator.state = pickle.loads(before)
    return then(otherwise, table)


def _state(rng: np.random.Generator) -> bytes | None:
    """Of a seeded generator, so that a seed gives the release of memory; a secure one cannot go back."""
    try:
        return pickle.dumps(rng.bit_generator.state)
    except TypeError:
        return None


def scaled_up(sums: Sums, looks: float) -> Sums:
    """The sums of a look, as of all records."""
    return tuple(looks * part for part in sums)


@dataclass(eq=False, repr=False)
class _Choice(Withheld):
    """A choice that was foreseen, and the sums over the records of a table that will tell."""

    table: Table
    kernel: Kernel
    chosen: Callable[[Sums], Any]
    foreseen: Any
    rng: np.random.Generator
    confirmed: bool = False
    own: bool = False
    """Whether confirming it has asked the generator for noise."""

    @property
    def drew(self) -> bool:
        """Whether confirming it, or a choice around it, has asked the generator for noise."""
        return self.own or (isinstance(self.table, Foreseen) and self.table.choice.drew)

    def confirm(self, sums: Sums) -> None:
        """Raise if the choice is not the one that was foreseen."""
        before = _state(self.rng)
        value = self.chosen(sums)
        self.own = self.own or _state(self.rng) != before
        if value is not self.foreseen and value != self.foreseen:
            raise _Otherwise(self, value)
        self.confirmed = True


class _Otherwise(Exception):
    """Another choice than was foreseen; ``staged`` catches it."""

    def __init__(self, choice: _Choice, value: Any) -> None:
        super().__init__("Another choice was made than was foreseen.")
        self.choice, self.value = choice, value


@dataclass(frozen=True)
class After:
    """A kernel of prepared blocks."""

    prepared: tuple[Prepare, ...]
    kernel: Kernel

    def __call__(self, block: Any) -> Sums:
        for prepare in self.prepared:
            block = prepare(block)
        return self.kernel(block)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Foreseen(Withheld):
    """The table ``held``, made by ``prepared`` from that of a choice, which its first sum also confirms."""

    in_memory: ClassVar[bool] = False

    held: Table
    choice: _Choice
    prepared: tuple[Prepare, ...] = ()

    def __len__(self) -> int:
        """How many records; private where neighbours may differ in it."""
        return self.held.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        return self.held.shape

    def map(self, prepare: Prepare) -> Foreseen:
        return replace(self, held=self.held.map(prepare), prepared=(*self.prepared, prepare))

    def look(self, rng: np.random.Generator) -> Any:
        return self.held.look(rng)

    def sum(self, kernel: Kernel) -> Sums:
        choice = self.choice
        if choice.confirmed:
            return self.held.sum(kernel)
        sums = choice.table.sum(Together((choice.kernel, After(self.prepared, kernel))))
        asked, found = Together.split(sums)
        choice.confirm(asked)
        return found
