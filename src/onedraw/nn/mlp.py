# SPDX-License-Identifier: Apache-2.0
"""Private neural networks as scikit-learn estimators: one draw from a network's posterior.

Fitting needs the ``jax`` extra; predicting, and reading a release back, needs NumPy alone.

>>> model = MLPRegressor(epsilon=1.0)
>>> model.hidden_layer_sizes, model.activation
((10,), 'relu')
>>> model.get_params()["prior_scale"]
1.0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import special
from sklearn.utils.validation import check_is_fitted

from onedraw._validate import one_of, probability, whole
from onedraw.errors import InvalidInput
from onedraw.estimators import LinearRegression, LogisticRegression
from onedraw.estimators.base import PrivateRegression
from onedraw.estimators.linear import DEFAULT_FLOOR
from onedraw.estimators.offered import DEFAULT, refuse_unused
from onedraw.estimators.rebuild import REBUILDERS, fitted
from onedraw.ledger import Ledger
from onedraw.losses import BetaDivergence
from onedraw.model import Bounds, NetworkModel, unit_map
from onedraw.model.network import ACTIVATIONS
from onedraw.nn.mechanism import ChainSampler, NetworkSample
from onedraw.nn.noisy_gradients import NoisyGradients
from onedraw.nn.offered import BY_GRADIENTS, OPTIONS, build, options_of
from onedraw.priors import Prior, ScalePrior
from onedraw.release import Release
from onedraw.samplers.coupling import CoupledSampler
from onedraw.samplers.nuts import NutsSampler
from onedraw.types import AnyArray, Array
from onedraw.uncertainty import Intervals


class PrivateNetwork(PrivateRegression):
    """What the two networks add to the estimators whose responses they share."""

    _kinds: ClassVar[tuple[str, ...]] = (NetworkModel.kind,)

    hidden_layer_sizes: Any
    activation: str
    mechanism_options: Mapping[str, Any] | None
    sampler: ChainSampler | None
    assume_sampler_error: float

    def _set_network(
        self,
        hidden_layer_sizes: Any,
        activation: str,
        sampler: ChainSampler | None,
        error: float,
        mechanism: str,
        mechanism_options: Mapping[str, Any] | None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.sampler = sampler
        self.assume_sampler_error = error
        self.mechanism = mechanism
        self.mechanism_options = mechanism_options

    def _check_mechanism(self) -> None:
        one_of(OPTIONS, mechanism=self.mechanism)
        refuse_unused(self, OPTIONS)

    def _check_options(self) -> None:
        super()._check_options()
        self._hidden()
        one_of(ACTIVATIONS, activation=self.activation)
        whole(draws=self.draws, remedy="A network has no intervals, so draws='auto' is not for it.")
        probability(assume_sampler_error=self.assume_sampler_error)
        if self.sampler is not None and not isinstance(self.sampler, NutsSampler | CoupledSampler):
            raise InvalidInput(
                "Expected sampler to be an onedraw.nn.NutsSampler, an onedraw.nn.CoupledSampler or None, got "
                f"{type(self.sampler).__name__}."
            )

    def _hidden(self) -> tuple[int, ...]:
        sizes = self.hidden_layer_sizes
        listed = list(sizes) if np.iterable(sizes) and not isinstance(sizes, str) else [sizes]
        return tuple(whole(hidden_layer_sizes=size) for size in listed)

    def _outline(self) -> Any:
        outline = super()._outline()
        if outline.kind == NetworkModel.kind:
            return outline
        facts = {name: getattr(outline, name) for name in ("classes", "target_bounds", "scale_floor")}
        return self._network((), facts, None)

    def _model(self, facts: dict[str, Any], feature_bounds: tuple[Bounds, ...] | None) -> Any:
        return self._network(self._feature_names(), facts, feature_bounds)

    def _network(
        self, features: tuple[str, ...], facts: dict[str, Any], bounds: tuple[Bounds, ...] | None
    ) -> NetworkModel:
        known = {name: value for name, value in facts.items() if name != "kind"}
        return NetworkModel(
            features=features,
            hidden_layer_sizes=self._hidden(),
            activation=self.activation,
            feature_bounds=bounds,
            **known,
        )

    def _other_mechanism(self, model: Any, num_records: int) -> NoisyGradients:
        public_records = num_records if self._num_records_is_public() else None
        return build(self.mechanism, self, model=model, num_records=public_records)

    def _posterior_sample(self, model: Any, num_records: int) -> NetworkSample:
        noise = None if model.scale_floor is None else ScalePrior(floor=model.scale_floor)
        return NetworkSample(
            loss=BetaDivergence(model.family()),
            prior=Prior(scale=self.prior_scale, noise=noise),
            sampler=NutsSampler() if self.sampler is None else self.sampler,
            model=model,
            sampler_error=float(self.assume_sampler_error),
        )

    def _outputs(self, X: Any) -> Array:
        """What every released network says of the rows of X, (draws, n, outputs)."""
        features = self._read_new(X)
        model: NetworkModel = self.release_.model
        return model.outputs(np.array(self.release_.draws), features)

    def summary(self, level: float = 0.95) -> Intervals:
        """Refused: the weights of a network are not identified, so they have no intervals."""
        raise InvalidInput(
            "A network has no table of coefficients or intervals: its weights are not identified. Use "
            "predictions, or a linear model."
        )


class MLPClassifier(PrivateNetwork, LogisticRegression):
    """A neural network for classes, published with differential privacy as one draw of its posterior.

    The guarantee is that of ``LogisticRegression``: the loss of a record is bounded whatever the network
    says, so neither gradients nor features are clipped. It assumes that the Markov chain has converged.

    Args:
        mechanism: "beta_divergence" (one draw of the posterior), or by noisy gradients, with a delta > 0:
            "dp_sgd" (clipped), "beta_sgd" (bounded features) or "dp_vi" (a normal approximation).
        mechanism_options: settings of a mechanism by noisy gradients, a dict, for example of ``epochs``,
            ``clip`` or ``feature_norm`` (see docs/mechanisms.md).
        hidden_layer_sizes: units of each hidden layer, a number or a sequence.
        activation: "relu" or "tanh".
        prior_scale: standard deviation of the normal prior of every weight and bias, in working units.
        sampler: an ``onedraw.nn.NutsSampler`` with other settings than the default ones, or an
            ``onedraw.nn.CoupledSampler``.
        assume_sampler_error: gamma, an upper bound on the total-variation distance of a draw from the
            posterior that you are ready to assume; it adds (1 + exp(epsilon)) * draws * gamma to delta. 0
            assumes convergence.
        draws: how many networks to release together, at most as many as chains; predictions are averaged.

    The other parameters (epsilon, delta, beta, weight, neighbours, rows_per_person, classes, feature_bounds,
    ledger, dataset, random_state) are those of ``LogisticRegression``.

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        classes_: the classes.
        coefs_, intercepts_: weights and biases by layer, in original units, of the first draw.
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        mechanism: str = DEFAULT,
        mechanism_options: Mapping[str, Any] | None = None,
        hidden_layer_sizes: Any = (10,),
        activation: str = "relu",
        beta: float | str = "auto",
        weight: float | None = None,
        neighbours: str = "replace_one",
        rows_per_person: int = 1,
        prior_scale: float = 1.0,
        classes: Any = None,
        feature_bounds: Any = None,
        sampler: ChainSampler | None = None,
        assume_sampler_error: float = 0.0,
        draws: int = 1,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            beta=beta,
            weight=weight,
            neighbours=neighbours,
            rows_per_person=rows_per_person,
            prior_scale=prior_scale,
            classes=classes,
            feature_bounds=feature_bounds,
            draws=draws,
            ledger=ledger,
            dataset=dataset,
            random_state=random_state,
        )
        self._set_network(
            hidden_layer_sizes, activation, sampler, assume_sampler_error, mechanism, mechanism_options
        )

    def _outline(self) -> Any:
        if self.classes is None:  # no guarantee depends on how many there will be
            return self._network((), {"classes": (0, 1)}, None)
        return super()._outline()

    def _publish(self, release: Release) -> None:
        _publish_layers(self, release)
        self.classes_ = np.array(release.model.classes)

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, (n, K), averaged over the released networks."""
        outputs = self._outputs(X)
        family = self.release_.model.family()
        if len(self.classes_) == 2:
            positive = special.expit(outputs[:, :, 0]).mean(axis=0)
            return np.stack([1.0 - positive, positive], axis=1)
        shares: Array = special.softmax(outputs @ family.contrasts.T, axis=2)
        return np.asarray(shares.mean(axis=0))

    def decision_function(self, X: Any) -> Array:
        """Log odds (n,) for two classes, log probabilities (n, K) for more."""
        check_is_fitted(self, "release_")
        if len(self.classes_) == 2 and len(self.release_.draws) == 1:
            return np.asarray(self._outputs(X)[0, :, 0])
        shares = self.predict_proba(X)
        with np.errstate(divide="ignore"):
            return special.logit(shares[:, 1]) if len(self.classes_) == 2 else np.log(shares)

    def predict(self, X: Any) -> AnyArray:
        """The most probable class of each row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return self.classes_[codes]  # type: ignore[no-any-return]


