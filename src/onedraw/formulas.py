# SPDX-License-Identifier: Apache-2.0
"""Formulas: ``onedraw.fit("died ~ age + C(sex) * smoker", data=frame, columns=columns, epsilon=1)``.

Guarantee:
    Whatever a formula learns from a table (levels, knots), it learns here from a made-up table that follows
    from the declared columns alone, and applies to each record by itself. Functions that look at other
    records (``scale``, ``poly``, a mean) are refused: only columns, ``C``, ``bs`` and ``log`` are allowed. So
    the design matrix is a map of each record, and the guarantee is that of ``onedraw.columns.encoding``.

What may stand in a formula (the library ``formulaic`` reads it, the extra ``formulas``):

* columns by name, in backquotes if need be; categories give an indicator for each but the first;
* ``C(sex, contr.treatment(base="m"))`` for another reference level;
* interactions ``a:b`` and ``a * b``, and ``0 +`` for no intercept;
* ``bs(age, df=5)`` or ``bs(age, knots=[40, 60])``, a cubic spline on the declared range; knots that are not
  given lie evenly in it, and what lies beyond it counts as its end;
* ``log(income)``, of a column whose declared range is positive; what lies below it counts as its lower end;
* for counts, one ``offset(log(years))``, the logarithm of a column of exposures, or ``offset(log_years)``, a
  column that holds it: what is added to the predictor of each record, with coefficient 1.

Edge cases:
    The last declared class is the outcome of a logistic model.

>>> import pandas as pd
>>> from onedraw.columns import Columns
>>> columns = Columns({"age": (18, 100), "sex": ["f", "m"]}, {"classes": [0, 1]})
>>> declared = with_formula("died ~ C(sex) * age", columns)
>>> declared.encoder(("age", "sex", "died")).features
('C(sex)[T.m]', 'age', 'C(sex)[T.m]:age')
>>> with_formula("died ~ scale(age)", columns).encoder(("age", "sex", "died"))
Traceback (most recent call last):
onedraw.errors.InvalidInput: The formula has 'scale(age)', which may look at other records. ...
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from onedraw._extras import optional
from onedraw._validate import one_of
from onedraw.advice import Declare
from onedraw.columns import Column, Columns, OffsetSource, Source, Sources
from onedraw.columns.encoding import IDENTITY
from onedraw.columns.names import no_such_column
from onedraw.errors import InvalidInput
from onedraw.estimators.kinds import ESTIMATORS
from onedraw.model import Bounds
from onedraw.planning import FORM
from onedraw.types import AnyArray, Array

FUNCTIONS = ("C", "bs", "log")
SPLINE_OPTIONS = ("df", "knots", "degree")
MADE_UP_ROWS = 2_001


def fit(formula: str, data: Any, *, columns: Columns, model: str | None = None, **options: Any) -> Any:
    """The fitted estimator of a formula; ``release_``, ``summary()`` and ``predict(data)`` as always.

    Args:
        formula: ``"response ~ terms"``, see ``onedraw.formulas``.
        data: a table with the columns of the formula; others are ignored.
        columns: the declaration of ranges, categories, classes and rules.
        model: "logistic", "linear", "poisson" and so on; by default "logistic" (or multinomial) if classes
            are declared, and "linear" otherwise.
        options: of the estimator: ``epsilon``, ``delta``, ``ledger``, ``dataset`` and so on.
    """
    if not isinstance(columns, Columns):
        raise InvalidInput(f"Expected columns to be an onedraw.Columns, got {type(columns).__name__}.")
    declared = with_formula(formula, columns)
    if model is None:
        model = "linear" if columns.target.classes is None else "logistic"
    kinds = {name: kind for name, kind in ESTIMATORS.items() if kind.form == FORM}
    kind = kinds[one_of(kinds, model=model)]
    return kind(columns=declared, fit_intercept=declared.has_intercept, **options).fit(data)


def with_formula(formula: str, columns: Columns) -> FormulaColumns:
    """The declaration with a formula in place of all its columns."""
    response, terms = _split(formula)
    if columns.target.name not in (None, response):
        raise InvalidInput(f"The formula explains {response!r}, the target is {columns.target.name!r}.")
    given = {part.name: getattr(columns, part.name) for part in fields(Columns)}
    given["target"] = replace(columns.target, name=response)
    terms, offset = _without_offset(terms)
    if offset is None:
        return FormulaColumns(**given, terms=terms)
    if columns.exposure is not None:
        raise InvalidInput(
            f"The formula has an offset, and the columns name the exposure {columns.exposure!r}. Keep one."
        )
    name, is_log = offset
    given["exposure"] = name
    return FormulaColumns(**given, terms=terms, is_log=is_log)


@dataclass(frozen=True)
class FormulaColumns(Columns):
    """A declaration whose features are the terms of a formula."""

    terms: str = field(default="1", kw_only=True)
    is_log: bool = field(default=False, kw_only=True)
    """Whether the column called exposure holds the offset itself."""

    @property
    def has_intercept(self) -> bool:
        """Whether the formula has one; ``0 +`` and ``- 1`` take it away."""
        return any(str(term) == "1" for term in _read(self.terms))

    def encoder(self, names: Iterable[str]) -> FormulaEncoding:
        """How a table with these columns becomes features."""
        listed = tuple(names)
        for name in [*_uses(self.terms), *filter(None, [self.exposure])]:
            if name not in listed:
                told = f"The formula names {name!r}, which the table does not have."
                raise no_such_column(name, listed, told=told)
        made: FormulaEncoding | None = self.__dict__.get("_made")
        if made is None:  # the same for every table: it follows from the declaration
            made = FormulaEncoding.of(self)
            object.__setattr__(self, "_made", made)
        return made


@dataclass(frozen=True, kw_only=True, eq=False)
class FormulaEncoding(Sources):
    """Features of a formula; used like ``onedraw.columns.Encoding``."""

    features: tuple[str, ...]
    feature_bounds: list[Bounds]
    spec: Any
    context: dict[str, Any]

    @classmethod
    def of(cls, columns: FormulaColumns) -> FormulaEncoding:
        """From the declaration alone: the formula learns its levels and knots from a made-up table."""
        sources = tuple(
            Source(name=name, column=columns.columns.get(name, Column()))
            for name in _checked_columns(columns)
            if name != columns.target.name
        )
        frame, context = _made_up(sources), {"log": _log(sources), "bs": _spline()}
        matrix = _matrix(columns.terms, frame, context)
        design = matrix.drop(columns="Intercept", errors="ignore")
        if not len(design.columns):
            raise InvalidInput("The formula has no term but an intercept. Name a column.")
        low, high = design.min().tolist(), design.max().tolist()
        bounds = [(a, b) if a < b else IDENTITY for a, b in zip(low, high, strict=True)]
        offset = None
        if columns.exposure is not None:
            offset = OffsetSource.of(columns, columns.exposure, is_log=columns.is_log)
        return cls(
            sources=sources,
            offset=offset,
            reader=columns.reader,
            features=tuple(map(str, design.columns)),
            feature_bounds=bounds,
            spec=matrix.model_spec,
            context=context,
        )

    def encode(self, table: Any) -> tuple[Array, AnyArray]:
        """The design matrix (n, features) of some rows, and which of them stay, (n,)."""
        pandas = optional("pandas", "A formula", "formulas")
        columns: dict[str, Any] = {}
        keep = np.ones(0, dtype=bool)
        for source in self.sources:
            reading = source.read(table[source.name], self.reader)
            source.refuse(reading)
            values, stays = source.fill(reading)
            keep = stays if not columns else keep & stays
            columns[source.name] = _typed(pandas, source.column, values)
        matrix = self.spec.get_model_matrix(pandas.DataFrame(columns), context=self.context)
        return matrix[list(self.features)].to_numpy(dtype=np.float64), keep


def _split(formula: str) -> tuple[str, str]:
    if not isinstance(formula, str) or formula.count("~") != 1:
        raise InvalidInput(f"Expected a formula 'response ~ terms', got {formula!r}.")
    left, right = (side.strip() for side in formula.split("~"))
    name = left.strip("`")
    if not name or (left == name and not name.isidentifier()):
        raise InvalidInput(f"Expected the name of a column before ~, got {left!r}.")
    return name, right


def _read(terms: str) -> Any:
    formulaic = optional("formulaic", "A formula", "formulas")
    try:
        return formulaic.Formula(terms)
    except Exception as error:  # of many kinds; the formula is public
        raise InvalidInput(f"Cannot read the formula {terms!r}: {str(error).splitlines()[0]}.") from None


def _without_offset(terms: str) -> tuple[str, tuple[str, bool] | None]:
    """The terms without offset(...), the column of that, and whether the column holds the offset itself."""
    kept: list[str] = []
    found: tuple[str, bool] | None = None
    for term in _read(terms):
        text = str(term)
        if not any(str(factor).startswith("offset(") for factor in term.factors):
            kept.append(text)
        elif found is not None or len(term.factors) > 1:
            raise InvalidInput(f"The formula has {text!r}: one offset(...) may stand in it, by itself.")
        else:
            found = _offset_column(text)
    if found is None:
        return terms, None
    return " + ".join(kept if "1" in kept else ["0", *kept]), found


def _offset_column(text: str) -> tuple[str, bool]:
    """Of ``offset(log(years))`` years, whose logarithm it is; of ``offset(log_years)`` log_years itself."""
    call = ast.parse(text, mode="eval").body
    inner = call.args[0] if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords else None
    if isinstance(inner, ast.Name):
        return inner.id, True
    if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "log" and len(inner.args) == 1:
        (inner,) = inner.args
        if isinstance(inner, ast.Name):
            return inner.id, False
    raise InvalidInput(f"Expected offset(log(column)) or offset(column), got {text!r}.")


def _uses(terms: str) -> dict[str, list[str]]:
    """The columns that terms name, in order, with their functions; refuses what is no map of a record."""
    found: dict[str, list[str]] = {}
    for term in _read(terms):
        for factor in term.factors:
            method, text = factor.eval_method.name, str(factor)
            if method == "LITERAL":
                continue
            name, function = (text, "") if method == "LOOKUP" else _called(text)
            found.setdefault(name, []).append(function)
    return found


def _checked_columns(columns: FormulaColumns) -> list[str]:
    """The columns that a formula names, in order, declared as their use needs."""
    uses = _uses(columns.terms)
    for name, functions in uses.items():
        for function in functions:
            _check_use(columns.columns.get(name, Column()), name, function)
    return list(uses)


def _called(text: str) -> tuple[str, str]:
    """Column and function of a factor, ``bs(age, df=4)``."""
    if text.startswith("exposure("):
        raise InvalidInput(f"The formula has {text!r}. An exposure is written offset(log(column)).")
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError:
        call = None
    constants = (ast.Constant, ast.List, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load, ast.keyword)
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in FUNCTIONS
        and call.args
        and isinstance(call.args[0], ast.Name)
    ):
        others: list[Any] = [*call.args[1:], *call.keywords]
        for keyword in call.keywords if call.func.id == "bs" else ():
            if keyword.arg not in SPLINE_OPTIONS:
                raise InvalidInput(
                    f"The formula has {text!r}. Options of bs are {', '.join(SPLINE_OPTIONS)}, got "
                    f"{keyword.arg!r}; its ends are those of the declared range."
                )
        if call.func.id == "C":
            others = [part for other in others for part in _contrast(other)]
        if all(isinstance(node, constants) for other in others for node in ast.walk(other)):
            return call.args[0].id, call.func.id
    raise InvalidInput(
        f"The formula has {text!r}, which may look at other records. Only columns, "
        f"{', '.join(f'{name}(column)' for name in FUNCTIONS)} with constants, and interactions are allowed."
    )


def _contrast(node: Any) -> list[Any]:
    """The arguments of ``contr.treatment(...)``; anything else is left to be refused."""
    inner = node.value if isinstance(node, ast.keyword) else node
    if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "contr.treatment":
        return [*inner.args, *inner.keywords]
    return [node]


def _check_use(column: Column, name: str, function: str) -> None:
    if function == "C" and column.categories is None:
        raise InvalidInput(
            f"C({name}) needs declared categories: read from the data they would be published.",
            advice=Declare("categories", column=name),
        )
    if function in ("bs", "log") and (column.bounds is None or (function == "log" and column.bounds[0] <= 0)):
        positive = "positive " if function == "log" else ""
        raise InvalidInput(
            f"{function}({name}) needs a declared {positive}range.", advice=Declare("bounds", column=name)
        )


def _made_up(sources: tuple[Source, ...]) -> Any:
    """A table that follows from the declaration: every level, and even steps through every range."""
    pandas = optional("pandas", "A formula", "formulas")
    rng = np.random.default_rng(0)  # public, and always the same
    columns = {}
    for source in sources:
        column = source.column
        if column.categories is not None:
            values: AnyArray = np.arange(MADE_UP_ROWS) % len(column.categories)
        else:
            values = np.linspace(*(column.bounds or IDENTITY), MADE_UP_ROWS)
        columns[source.name] = _typed(pandas, column, rng.permutation(values))
    return pandas.DataFrame(columns)


def _typed(pandas: Any, column: Column, values: AnyArray) -> Any:
    if column.categories is None:
        return values
    return pandas.Categorical.from_codes(values, categories=list(column.categories))


def _matrix(terms: str, frame: Any, context: dict[str, Any]) -> Any:
    formulaic = optional("formulaic", "A formula", "formulas")
    try:
        return formulaic.model_matrix(terms, frame, context=context)
    except Exception as error:  # of many kinds; the frame is made up
        cause = str(error.__cause__ or error).splitlines()[0]
        raise InvalidInput(f"The formula {terms!r} cannot be evaluated: {cause}.") from None


def _log(sources: tuple[Source, ...]) -> Any:
    lows = {source.name: source.column.bounds[0] for source in sources if source.column.bounds is not None}

    def log(values: Any) -> Any:
        return np.log(np.maximum(values, lows[values.name]))

    return log


def _spline() -> Any:
    """The spline of formulaic, which holds values within the declared range in place of complaining."""
    splines = optional("formulaic.transforms.basis_spline", "A formula", "formulas")
    stateful = optional("formulaic.utils.stateful_transforms", "A formula", "formulas")

    def bs(values: Any, df: Any = None, knots: Any = None, degree: int = 3, _state: Any = None) -> Any:
        return splines.basis_spline.__wrapped__(
            values, df=df, knots=knots, degree=degree, extrapolation="clip", _state=_state
        )

    return stateful.stateful_transform(bs)
