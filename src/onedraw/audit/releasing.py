# SPDX-License-Identifier: Apache-2.0
"""What leaves a mechanism, many times over: the published values without the document around them.

An audit looks at what ``onedraw.publishing.publish`` lets out, and an attack does so thousands of times on
the same made-up records. So it asks the mechanism to check the records and to compute, as ``publish`` does,
and skips what concerns one real release: ledger, assumptions, evidence and the document. With the same seed
the values are those of ``publish``, which a test compares.

>>> from onedraw.families import Bernoulli
>>> from onedraw.mechanisms import BetaBernoulliSSP, Shape
>>> from onedraw.model import RegressionModel
>>> from onedraw.privacy import Request
>>> model = RegressionModel(family=Bernoulli(), features=())
>>> mechanism = BetaBernoulliSSP(draws=3).calibrate(Request(epsilon=1.0), Shape(model=model))
>>> records = Records(features=np.zeros((5, 0)), response=np.ones(5))
>>> released(mechanism, records, np.random.default_rng(0)).shape
(3, 1)
"""

from __future__ import annotations

import numpy as np

from onedraw.mechanisms import Mechanism
from onedraw.mechanisms.base import Computed
from onedraw.private import Private
from onedraw.publishing import silent
from onedraw.records import Records
from onedraw.types import Array


def computed(mechanism: Mechanism, records: Records, rng: np.random.Generator) -> Computed:
    """All numbers of one release on the records: draws and statistics, on their public grids."""
    with silent():
        mechanism.check_records(records)
        return mechanism.compute(Private(records), rng)


def released(mechanism: Mechanism, records: Records, rng: np.random.Generator) -> Array:
    """The draws (k, p) of one release on the records."""
    return np.array(computed(mechanism, records, rng).draws)


def releases(mechanism: Mechanism, records: Records, num: int, rng: np.random.Generator) -> Array:
    """The values (num, p) of as many releases; of several draws, their mean."""
    found = [released(mechanism, records, rng).mean(axis=0) for _ in range(num)]
    return np.array(found).reshape(num, -1)
