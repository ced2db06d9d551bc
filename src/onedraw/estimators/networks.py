# SPDX-License-Identifier: Apache-2.0
"""Private neural networks as scikit-learn estimators: by default one draw from a network's posterior.

Fitting needs the ``jax`` extra; predicting, and reading a release back, needs NumPy alone.

>>> model = MLPRegressor(epsilon=1.0)
>>> model.hidden_layer_sizes, model.activation
((10,), 'relu')
>>> sorted(set(MLPClassifier().get_params()) - set(model.get_params()))
['classes']
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from onedraw._validate import one_of, whole
from onedraw.errors import InvalidInput
from onedraw.estimators.base import PrivateEstimator
from onedraw.estimators.classification import Classification
from onedraw.estimators.discreet import numbers
from onedraw.estimators.labels import class_family
from onedraw.families import Family, Gaussian
from onedraw.model import Bounds, NetworkModel
from onedraw.model.network import ACTIVATIONS
from onedraw.release import Release
from onedraw.types import AnyArray, Array


@dataclass(kw_only=True, eq=False, repr=False)
class Network(PrivateEstimator):
    """Base of the networks: their layers, and what released networks say of new rows.

    Args:
        hidden_layer_sizes: units of each hidden layer, a number or a sequence; () for none.
        activation: "relu" or "tanh".
    """

    hidden_layer_sizes: Any = field(
        default=(10,), metadata={"help": "Units of each hidden layer, such as 10 or 10,5, or none."}
    )
    activation: str = field(
        default="relu", metadata={"help": "Between the layers of a network.", "choices": tuple(ACTIVATIONS)}
    )

    form: ClassVar[str] = NetworkModel.form

    def _described(
        self,
        family: Family,
        features: tuple[str, ...],
        *,
        classes: tuple[Any, ...] | None = None,
        target_bounds: Bounds | None = None,
    ) -> NetworkModel:
        """The public description of a network with this family."""
        sizes = self.hidden_layer_sizes
        listed = list(sizes) if np.iterable(sizes) and not isinstance(sizes, str) else [sizes]
        return NetworkModel(
            family=family,
            features=features,
            hidden_layer_sizes=tuple(whole(hidden_layer_sizes=size) for size in listed),
            activation=one_of(ACTIVATIONS, activation=self.activation),
            classes=classes,
            feature_bounds=self._bounds(features),
            target_bounds=target_bounds,
        )

    def _learn(self, release: Release) -> None:
        estimate = release.estimate
        self.coefs_ = [weights[0] for weights in estimate.weights]
        self.intercepts_ = [biases[0] for biases in estimate.biases]

    def _outputs(self, X: Any) -> Array:
        """What every released network says of the rows of X, (draws, n, outputs)."""
        features = self._read_new(X)
        model: NetworkModel = self.release_.model
        return model.outputs(np.array(self.release_.draws), features)

    def summary(self, level: float = 0.95) -> NoReturn:
        """Refused: the weights of a network are not identified, so they have no intervals."""
        raise InvalidInput(
            "A network has no table of coefficients or intervals: its weights are not identified. Use "
            "predictions, or a linear model."
        )

    conf_int = summary


@dataclass(kw_only=True, eq=False, repr=False)
class MLPClassifier(ClassifierMixin, Classification, Network):
    """A neural network for classes, published with differential privacy.

    By default it is one draw of its posterior (``onedraw.nn.NetworkDraw``): the loss of a record is bounded
    whatever the network says, so neither gradients nor features are clipped. That assumes that the Markov
    chain has converged. Noisy gradients (``onedraw.nn.DPSGD``, ``BetaSGD``, ``DPVI``) need a delta > 0 and
    assume nothing of the kind.

    Args:
        hidden_layer_sizes: units of each hidden layer, a number or a sequence; () for none.
        activation: "relu" or "tanh".
        classes: the public set of classes; by default those seen in y, which the release then lists as an
            assumption.
        draws: how many networks to release together, at most as many as chains; predictions are averaged.

    The other parameters are those of every estimator, as listed for ``LogisticRegression``.

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        plan_: the ``Plan`` that it kept, made of public facts.
        classes_: the classes.
        coefs_, intercepts_: weights and biases by layer, in original units, of the first draw.
    """

    kinds: ClassVar[tuple[str, ...]] = ("mlp-classifier",)

    def _model(self, features: tuple[str, ...], classes: tuple[Any, ...] | None) -> Any:
        assert classes is not None
        return self._described(class_family(len(classes)), features, classes=classes)

    def _learn(self, release: Release) -> None:
        super()._learn(release)
        self.classes_ = np.array(release.model.classes)

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, (n, K), averaged over the released networks."""
        outputs = self._outputs(X)
        if len(self.classes_) == 2:
            positive = special.expit(outputs[:, :, 0]).mean(axis=0)
            return np.stack([1.0 - positive, positive], axis=1)
        shares: Array = special.softmax(outputs @ self.release_.model.family.contrasts.T, axis=2)
        return np.asarray(shares.mean(axis=0))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def decision_function(self, X: Any) -> Array:
        """Log odds (n,) for two classes, log probabilities (n, K) for more."""
        check_is_fitted(self, "release_")
        if len(self.classes_) > 2:
            return self.predict_log_proba(X)
        if len(self.release_.draws) == 1:
            return np.asarray(self._outputs(X)[0, :, 0])
        return np.asarray(special.logit(self.predict_proba(X)[:, 1]))

    def predict(self, X: Any) -> AnyArray:
        """The most probable class of each row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return self.classes_[codes]  # type: ignore[no-any-return]


@dataclass(kw_only=True, eq=False, repr=False)
class MLPRegressor(RegressorMixin, Network):
    """A neural network for a continuous response, published with differential privacy.

    Residuals are normal with an unknown scale above the mechanism's ``noise_floor``, and the guarantee of the
    default, one draw of the posterior, uses that floor. The squared scale has the prior inverse-gamma(1, 1).

    Args:
        hidden_layer_sizes: units of each hidden layer, a number or a sequence; () for none.
        activation: "relu" or "tanh".
        target_bounds: a public plausible range of y, which centres and rescales it. Not a clip.
        draws: how many networks to release together, at most as many as chains; predictions are averaged.

    The other parameters are those of every estimator, as listed for ``LogisticRegression``.

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        plan_: the ``Plan`` that it kept, made of public facts.
        coefs_, intercepts_: weights and biases by layer, in original units, of the first draw.
        scale_: the residual scale in units of y, of the first draw.
    """

    target_bounds: Any = None

    kinds: ClassVar[tuple[str, ...]] = ("mlp-regressor",)

    def _model(self, features: tuple[str, ...], classes: tuple[Any, ...] | None) -> Any:
        return self._described(Gaussian(), features, target_bounds=self._target_bounds())

    def _coded(self, y: AnyArray, model: Any) -> Array:
        return numbers(y)

    def _learn(self, release: Release) -> None:
        super()._learn(release)
        self.scale_ = float(release.estimate.scale[0])

    def predict(self, X: Any) -> Array:
        """The mean response, (n,), averaged over the released networks."""
        return np.asarray(self._outputs(X)[:, :, 0].mean(axis=0))
