# SPDX-License-Identifier: Apache-2.0
"""What tests of densities share."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def differs_as_it_says():
    """That a density's gradient at points (B, size) is that of central differences."""

    def check(density, free, step=1e-5):
        gradient = density(free)[1]
        for i, shift in enumerate(step * np.eye(free.shape[1])):
            numeric = (density(free + shift)[0] - density(free - shift)[0]) / (2.0 * step)
            np.testing.assert_allclose(gradient[:, i], numeric, rtol=1e-5, atol=1e-5)

    return check
