# SPDX-License-Identifier: Apache-2.0
"""A release as one page: guarantee in words, estimates, forest plot, assumptions, evidence, receipt.

Guarantee:
    A function of the release: the page says nothing that its file does not. It is one HTML file that loads
    nothing and runs nothing; every name and label in it is escaped.

Edge cases:
    Where there are no intervals, the released parameters are shown, and why there are no more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from onedraw.answers.answer import answer_of
from onedraw.cautions import of_release
from onedraw.privacy.meaning import percent, posterior
from onedraw.release import Release
from onedraw.release.html import Markup, element, items, table
from onedraw.release.release import SEEDED
from onedraw.reports.forest_svg import forest_svg
from onedraw.reports.style import page
from onedraw.uncertainty import Intervals, named_estimates
from onedraw.uncertainty.rendering import cells

MOST_SHOWN = 500
"""Parameters of a network are listed up to here."""


def release_page(release: Release, found: Intervals | str | None, *, model: str) -> str:
    """The page of a release.

    ``found`` is its summary, a sentence that says why it has none, or None where its form of model never
    has one; ``model`` says in words what was fitted.
    """
    kind, _, of = (_capital(part) for part in _headline(release, model).partition(", "))
    return page(
        f"Private release: {kind}",
        element(
            "header",
            element("p", "Private release", class_="kind"),
            element("h1", kind),
            *([element("p", f"{of}.", class_="lead")] if of else []),
            *(element("p", text, class_="alarm") for text in _alarms(release)),
        ),
        _promise(release),
        _facts(release),
        *_estimates(release, found),
        _section("What is assumed", items(release.assumptions)),
        _section("Evidence", _evidence(release)),
        *_receipt(release.receipt),
        _section("How it was made", _made(release)),
        element(
            "footer",
            f"Written from the release file alone by onedraw; the release was made by onedraw "
            f"{release.version}. Nothing else about the data is in this page.",
        ),
    )


def _alarms(release: Release) -> Iterator[str]:
    """What the reader must know before anything else."""
    noise = of_release(release)
    if noise:
        yield f"MOSTLY NOISE: {noise}"
    if release.seeded:
        yield SEEDED


def _headline(release: Release, model: str) -> str:
    """ "Linear regression with Laplace errors, coefficients of ..."."""
    if release.model.form != "regression" or answer_of(release) is not None:
        return model
    return re.sub(r"(?= with | of |,|$)", " regression", model, count=1)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _evidence(release: Release) -> Markup:
    level, statement = release.evidence.level, release.evidence.statement
    return element("p", element("strong", f"{_capital(level)}."), " ", statement)


def _section(title: str, *content: object) -> Markup:
    return element("section", element("h2", title), *content)


def _promise(release: Release) -> Markup:
    guarantee = release.guarantee
    most = percent(posterior(0.5, guarantee.epsilon, guarantee.delta))
    slack = (
        f", except with a probability of at most {2.0 * guarantee.delta:.3g}" if guarantee.delta > 0.0 else ""
    )
    meaning = (
        "For one person: somebody who knows everything about everybody else, and holds two answers about "
        f"this person for equally likely, can become at most {most} sure of one of them{slack}. What the "
        "release says about people in general is learnt about everybody, in the data or not."
    )
    return element("div", element("p", release.statement), element("p", meaning), class_="promise")


def _facts(release: Release) -> Markup:
    guarantee, records = release.guarantee, release.num_records
    pairs = [
        ("Privacy loss ε", f"{guarantee.epsilon:g}"),
        ("Chance of more, δ", f"{guarantee.delta:g}"),
        (
            "Rows of one person",
            f"up to {guarantee.rows_per_person}" if guarantee.rows_per_person > 1 else "1",
        ),
        ("Records", "private" if records is None else f"{records:,}"),
    ]
    return element(
        "dl",
        *(element("div", element("dt", name), element("dd", value)) for name, value in pairs),
        class_="facts",
    )


def _estimates(release: Release, found: Intervals | str | None) -> Iterator[Markup]:
    if isinstance(found, Intervals):
        notes = items([*found.notes, *(f"Caveat: {caveat}" for caveat in found.caveats)])
        yield _section(
            "Estimates",
            element("div", cells(*found.rows()), class_="wide"),
            element("div", notes, class_="notes"),
            element("figure", forest_svg(found.forest())),
        )
        return
    named = [(name, f"{value:.6g}".replace("-", "−")) for name, value in named_estimates(release).items()]
    why = [element("p", f"No intervals: {found}", class_="notes")] if found else []
    left = len(named) - MOST_SHOWN
    more = [element("p", f"and {left:,} more parameters.", class_="notes")] if left > 0 else []
    yield _section(
        "Parameters as released",
        *why,
        element("div", table(("parameter", "value"), named[:MOST_SHOWN]), class_="wide"),
        *more,
    )


def _receipt(receipt: Mapping[str, str] | None) -> Iterator[Markup]:
    if receipt is None:
        text = "No ledger was charged for this release: nothing in it shows what else was released."
        yield _section("Ledger receipt", element("p", text))
        return
    yield _section("Ledger receipt", _pairs(receipt.items()))


def _made(release: Release) -> Markup:
    made = release.mechanism
    rows = [("mechanism", made.name)]
    rows += [(_words(name), _plain(value)) for name, value in made.options.items()]
    rows += [(_words(name), _plain(value)) for name, value in made.numbers.items()]
    return _pairs([*rows, ("version", release.version)])


def _pairs(rows: Iterable[tuple[object, object]]) -> Markup:
    body = [
        element("tr", element("th", name, scope="row", style="text-align: left"), element("td", value))
        for name, value in rows
    ]
    return element("div", element("table", element("tbody", *body), class_="pairs"), class_="wide")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_plain(part) for part in value) if value else "none"
    return str(value)
