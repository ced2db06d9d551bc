# SPDX-License-Identifier: Apache-2.0
"""From plain values back to the description of a model, by its form; nothing is executed.

>>> read_model({"form": "sites", "sites": [["rate", []]]}).parameter_names()
['rate']
"""

from __future__ import annotations

from typing import Any

from onedraw._validate import one_of
from onedraw.model.base import PublicModel
from onedraw.model.network import NetworkModel
from onedraw.model.regression import RegressionModel
from onedraw.model.sites import SitesModel

_READERS: dict[str, type[RegressionModel] | type[NetworkModel] | type[SitesModel]] = {
    reader.form: reader for reader in (RegressionModel, NetworkModel, SitesModel)
}


def read_model(values: dict[str, Any]) -> PublicModel:
    """The inverse of ``to_dict`` of any form of model."""
    return _READERS[one_of(_READERS, form=values["form"])].from_dict(values)