class MLPRegressor(PrivateNetwork, LinearRegression):
    """A neural network for a continuous response, published with differential privacy as one draw.

    Residuals are Gaussian with an unknown scale above ``noise_floor``, as in ``LinearRegression``; the
    guarantee uses that floor. The squared scale has the prior inverse-gamma(1, 1).

    Args:
        noise_floor, noise_scale, target_bounds: as for ``LinearRegression``.

    The other parameters are those of ``MLPClassifier`` without ``classes``.

    Attributes:
        release_: the ``Release``, all that was learned from the data.
        coefs_, intercepts_: weights and biases by layer, in original units, of the first draw.
        scale_: the residual scale in units of y, of the first draw.
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        mechanism: str = DEFAULT,
        mechanism_options: Mapping[str, Any] | None = None,
        hidden_layer_sizes: Any = (10,),
        activation: str = "relu",
        beta: float | str = "auto",
        weight: float | None = None,
        neighbours: str = "replace_one",
        rows_per_person: int = 1,
        prior_scale: float = 1.0,
        feature_bounds: Any = None,
        target_bounds: Any = None,
        noise_floor: float | None = None,
        noise_scale: float | None = None,
        sampler: ChainSampler | None = None,
        assume_sampler_error: float = 0.0,
        draws: int = 1,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            beta=beta,
            weight=weight,
            neighbours=neighbours,
            rows_per_person=rows_per_person,
            prior_scale=prior_scale,
            feature_bounds=feature_bounds,
            target_bounds=target_bounds,
            noise_floor=noise_floor,
            noise_scale=noise_scale,
            draws=draws,
            ledger=ledger,
            dataset=dataset,
            random_state=random_state,
        )
        self._set_network(
            hidden_layer_sizes, activation, sampler, assume_sampler_error, mechanism, mechanism_options
        )

    def _facts(self) -> dict[str, Any]:
        """Every mechanism for networks fits a residual scale."""
        facts = super()._facts()
        return facts if facts["scale_floor"] is not None else {**facts, "scale_floor": DEFAULT_FLOOR}

    def _publish(self, release: Release) -> None:
        _publish_layers(self, release)
        self.scale_ = float(release.estimate.scale[0])

    def predict(self, X: Any) -> Array:
        """The mean response, (n,), averaged over the released networks."""
        return np.asarray(self._outputs(X)[:, :, 0].mean(axis=0))


def _publish_layers(estimator: Any, release: Release) -> None:
    estimate = release.estimate
    estimator.coefs_ = [weights[0] for weights in estimate.weights]
    estimator.intercepts_ = [biases[0] for biases in estimate.biases]


def _rebuild(release: Release) -> Any:
    """A fitted network from its release alone; the sampler's settings leave no trace but its statement."""
    model, guarantee = release.model, release.guarantee
    by_gradients = release.mechanism["name"] in BY_GRADIENTS
    gamma = float(release.mechanism.get("sampler_error") or 0.0)
    exact = guarantee.delta if gamma == 0.0 else 0.0
    options: dict[str, Any] = {
        "epsilon": guarantee.epsilon,
        "delta": exact,
        "hidden_layer_sizes": model.hidden_layer_sizes,
        "activation": model.activation,
        "neighbours": guarantee.neighbours,
        "rows_per_person": guarantee.rows_per_person,
        "feature_bounds": None if model.feature_bounds is None else list(model.feature_bounds),
        "assume_sampler_error": gamma,
        "draws": guarantee.draws,
    }
    if by_gradients:
        options |= options_of(release)
    else:  # the weight follows from beta and epsilon
        options |= {name: release.mechanism[name] for name in ("beta", "prior_scale")}
    if model.classes is not None:
        return fitted(MLPClassifier(**options, classes=list(model.classes)), release)
    unit = 1.0 if model.target_bounds is None else unit_map(model.target_bounds, True)[1]
    options |= {"target_bounds": model.target_bounds, "noise_floor": model.scale_floor * unit}
    return fitted(MLPRegressor(**options), release)


REBUILDERS[NetworkModel.kind] = _rebuild
