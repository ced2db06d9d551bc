# SPDX-License-Identifier: Apache-2.0
"""What is measured agrees with independent answers."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from onedraw.research.experiments.measures import auc


@pytest.mark.parametrize("digits", [1, 12])
def test_the_area_is_that_of_scikit_learn_with_and_without_ties(digits):
    rng = np.random.default_rng(0)
    scores, response = rng.normal(size=(4, 200)).round(digits), (rng.random(200) < 0.3).astype(float)
    expected = [roc_auc_score(response, row) for row in scores]
    assert auc(scores, response) == pytest.approx(expected, abs=1e-12)


def test_labels_that_are_all_alike_rank_nothing():
    assert np.isnan(auc(np.zeros((2, 3)), np.ones(3))).all()
