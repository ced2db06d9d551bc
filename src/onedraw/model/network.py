# SPDX-License-Identifier: Apache-2.0
"""The public description of a released neural network, and its predictions in plain NumPy.

The working parameters are one vector: layer by layer the weights (inputs x outputs, row by row) and then the
biases, and last the residual scale of a regression. Public bounds of features and response only rescale the
first and the last layer, so a network in original units is a network of the same shape.

Edge cases:
    The weights of two draws have no mean (hidden units may be permuted), so the first draw stands for
    several in ``parameters``; predictions are averaged over all of them.

>>> import numpy as np
>>> from onedraw.families import Gaussian
>>> model = NetworkModel(family=Gaussian(), features=("age",), hidden_layer_sizes=(2,), activation="relu")
>>> model.parameter_names()
['w1[age,0]', 'w1[age,1]', 'b1[0]', 'b1[1]', 'w2[0,0]', 'w2[1,0]', 'b2[0]', '(scale)']
>>> model.outputs(np.array([[1.0, -1.0, 0.0, 0.0, 2.0, 1.0, 0.5, 0.1]]), np.array([[3.0], [-3.0]]))
array([[[6.5],
        [3.5]]])
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import one_of, whole
from onedraw.errors import InvalidInput
from onedraw.families import Family, read_family
from onedraw.model.base import (
    Bounds,
    check_count,
    check_feature_bounds,
    check_labels,
    facts_from_json,
    facts_to_json,
    feature_map,
    response_to_working,
    to_working,
    unit_map,
)
from onedraw.types import Array

ACTIVATIONS = ("relu", "tanh")


@dataclass(frozen=True)
class Layers:
    """Layer sizes of a network."""

    inputs: int
    hidden: tuple[int, ...]
    outputs: int

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """(inputs, outputs) of every layer."""
        sizes = (self.inputs, *self.hidden, self.outputs)
        return list(itertools.pairwise(sizes))

    @property
    def size(self) -> int:
        """The number of weights and biases."""
        return sum((inputs + 1) * outputs for inputs, outputs in self.sizes)

    def unpack(self, theta: Any) -> list[tuple[Any, Any]]:
        """(weights (..., inputs, outputs), biases (..., outputs)) of every layer of vectors (..., p).

        Works on NumPy and JAX arrays alike; further entries of the vectors are left alone.
        """
        layers, start = [], 0
        for inputs, outputs in self.sizes:
            middle = start + inputs * outputs
            weights = theta[..., start:middle].reshape((*theta.shape[:-1], inputs, outputs))
            layers.append((weights, theta[..., middle : middle + outputs]))
            start = middle + outputs
        return layers


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkParameters:
    """Draws in original units: weights (k, inputs, outputs) and biases (k, outputs) by layer, scale (k,)."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    scale: Array | None

    def flat(self) -> Array:
        """(k, p): layer by layer weights and biases, then the scale."""
        columns = []
        for weights, biases in zip(self.weights, self.biases, strict=True):
            columns += [weights.reshape(len(weights), -1), biases]
        if self.scale is not None:
            columns.append(self.scale[:, None])
        return np.concatenate(columns, axis=1)


