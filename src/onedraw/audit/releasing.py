# SPDX-License-Identifier: Apache-2.0
"""What leaves a mechanism, as often as an attack asks for it.

An audit looks at what ``onedraw.publishing.publish`` lets out, so it publishes, on made-up records and
without a ledger. A release takes a few tenths of a millisecond more than its computation alone, which is
little beside the certainty that published numbers, and all of them, are what is attacked.

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

from typing import Any

import numpy as np

from onedraw.mechanisms import Mechanism
from onedraw.private import Private
from onedraw.publishing import Plan, publish
from onedraw.records import Records
from onedraw.release import Release
from onedraw.types import Array


def release(mechanism: Mechanism, records: Records, random_state: Any) -> Release:
    """One release of a calibrated mechanism on the records."""
    return publish(Plan(mechanism=mechanism), lambda: Private(records), random_state=random_state)


def released(mechanism: Mechanism, records: Records, random_state: Any) -> Array:
    """The draws (k, p) of one release."""
    return np.array(release(mechanism, records, random_state).draws)


def releases(mechanism: Mechanism, records: Records, num: int, rng: np.random.Generator) -> Array:
    """The values (num, p) of as many releases; of several draws, their mean."""
    found = [released(mechanism, records, rng).mean(axis=0) for _ in range(num)]
    return np.array(found).reshape(num, -1)
