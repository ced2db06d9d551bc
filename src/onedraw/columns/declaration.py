# SPDX-License-Identifier: Apache-2.0
"""``Columns``: what is publicly known about a table, one declaration for Python and for the command.

Everything in it is published or could be, so it must come from a code book and not from the table. Misspelt
keys and columns are errors: a fact that is silently ignored would be worse.

>>> columns = Columns(
...     {"age": (18, 100), "smoker": ["no", "yes"], "income": Column(bounds=(0, 1e5), missing="middle")},
...     target=Target(classes=("alive", "dead")),
...     missing=["?"],
... )
>>> columns.columns["smoker"].categories, columns.columns["income"].missing
(('no', 'yes'), 50000.0)
>>> Columns.parse({"columns": {"age": {"bounds": [18, 100]}}}) == Columns({"age": (18, 100)})
True
>>> Columns.parse({"colums": {}})
Traceback (most recent call last):
onedraw.errors.InvalidInput: The column specification has an unknown key 'colums'. Known: columns, ...
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from onedraw.columns.facts import Column, Target
from onedraw.columns.file import load
from onedraw.columns.values import Reader
from onedraw.errors import InvalidInput

WHOLE = "The column specification"


@dataclass(frozen=True)
class Columns:
    """Which columns are used, what is publicly known about them, and how the file writes them.

    Args:
        columns: by name a ``Column``; for short a pair (low, high) for its bounds, a list of texts for its
            categories, or a dict of the arguments of ``Column``.
        target: a ``Target``, or a dict of its arguments.
        use: exactly these columns are features, in this order; by default all but the target.
        ignore: columns that are no features.
        exposure: for counts, the column of their exposures (years at risk), which is no feature either; its
            declared range must be positive, and what lies below it counts as its lower end.
        missing: texts that stand for a missing value, beside an empty one, NA, NaN, null and none.
        trim: whether spaces around a value do not count.
        separator: what separates the fields of a text file; by default as its name and first line say.
        decimal: the decimal sign of a text file, "." or ",".
        encoding: the encoding of a text file.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    target: Any = field(default_factory=Target)
    use: tuple[str, ...] | None = field(default=None, kw_only=True)
    ignore: tuple[str, ...] = field(default=(), kw_only=True)
    exposure: str | None = field(default=None, kw_only=True)
    missing: tuple[str, ...] = field(default=(), kw_only=True)
    trim: bool = field(default=True, kw_only=True)
    separator: str | None = field(default=None, kw_only=True)
    decimal: str = field(default=".", kw_only=True)
    encoding: str = field(default="utf-8", kw_only=True)

    def __post_init__(self) -> None:
        described = _mapping(self.columns, "[columns]")
        self._set(columns={str(name): _column(str(name), facts) for name, facts in described.items()})
        self._set(target=_target(self.target))
        self._set(use=None if self.use is None else _names(self.use, "use"))
        self._set(ignore=_names(self.ignore, "ignore"), missing=_marks(self.missing))
        if self.exposure is not None and not isinstance(self.exposure, str):
            raise InvalidInput(f"{WHOLE}: expected exposure to name a column, got {self.exposure!r}.")
        if not isinstance(self.trim, bool):
            raise InvalidInput(f"{WHOLE}: expected trim to be true or false, got {self.trim!r}.")
        if self.separator is not None and (not isinstance(self.separator, str) or len(self.separator) != 1):
            raise InvalidInput(f"{WHOLE}: expected separator to be one character, got {self.separator!r}.")
        if self.decimal not in (".", ","):
            raise InvalidInput(f'{WHOLE}: expected decimal to be "." or ",", got {self.decimal!r}.')
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError):
            raise InvalidInput(
                f'{WHOLE}: no encoding is called {self.encoding!r}. Common ones: "utf-8", "latin-1".'
            ) from None

    @classmethod
    def read(cls, path: str | None) -> Columns:
        """From a .toml, .yaml or .yml file; without a path, nothing is known."""
        return cls() if path is None else cls.parse(load(path))

    @classmethod
    def parse(cls, content: Any) -> Columns:
        """From plain values, the keys of a file."""
        content = _mapping(content, WHOLE)
        _known(content, sorted(part.name for part in fields(cls)), WHOLE)
        for name, facts in _mapping(content.get("columns"), "[columns]").items():
            _mapping(facts, f"Column {name!r} of the specification")
        return cls(**{key: value for key, value in content.items() if value is not None})

    @classmethod
    def from_frame(cls, frame: Any, columns: Mapping[str, Any] | None = None, **more: Any) -> Columns:
        """With the categories that a pandas or polars frame declares in its types; reads no value.

        ``columns`` and ``more`` are as for ``Columns``, and come first.

        The types must have been declared, ``pandas.CategoricalDtype(["no", "yes"])`` or ``polars.Enum``:
        ``astype("category")`` takes the categories from the data, which are then published.

        >>> import pandas as pd
        >>> smoker = pd.CategoricalDtype(["no", "yes"])
        >>> Columns.from_frame(pd.DataFrame({"smoker": pd.Series(["yes"], dtype=smoker)}))
        Columns(columns={'smoker': Column(bounds=None, categories=('no', 'yes'), ...
        """
        given = {} if columns is None else dict(columns)
        hidden = {*more.get("ignore", ()), *given}
        found = {
            str(name): list(categories)
            for name, categories in _declared_categories(frame)
            if name not in hidden and len(categories) > 1
        }
        return cls({**found, **given}, **more)

    def encoder(self, names: Iterable[str]) -> Any:
        """How a table with columns of these names becomes features: ``onedraw.columns.Encoding``."""
        from onedraw.columns.encoding import Encoding  # which needs this module

        return Encoding.of(self, names)

    @property
    def reader(self) -> Reader:
        """How single values are read."""
        return Reader(missing=frozenset(self.missing), decimal=self.decimal, trim=self.trim)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _declared_categories(frame: Any) -> Iterable[tuple[str, list[str]]]:
    types = getattr(frame, "dtypes", None)
    if types is None or not hasattr(frame, "columns"):
        raise InvalidInput(f"Expected a pandas or polars frame, got {type(frame).__name__}.")
    for name, kind in zip(frame.columns, types, strict=True):
        categories: Any = getattr(kind, "categories", None)
        if type(kind).__module__.startswith("polars"):
            if type(kind).__name__ == "Categorical":
                raise InvalidInput(
                    f"Column {name!r} is a polars Categorical, whose categories are those of the data. "
                    "Declare them: polars.Enum([...])."
                )
            categories = categories.to_list() if type(kind).__name__ == "Enum" else None
        if categories is not None:
            yield name, [str(category) for category in categories]