@dataclass(frozen=True, kw_only=True)
class NetworkModel:
    """A network's public facts: what it predicts, from which features, in which units, in which shape."""

    family: Family
    """Of the response in working units; a family with a scale has it as the last parameter."""
    features: tuple[str, ...]
    hidden_layer_sizes: tuple[int, ...]
    activation: str = "relu"
    classes: tuple[Any, ...] | None = None
    feature_bounds: tuple[Bounds, ...] | None = None
    target_bounds: Bounds | None = None

    form: ClassVar[str] = "network"
    kind: ClassVar[str] = "network"
    fit_intercept: ClassVar[bool] = True

    def __post_init__(self) -> None:
        one_of(ACTIVATIONS, activation=self.activation)
        for size in self.hidden_layer_sizes:
            whole(hidden_layer_size=size)
        if (self.classes is None) != self.has_scale:
            raise InvalidInput(
                "Expected classes for a classifier and none for a regression, got "
                f"classes={self.classes!r} with the {self.family.name} family."
            )
        if self.classes is not None:
            check_labels(self.classes)
            check_count(self.family, self.classes)
        if len(set(self.features)) < len(self.features):
            raise InvalidInput("Expected every feature to have a name of its own. Rename the features.")
        check_feature_bounds(self.feature_bounds, self.features)

    @property
    def has_scale(self) -> bool:
        """Whether a residual scale is among the parameters."""
        return self.family.has_scale

    @property
    def scale_floor(self) -> float | None:
        """The smallest residual scale, in working units; None for a classifier."""
        return self.family.scale_floor if self.has_scale else None

    @property
    def num_features(self) -> int:
        return len(self.features)

    @property
    def target_unit(self) -> float:
        """How many units of the response make one working unit."""
        return 1.0 if self.target_bounds is None else unit_map(self.target_bounds, True)[1]

    @property
    def layers(self) -> Layers:
        return Layers(self.num_features, self.hidden_layer_sizes, self.family.num_predictors)

    @property
    def dim(self) -> int:
        return self.layers.size + int(self.has_scale)

    def parameter_names(self) -> list[str]:
        """``w1[age,0]`` is the weight of feature age in hidden unit 0, ``b2[0]`` the bias of output 0."""
        names = []
        for number, (inputs, outputs) in enumerate(self.layers.sizes, start=1):
            sources = self.features if number == 1 else range(inputs)
            names += [f"w{number}[{source},{j}]" for source in sources for j in range(outputs)]
            names += [f"b{number}[{j}]" for j in range(outputs)]
        return names if not self.has_scale else [*names, "(scale)"]

    def check_response(self, response: Array) -> None:
        """Refuse responses that cannot be, quoting none of them."""
        self.family.check_response(response)

    def with_scale(self, family: Family) -> NetworkModel:
        """The same model with this family, whose scale is among the parameters."""
        return replace(self, family=family)

    # -- units

    def scale_features(self, features: Array) -> Array:
        """Features in working units, not clipped."""
        return to_working(features, self.feature_bounds, True)

    def scale_response(self, response: Array) -> Array:
        """The response in working units, not clipped."""
        return response_to_working(response, self.target_bounds, True)

    def original_units(self, draws: Array) -> NetworkParameters:
        """Working draws (k, p), with the scale itself as last column of a regression, in original units."""
        layers = [(weights.copy(), biases.copy()) for weights, biases in self.layers.unpack(draws)]
        scale = None if not self.has_scale else draws[:, -1]
        centre, half = feature_map(self.feature_bounds, self.num_features, True)
        first, bias = layers[0]
        first = first / half[:, None]
        layers[0] = (first, bias - np.einsum("d,kdh->kh", centre, first))
        if self.target_bounds is not None:
            target_centre, target_half = unit_map(self.target_bounds, True)
            last, bias = layers[-1]
            layers[-1] = (last * target_half, bias * target_half + target_centre)
            scale = None if scale is None else scale * target_half
        weights, biases = zip(*layers, strict=True)
        return NetworkParameters(weights=weights, biases=biases, scale=scale)

    def typical(self, draws: Array) -> Array:
        """The first draw: weights of two networks have no meaningful mean."""
        return draws[:1]

    def outputs(self, draws: Array, features: Array) -> Array:
        """What networks (k, p) in working units say of features (n, d) in original units, (k, n, q).

        In the units of the response for a regression; the linear predictors of the family otherwise.
        """
        values = forward(self.layers, self.activation, draws, self.scale_features(features))
        if self.target_bounds is not None:
            centre, half = unit_map(self.target_bounds, True)
            values = values * half + centre
        return values

    # -- JSON

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "form": self.form,
            "kind": self.kind,
            "family": self.family.to_dict(),
            "hidden_layer_sizes": list(self.hidden_layer_sizes),
            "activation": self.activation,
            **facts_to_json(self),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> NetworkModel:
        """The inverse of ``to_dict``."""
        return cls(
            family=read_family(values["family"]),
            hidden_layer_sizes=tuple(values["hidden_layer_sizes"]),
            activation=values["activation"],
            **facts_from_json(values),
        )


def forward(layers: Layers, activation: str, draws: Array, features: Array) -> Array:
    """Outputs (k, n, q) of networks (k, p) at features (n, d), all in working units."""
    *hidden, (last, last_bias) = layers.unpack(draws)
    values: Array = np.broadcast_to(features, (len(draws), *features.shape))
    for weights, biases in hidden:
        values = values @ weights + biases[:, None, :]
        values = np.maximum(values, 0.0) if activation == "relu" else np.tanh(values)
    return np.asarray(values @ last + last_bias[:, None, :])


def probe_points(count: int, dimension: int) -> Array:
    """Public points (count, dimension) that fill [-1, 1]^d evenly: an additive recurrence, not random."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (dimension + 1.0))
    steps = root ** -np.arange(1.0, dimension + 1.0)
    return 2.0 * np.mod(0.5 + np.arange(1.0, count + 1.0)[:, None] * steps, 1.0) - 1.0
