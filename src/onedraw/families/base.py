# SPDX-License-Identifier: Apache-2.0
"""What a family of conditional distributions f(y | eta, scale) must answer.

A family is the statistical half of a model, and one object. Given the linear predictor ``eta`` (and, for
families that have one, the ``scale``) it knows the density of the response, the beta-divergence loss with
its derivatives and its certificate, which responses are possible, where a search should start, which public
reference chooses beta, and what intervals need. It knows nothing of features, priors, weights or data. No
other module asks which family it has: adding one takes a file of its own and a line of ``registry``.

**The loss.** With b = beta - 1 > 0 and I = sum or integral of f^beta over all responses,

    loss(y, eta) = (1 - f(y)^b) / b - (1 - I) / beta.

This is the beta-divergence loss -f^b/b + I/beta plus the constant 1/b - 1/beta, which changes no
posterior, and buys two things: as beta -> 1 it *is* the negative log density (no 1/b to cancel), and
for a probability mass function it lives in exactly [0, 1/b].

Shapes: ``eta`` is (rows, columns), one column per parameter value; ``y`` is (rows, 1), or anything
that broadcasts; ``scale`` is a scalar or (1, columns). Families with several predictors (the
categorical) take ``eta`` as (predictors, rows, columns). Results have the broadcast shape.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from onedraw._validate import positive, whole
from onedraw.errors import InvalidInput
from onedraw.families.cells import Cell
from onedraw.families.certificate import LossBounds, bounded_density_bounds, mass_function_bounds
from onedraw.families.reference import ReferenceTable, gauss_hermite, reference_table
from onedraw.types import AnyArray, Array

SMALL_B = 0.05
"""Below this b = beta - 1, differences such as 1 - f^b are formed with expm1 to keep their digits."""


@dataclass(frozen=True, kw_only=True)
class Derivatives:
    """A function's value and partial derivatives in the linear predictor and the scale.

    ``d2_*`` are filled only where second derivatives were asked for, ``*_scale`` only for families
    with a scale. For several predictors ``d_eta`` is (q, rows, columns) and ``d2_eta`` (q, q, rows, columns).
    Where the function has kinks, ``d2_eta`` is a number whose expectation at the model is the curvature of
    the expected function, in which kinks count.
    """

    value: Array
    d_eta: Array
    d2_eta: Array | None = None
    d_scale: Array | None = None
    d2_scale: Array | None = None
    d_eta_scale: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Option:
    """A public constant of a family that users may set: which field it fills, and with what by default."""

    field: str
    default: float
    about: str
    minimum: int | None = None
    """The smallest allowed value of a whole number; None for positive real numbers."""

    def check(self, name: str, value: object) -> None:
        """Refuse a value out of range, by the name that users know the option by."""
        if self.minimum is None:
            positive(remedy="", **{name: value})
        else:
            whole(minimum=self.minimum, remedy="", **{name: value})


class Family(ABC):
    """A conditional distribution of one response given its linear predictor.

    Subclasses are frozen dataclasses. All methods are pure and vectorised, and stay finite for
    ``|eta|`` up to 1e4 and beta - 1 from 1e-8 to 20.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    """What users call a regression with such responses; several families may share it."""
    errors: ClassVar[str | None] = None
    """For a linear regression, the law of its errors, which tells the families of that kind apart."""
    options: ClassVar[Mapping[str, Option]] = MappingProxyType({})
    """The public constants of the family, by the names that ``calibrate`` and the command know them by."""
    has_kinks: ClassVar[bool] = False
    """Whether the density has kinks; ``Derivatives`` says what second derivatives are then."""
    has_scale: ClassVar[bool] = False
    scale_floor: float | None = None
    """The smallest scale; None for families without one."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; ``read_family`` is the inverse."""
        constants = fields(self)  # type: ignore[arg-type]  # subclasses are dataclasses
        return {"name": self.name, **{field.name: getattr(self, field.name) for field in constants}}

    @abstractmethod
    def describe(self, classes: tuple[Any, ...] | None = None) -> str:
        """Which regression this is and what its coefficients are of, in words."""

    # -- the linear predictors

    @property
    def num_predictors(self) -> int:
        """How many linear predictors one record has (1, except for the categorical family)."""
        return 1

    vector_predictor: ClassVar[bool] = False
    """Whether ``eta`` has a leading axis for several predictors."""

    @property
    def contrasts(self) -> Array:
        """The matrix (outputs, predictors) that turns linear predictors into what is reported; read-only."""
        return _IDENTITY

    @abstractmethod
    def mean(self, eta: Array) -> Array:
        """The inverse link: the mean, or the probability of each class along a new first axis.

        For symmetric errors it is the centre, which is the mean where there is one.
        """

    # -- the density and its loss

    @property
    @abstractmethod
    def log_sup_density(self) -> float:
        """log M, where M is the supremum of the density over responses, predictors and scales."""

    @abstractmethod
    def log_density(self, y: Array, eta: Array, scale: Array | None = None) -> Array:
        """log f(y | eta, scale)."""

    @abstractmethod
    def log_density_derivatives(self, y: Array, eta: Array, scale: Array | None = None) -> Derivatives:
        """log f with first and second derivatives."""

    @abstractmethod
    def power_integral(self, eta: Array, beta: float, scale: Array | None = None) -> Array:
        """I = integral (or sum) of f(u | eta, scale)^beta over all responses u."""

    @abstractmethod
    def beta_loss(self, y: Array, eta: Array, beta: float, scale: Array | None = None) -> Array:
        """The loss of the module docstring; the hot path of every sampler."""

    @abstractmethod
    def beta_loss_derivatives(
        self, y: Array, eta: Array, beta: float, scale: Array | None = None, *, order: int = 2
    ) -> Derivatives:
        """The loss with derivatives up to ``order`` (1 or 2)."""

    def loss_bounds(self, beta: float) -> LossBounds:
        """The certificate of the loss, proved in ``certificate``: by default that of a bounded density."""
        return bounded_density_bounds(beta, self.log_sup_density)

    def slope_bound(self, beta: float) -> float:
        """The largest size of the derivative of the loss in its linear predictor; infinite if none is
        known."""
        return math.inf

    def log_loss_range(self, predictor_bound: float) -> tuple[float, float]:
        """The smallest and largest -log f where no linear predictor exceeds ``predictor_bound`` in size.

        By default there is no upper bound, so the loss cannot be released privately.
        """
        return -self.log_sup_density, math.inf

    # -- responses

    response: ClassVar[str]
    """What the responses are, to go on with after "Expected a response of"."""
    response_remedy: ClassVar[str]

    @abstractmethod
    def in_support(self, y: Array) -> AnyArray:
        """Whether each response is possible."""

    def check_response(self, y: Array) -> None:
        """Raise ``InvalidInput`` if ``y`` is not in the support (without quoting any value of it)."""
        if not self.in_support(np.asarray(y)).all():
            raise InvalidInput(
                f"Expected a response of {self.response}, but some values are not. {self.response_remedy}"
            )

    @abstractmethod
    def sample(self, eta: Array, rng: np.random.Generator, scale: Array | None = None) -> Array:
        """Responses drawn from the model, for simulation and planning; never from private data."""

    def signs(self, y: Array) -> Array | None:
        """s = +-1 with f(y | eta) = f(0 | s eta) and the same power integral; None if there are none."""
        return None

    @abstractmethod
    def rough_predictor(self, y: Array) -> Array:
        """A linear predictor under which each response is likely: where a search for modes may start."""

    # -- the public reference that chooses beta, see ``onedraw.privacy.reference``

    largest_beta: ClassVar[float] = 3.0
    """Where the search for beta ends."""
    handy_betas: ClassVar[tuple[float, ...]] = ()
    """Betas with fast powers, taken if they are nearly as good as the best."""
    compares_with_weight_one: ClassVar[bool] = False
    """Whether beta is chosen to do well against weight 1 rather than for its own variance."""

    def reference_scale(self, noise_scale: float | None = None) -> float:
        """The scale of the reference; 1 for families without a scale."""
        return 1.0

    def reference_table(self, scale: float) -> ReferenceTable:
        """The reference in standard units, with weights that integrate over it; may decline."""
        raise InvalidInput(
            f"No public reference is known for the family {self.name!r}: pass beta as a number."
        )

    def reference_log_variances(
        self, beta: float, inverse_weight: float, scale: float
    ) -> tuple[Array, Array]:
        """log V at each intercept of the reference, and the intercepts' weights.

        Where weight 1 is compared with, the first intercept is 0 and has weight 0: it is a reference of its
        own and no part of the average.
        """
        table = reference_table(self, scale)
        return table.log_variances(beta, inverse_weight), table.intercepts

    # -- bounds over cells of parameters, for the proving sampler, see ``cells``

    has_cell_bounds: ClassVar[bool] = False

    def loss_minimum(self, y: Array, cell: Cell, beta: float) -> Array:
        """A lower bound of the loss over the cell; may decline."""
        raise self._no_cell_bounds()

    def loss_concavity(self, y: Array, cell: Cell, beta: float) -> tuple[Array, Array | None]:
        """(a, c) with Hessian of the loss >= -diag(a, c) in (eta, log scale) over the cell; may decline."""
        raise self._no_cell_bounds()

    def _no_cell_bounds(self) -> InvalidInput:
        return InvalidInput(f"No proved bound is known for the {self.name} family; use evidence='searched'.")

    # -- what intervals from released draws need, see ``onedraw.uncertainty``

    question: ClassVar[str | None] = None
    """What a single number of this family is called ("proportion"), where it may be asked for by itself."""
    question_assumes: ClassVar[str] = ""
    """What an interval of that number assumes."""
    has_planner_page: ClassVar[bool] = False
    """Whether the page to plan with has a formula for it."""
    ratio: ClassVar[str | None] = None
    """What the exponential of a coefficient is called, where it has a meaning."""
    exponential_intercept: ClassVar[str] = ""
    """What the exponential of an intercept is, where that of a coefficient is a ratio."""
    is_canonical: ClassVar[bool] = False
    """Whether the variance of a response is the slope of its mean in the predictor, whatever that is."""
    takes_shares: ClassVar[bool] = False
    """Whether a response may lie between its two classes, so that its mean is fitted."""
    takes_offset: ClassVar[bool] = False
    """Whether a known number may be added to the predictor of each record, such as the log of an exposure."""
    has_intervals: ClassVar[bool] = False
    """Whether all that intervals need is known."""
    usual_spread: ClassVar[float] = 1.0
    """The standard deviation of a linear predictor of the usual size, over records."""

    def noise_ratio(self, beta: float, scale: float | None = None) -> float:
        """kappa of the coefficients, see ``noise_ratio``: by default M^b, which bounds it for all families.

        Families with a scale may ask for the one at which to evaluate it.
        """
        return math.exp((beta - 1.0) * self.log_sup_density)

    @property
    def predictor_multiple(self) -> float:
        """What the variance of a linear predictor is multiplied by when draws are judged too wide or not."""
        return 1.0

    def usual_intercept(self, fit_intercept: bool) -> float:
        """A linear predictor of the usual size at the mean of the features."""
        return 1.0 if fit_intercept else 0.0

    def drift_support(self, eta: Array) -> tuple[Array, Array]:
        """All responses that matter at linear predictors ``eta``, and ``eta`` cut to where that is so."""
        raise self._no_intervals("drift")

    def location_information(self, power: float, scale: float) -> float:
        """The integral of f^power s^2 for the score s in the location; for families with a scale."""
        raise self._no_intervals("information")

    def scale_noise_ratio(self, beta: float, scale: float) -> float:
        """kappa of the scale itself; for families with one."""
        raise self._no_intervals("scale")

    def expected_loss(self, scale: Array, true_scale: Array, beta: float) -> tuple[Array, Array]:
        """The expected loss at the true location, up to a constant, and its curvature in the location.

        ``true_scale`` is that of the responses, ``scale`` that of the model. For families with a scale.
        """
        raise self._no_intervals("law of the scale")

    def _no_intervals(self, what: str) -> InvalidInput:
        return InvalidInput(
            f"The {what} of the {self.name} family is not known, so its draws give no intervals."
        )


class MassFunction(Family):
    """A family of discrete responses, so f <= 1.

    Implementations must return a power integral with max_u f(u)^beta <= I <= 1. The certificate
    needs only that, so a truncated sum is as private as an exact one.
    """

    largest_beta: ClassVar[float] = 2.5

    @property
    def log_sup_density(self) -> float:
        return 0.0

    def loss_bounds(self, beta: float) -> LossBounds:
        return mass_function_bounds(beta)

    def _reference(self, y: Array, centres: Array, intercepts: Array, spread: float) -> ReferenceTable:
        """The table over responses ``y`` and predictors N(centre, spread^2), ``intercepts`` their weights."""
        offsets, nodes = gauss_hermite(7)
        eta = centres + spread * offsets[:, None]
        y = np.broadcast_to(y[:, None, None], (y.size, *eta.shape))
        at = self.log_density_derivatives(y, np.broadcast_to(eta, y.shape))
        measure = np.ones((1, 1, 1))
        return ReferenceTable(
            log_density=at.value, score=at.d_eta, measure=measure, nodes=nodes, intercepts=intercepts
        )


_IDENTITY: Array = np.ones((1, 1))
_IDENTITY.flags.writeable = False
