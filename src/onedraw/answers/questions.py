# SPDX-License-Identifier: Apache-2.0
"""Simple questions about a column, answered from one release: mean, proportion, rate, two groups.

Each is a regression by the tilted fit with an intercept, and for two groups a feature that tells them apart:
same guarantee, same relations, same ledger, same file.

*A mean* needs no model of the values. A value, held to its declared range, is a share of the way from one end
to the other, and the mean share is fitted as a proportion is (``losses.LogisticShares``): an intercept finds
it whatever the law of the values. How much they vary is released as well, so errors are robust ones. If the
values lie ``symmetric`` about their mean (the errors of a measurement), the linear model needs no range.

Guarantee:
    That of ``onedraw.mechanisms.TiltedFit``. Holding each record to a range by itself keeps neighbours
    neighbours.

Edge cases:
    No rows: refused where their number is public. What is too little for an interval is refused before the
    charge where public facts show it.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> answer = proportion(rng.random(20_000) < 0.3, epsilon=1.0, random_state=0)
>>> low, high = answer.interval()
>>> bool(0.28 < low < answer.estimate < high < 0.32), answer.kind
(True, 'proportion')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onedraw._random import generator
from onedraw._validate import one_of
from onedraw.advice import Do
from onedraw.answers.answer import Answer
from onedraw.errors import InvalidInput
from onedraw.estimators.bounds import check_bounds
from onedraw.estimators.discreet import numbers, unquoted
from onedraw.estimators.labels import codes, declared_classes
from onedraw.families import Bernoulli, Gaussian, Poisson
from onedraw.ledger import Ledger
from onedraw.mechanisms import Shape, TiltedFit
from onedraw.model import Bounds, RegressionModel
from onedraw.privacy import Request
from onedraw.private import Private
from onedraw.publishing import make_plan, publish, silent
from onedraw.records import Records, held
from onedraw.types import Array, Neighbours
from onedraw.uncertainty.categories import AGAINST, UNIT

HELD = "Values beyond the declared range count as its nearer end."
SYMMETRIC = "Values lie symmetric about their mean; otherwise the number is a robust centre of them."
KINDS = ("mean", "proportion", "rate")
SPREAD = 0.1
"""Of epsilon, for how much the values of a mean vary, and as much again for the curvature."""


def mean(
    values: Any,
    *,
    epsilon: float,
    bounds: Bounds | None = None,
    symmetric: bool = False,
    delta: float = 0.0,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    random_state: Any = None,
) -> Answer:
    """The mean of a column.

    Args:
        values: one number per record.
        bounds: the public range of the values, to which they are held; the narrower, the shorter
            the interval.
        symmetric: whether values may be taken to lie symmetric about their mean. Then no range is needed.
        epsilon, delta, neighbours, rows_per_person, ledger, dataset, random_state: as in the estimators.
    """
    return compare(
        values,
        None,
        of="mean",
        epsilon=epsilon,
        bounds=bounds,
        symmetric=symmetric,
        delta=delta,
        neighbours=neighbours,
        rows_per_person=rows_per_person,
        ledger=ledger,
        dataset=dataset,
        random_state=random_state,
    )


def proportion(
    values: Any,
    *,
    epsilon: float,
    label: Any = None,
    delta: float = 0.0,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    random_state: Any = None,
) -> Answer:
    """The share of records with a property.

    Args:
        values: True or False (or 1 and 0) per record; or any labels, with ``label``.
        label: the label whose share is asked for.
        epsilon, delta, neighbours, rows_per_person, ledger, dataset, random_state: as in the estimators.
    """
    return compare(
        values,
        None,
        of="proportion",
        epsilon=epsilon,
        label=label,
        delta=delta,
        neighbours=neighbours,
        rows_per_person=rows_per_person,
        ledger=ledger,
        dataset=dataset,
        random_state=random_state,
    )


def rate(
    counts: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    random_state: Any = None,
) -> Answer:
    """The mean count per record, if counts vary as Poisson ones do.

    Args:
        counts: one whole number per record.
        epsilon, delta, neighbours, rows_per_person, ledger, dataset, random_state: as in the estimators.
    """
    return compare(
        counts,
        None,
        of="rate",
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        rows_per_person=rows_per_person,
        ledger=ledger,
        dataset=dataset,
        random_state=random_state,
    )


def compare(
    values: Any,
    group: Any,
    *,
    of: str,
    epsilon: float,
    groups: Sequence[Any] | None = None,
    label: Any = None,
    bounds: Bounds | None = None,
    symmetric: bool = False,
    delta: float = 0.0,
    neighbours: Neighbours = "replace_one",
    rows_per_person: int = 1,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    random_state: Any = None,
) -> Answer:
    """A mean, proportion or rate of two groups, with the difference between them and its interval.

    Args:
        values: one value per record, as in ``mean``, ``proportion`` and ``rate``.
        group: the group of each record.
        of: "mean", "proportion" or "rate".
        groups: the two public labels of the groups, the baseline first.
        label: with "proportion", the label whose share is asked for.
        bounds, symmetric: as in ``mean``.
        epsilon, delta, neighbours, rows_per_person, ledger, dataset, random_state: as in the estimators.
    """
    request = Request(epsilon=epsilon, delta=delta, neighbours=neighbours, rows_per_person=rows_per_person)
    one_of(KINDS, of=of)
    for name, given, kind in (("label", label, "proportion"), ("bounds", bounds, "mean")):
        if given is not None and of != kind:
            raise InvalidInput(f"{name} is for a {kind}, got it with of={of!r}. Leave it out.")
    labels = None if group is None else _two(groups)
    if not len(values) and request.num_records_is_public:
        raise InvalidInput("There are no records to ask about. Use a column with rows.")
    rng, _ = generator(random_state)
    model, coded, assumptions = _asked(of, label, bounds, symmetric)
    features = () if labels is None else (f"{labels[1]}{AGAINST}{labels[0]}",)
    model = replace(model, features=features, feature_bounds=(UNIT,) if features else None)
    shape = Shape(model=model, num_records=len(values) if request.num_records_is_public else None)
    if model.shares:
        mechanism = TiltedFit(inference="robust", curvature_share=SPREAD)
    else:
        mechanism = TiltedFit(inference=True)
    try:
        plan = make_plan(request, mechanism, shape, assumptions=assumptions)
    except InvalidInput as refused:  # the options that it names are those of a fit
        raise InvalidInput(refused.facts, advice=Do("ask about more records, or with more epsilon")) from None

    def read() -> Private[Records]:
        with silent(), unquoted("values"):
            response = coded(np.asarray(values))
            design = np.zeros((len(response), 0)) if labels is None else _of_groups(labels, group)
            if response.ndim != 1 or len(design) != len(response):
                raise InvalidInput("Expected one value, and one group if any, per record.")
            return Private(Records(features=held(plan.model.scale_features(design)), response=held(response)))

    return Answer(
        publish(
            plan, read, ledger=ledger, dataset=dataset, random_state=None if random_state is None else rng
        )
    )


Coded = Callable[[Any], Array]


def _asked(
    of: str, label: Any, bounds: Bounds | None, symmetric: bool
) -> tuple[RegressionModel, Coded, tuple[str, ...]]:
    """The model of what is asked, how values become its response, and what that assumes."""
    if of == "rate":
        return RegressionModel(family=Poisson(), features=()), _numbers, ()
    if of == "proportion":
        classes = (0, 1) if label is None else (f"not {label}", f"{label}")
        return RegressionModel(family=Bernoulli(), features=(), classes=classes), _having(label), ()
    if symmetric and bounds is not None:
        raise InvalidInput("A mean is by its range or symmetric, got bounds and symmetric: leave one out.")
    if symmetric:
        linear = RegressionModel(family=Gaussian(), features=())
        return linear, _numbers, (SYMMETRIC,)
    if bounds is None:
        raise InvalidInput(
            "A mean needs the public range of the values, bounds=(low, high): without one, a single value "
            "could be as large as it likes. Set symmetric=True if values lie symmetric about their mean."
        )
    low, high = check_bounds(bounds, "bounds")
    return (
        RegressionModel(family=Bernoulli(), features=(), classes=(low, high), shares=True),
        _between(low, high),
        (HELD,),
    )


def _having(label: Any) -> Coded:
    def coded(values: Any) -> Array:
        if label is not None:
            return np.asarray(values == label, dtype=np.float64)
        try:
            return codes((0, 1), np.asarray(values).astype(np.float64))
        except (InvalidInput, TypeError, ValueError):
            raise InvalidInput(
                "Expected True or False (or 1 and 0) for each record, but some values are others.",
                advice=Do('name the label whose share is asked for, such as label="ill"'),
            ) from None

    return coded


def _numbers(values: Any) -> Array:
    try:
        return numbers(values)
    except InvalidInput:
        raise InvalidInput("Expected one number for each record, but some values are none.") from None


def _of_groups(labels: tuple[Any, ...], group: Any) -> Array:
    """0 or 1 (n, 1)."""
    try:
        return np.asarray(codes(labels, np.asarray(group))[:, None])
    except InvalidInput:
        raise InvalidInput(
            f"Expected every record to be of one of the groups {labels!r}, but some are of another.",
            advice=Do("leave those out beforehand"),
        ) from None


def _between(low: float, high: float) -> Coded:
    def coded(values: Any) -> Array:
        found = _numbers(values)
        if not np.isfinite(found).all():
            raise InvalidInput("Expected finite values, got others. Remove or impute them.")
        # In halves, as the width of two finite bounds may overflow.
        return np.clip((0.5 * np.clip(found, low, high) - 0.5 * low) / (0.5 * high - 0.5 * low), 0.0, 1.0)

    return coded


def _two(groups: Sequence[Any] | None) -> tuple[Any, ...]:
    """The declared labels of two groups."""
    if groups is None:
        raise InvalidInput(
            "Expected groups=(baseline, other), the two public labels: read off the data they would tell "
            "about it."
        )
    labels = declared_classes(groups)
    if len(labels) != 2 or any(AGAINST in str(one) for one in labels):
        raise InvalidInput(
            f"Expected groups to be two labels without {AGAINST.strip()!r} in them, got {groups!r}."
        )
    return labels
