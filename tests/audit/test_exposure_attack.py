# SPDX-License-Identifier: Apache-2.0
"""An attack on published rates: one person is replaced, exposure and all, and the release must not tell."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from onedraw.audit.bounds import clopper_pearson, held_out_counts
from onedraw.audit.pairs import Pair
from onedraw.audit.releasing import releases
from onedraw.errors import InvalidInput
from onedraw.families import Poisson
from onedraw.mechanisms import Shape, TiltedFit
from onedraw.model import Offset, RegressionModel
from onedraw.privacy import Request
from onedraw.records import Records
from onedraw.tilted import terms
from onedraw.tilted.laws import CubeLaw

RUNS = 300


def people(counts, offsets):
    return Records(
        features=np.zeros((len(counts), 0)),
        response=np.array(counts, dtype=float),
        offset=np.array(offsets, dtype=float),
    )


def pair():
    """Many claims in no time, replaced by no claim in a very long time; the count of the other is 9 too."""
    return Pair(first=people([9, 9], [-6.0, -6.0]), second=people([9, 0], [-6.0, 6.0]))


def lower_bound():
    model = RegressionModel(family=Poisson(), features=(), offset=Offset(name="years", bounds=(0.1, 10.0)))
    mechanism = TiltedFit().calibrate(Request(epsilon=1.0), Shape(model=model))
    rng, both = np.random.default_rng(0), pair()
    first, second = (releases(mechanism, data, RUNS, rng)[:, 0] for data in (both.second, both.first))
    return clopper_pearson(held_out_counts(first, second)[1], confidence=0.9999).epsilon


@pytest.mark.statistical
def test_a_person_replaced_with_its_exposure_does_not_show(monkeypatch):
    """The bound exceeds the claim once in 10,000 seeds; a tilt an eighth as large is caught."""
    # One calibration for each cap, not for each release: it takes longer than all else.
    monkeypatch.setattr(terms, "calibrate", lru_cache(terms.calibrate))
    assert lower_bound() <= 1.0
    plain = CubeLaw.sample
    monkeypatch.setattr(CubeLaw, "sample", lambda self, rng: plain(replace(self, scale=self.scale / 8), rng))
    assert lower_bound() > 1.0


def test_pairs_differ_in_offsets_too():
    same = people([1, 2], [0.0, 0.5])
    assert Pair(first=same, second=people([1, 2], [0.0, 0.7])).neighbours == "replace_one"
    with pytest.raises(InvalidInput, match="differ in one record"):
        Pair(first=same, second=people([1, 2], [0.1, 0.7]))