def _column(name: str, facts: Any) -> Column:
    where = f"Column {name!r} of the specification"
    if isinstance(facts, tuple):
        facts = {"bounds": facts}
    elif isinstance(facts, list):
        if not all(isinstance(label, str) for label in facts):
            raise InvalidInput(f"{where}: expected (low, high) or a list of texts, got {facts!r}.")
        facts = {"categories": facts}
    if not isinstance(facts, Column):
        facts = _mapping(facts, where)
        _known(facts, [part.name for part in fields(Column)], where)
        facts = _at(where, Column, facts)
    if facts.categories is not None and "=" in name:
        raise InvalidInput(f"{where}: a column with categories cannot have '=' in its name. Rename it.")
    found: Column = facts
    return found


def _target(facts: Any) -> Target:
    if isinstance(facts, Target):
        return facts
    where = "[target] of the specification"
    facts = _mapping(facts, where)
    _known(facts, [part.name for part in fields(Target)], where)
    found: Target = _at(where, Target, facts)
    return found


def _at(where: str, kind: type[Any], facts: dict[str, Any]) -> Any:
    """The facts of a column; what is wrong with them is said of this place."""
    made = object.__new__(kind)
    for part in fields(kind):
        object.__setattr__(made, part.name, facts.get(part.name))
    made.check(where)
    return made


def _marks(values: Any) -> tuple[str, ...]:
    listed = [values] if isinstance(values, str) else list(values)
    if not all(isinstance(mark, str | int | float) and not isinstance(mark, bool) for mark in listed):
        raise InvalidInput(f'{WHOLE}: expected missing to list texts, such as ["?", "NA"], got {values!r}.')
    return tuple(str(mark).strip() for mark in listed)


def _names(values: Any, key: str) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(name, str) for name in values):
        raise InvalidInput(f"{WHOLE}: expected {key} to be a list of column names.")
    if len(set(values)) < len(values):
        raise InvalidInput(f"{WHOLE}: {key} names a column twice.")
    return tuple(values)


def _mapping(content: Any, what: str) -> dict[Any, Any]:
    if content is None:  # an empty YAML file or section
        return {}
    if not isinstance(content, Mapping):
        raise InvalidInput(f"{what}: expected names with values, got {type(content).__name__}.")
    return dict(content)


def _known(content: Mapping[Any, Any], keys: list[str], what: str) -> None:
    for key in content:
        if key not in keys:
            raise InvalidInput(f"{what} has an unknown key {str(key)!r}. Known: {', '.join(keys)}.")
