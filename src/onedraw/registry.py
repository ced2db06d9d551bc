# SPDX-License-Identifier: Apache-2.0
"""Every mechanism under its one name, for estimators, the command, the ledger, the audit, files and pages.

``python -m onedraw.registry`` prints the table of docs/mechanisms.md; a test compares the two.

>>> from onedraw.families import Gaussian
>>> from onedraw.model import RegressionModel
>>> shape = Shape(model=RegressionModel(family=Gaussian(), features=("x",)))
>>> choose("adassp", Request(epsilon=1.0), shape)[0].name
'adassp'
>>> choose("ada_ssp", Request(epsilon=1.0), shape)
Traceback (most recent call last):
onedraw.errors.InvalidInput: Expected mechanism to be one of ... Did you mean 'adassp'?
>>> print(requirement_table().splitlines()[0])
| mechanism | name | models | guarantee | neighbours | privacy rests on | you must declare | you may set | ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onedraw._validate import one_of
from onedraw.advice import LeaveOut, Set
from onedraw.cautions import MOST_PARAMETERS_DRAWN
from onedraw.errors import InvalidInput
from onedraw.families import FAMILIES
from onedraw.mechanisms import (
    AdaSSP,
    AtomSampler,
    BetaBernoulliDraw,
    BetaBernoulliNoiseAware,
    BetaBernoulliSSP,
    DefensiveRejection,
    FastMH,
    GaussianMeanDraw,
    GibbsPosterior,
    LinearNoiseAware,
    LinearSSP,
    LipschitzGibbs,
    Mechanism,
    MinibatchBarker,
    OnePosterior,
    OutputPerturbation,
    PenaltyChain,
    PrivateBarker,
    PrivateHMC,
    PrivateSGLD,
    ProposalDraw,
    Shape,
    TiltedFit,
)
from onedraw.mechanisms.base import build
from onedraw.nn import DPSGD, DPVI, BetaSGD, NetworkDraw, ProgramDraw
from onedraw.privacy.request import Request
from onedraw.release import Made

MECHANISMS: Mapping[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (
        TiltedFit,
        OnePosterior,
        GibbsPosterior,
        LipschitzGibbs,
        OutputPerturbation,
        ProposalDraw,
        DefensiveRejection,
        AtomSampler,
        PrivateBarker,
        MinibatchBarker,
        FastMH,
        PenaltyChain,
        PrivateHMC,
        PrivateSGLD,
        AdaSSP,
        LinearSSP,
        LinearNoiseAware,
        BetaBernoulliSSP,
        BetaBernoulliNoiseAware,
        BetaBernoulliDraw,
        GaussianMeanDraw,
        NetworkDraw,
        DPSGD,
        BetaSGD,
        DPVI,
        ProgramDraw,
    )
}
"""By name, in the order of the tables: regressions, those for a single number, networks, NumPyro models."""
AUTO = "auto"
DEFAULTS: Mapping[str, type[Mechanism]] = {
    form: kind for kind in (NetworkDraw, ProgramDraw) for form in kind.requirements.forms
}
"""What "auto" stands for, by the form of the model, where one mechanism serves all models of that form."""


def choose(mechanism: Any, request: Request, shape: Shape) -> tuple[Mechanism, str]:
    """The mechanism that a user means, and why it was chosen where the choice was left to the package.

    ``mechanism`` is an object, a name (with the mechanism's own defaults), or "auto". A function of public
    facts alone.
    """
    if isinstance(mechanism, Mechanism):
        return mechanism, ""
    if isinstance(mechanism, type) and issubclass(mechanism, Mechanism):
        raise InvalidInput(
            f"Expected a mechanism or its name, got the class {mechanism.__name__}. Call it: "
            f"{mechanism.__name__}(...)."
        )
    offered = [name for name, kind in MECHANISMS.items() if shape.model.form in kind.requirements.forms]
    if one_of([AUTO, *offered], mechanism=mechanism) == AUTO:
        return automatic(request, shape)
    return MECHANISMS[mechanism](), ""


def automatic(request: Request, shape: Shape) -> tuple[Mechanism, str]:
    """The mechanism that "auto" stands for, and why: the most accurate one whose privacy is accounted for.

    The tilted fit where it knows the family: its error approaches the non-private one, and nothing rests on
    a search. A draw where several draws are asked for, or the family has no tilted fit; not where it had less
    error in simulations (linear models, n epsilon < 40 p), because its guarantee is conditional on a search:
    there the plan says so.
    """
    if shape.model.form in DEFAULTS:
        return DEFAULTS[shape.model.form](), ""
    if request.draws != 1:
        refuse_draws_that_fail(shape)
        reason = "Several draws were asked for, which only a posterior has."
        return OnePosterior(), reason + far_response(shape)
    if not TiltedFit.requirements.fits(shape.model):
        reason = f"There is no tilted fit for the {shape.model.family.name} family, so a draw is released."
        return OnePosterior(), reason + far_response(shape)
    return TiltedFit(), ""


def refuse_draws_that_fail(shape: Shape) -> None:
    """Refuse several draws of more parameters than a search copes with, before they are charged for."""
    if shape.model.num_location > MOST_PARAMETERS_DRAWN:
        raise InvalidInput(
            f"Several draws of {shape.model.num_location} parameters would most likely find none, after the "
            "charge.",
            advice=[LeaveOut("draws"), Set("mechanism", OnePosterior.name, note=" to try all the same")],
        )


def far_response(shape: Shape) -> str:
    """A sentence where a draw would miss a response that is far from order one; empty elsewhere."""
    if not shape.model.family.has_scale or shape.model.target_bounds is not None:
        return ""
    return (
        " No plausible range of the response was declared, so it is taken to be of order one: a draw finds "
        "nothing where it is not."
    )


def read_mechanism(made: Made) -> Mechanism:
    """The mechanism that a release describes, uncalibrated; options that no file can hold have defaults."""
    kind = MECHANISMS[one_of(MECHANISMS, mechanism=made.name)]
    options = {n: tuple(v) if isinstance(v, list) else v for n, v in made.options.items()}
    return build(kind, options)


# -- the table of docs/mechanisms.md

COLUMNS = (
    "mechanism",
    "name",
    "models",
    "guarantee",
    "neighbours",
    "privacy rests on",
    "you must declare",
    "you may set",
    "prefer it when",
)
GUARANTEES = {
    "unused": "ε",
    "needed": "(ε, δ)",
    "optional": "ε or (ε, δ)",
    "composition": "ε; (ε, δ) for several draws",
}


def requirement_row(kind: type[Mechanism]) -> dict[str, str]:
    """What one mechanism declares, by column, as Markdown."""
    declared = kind.requirements
    models = dict.fromkeys(FAMILIES[name].kind for name in declared.families) or declared.forms
    relation = "replace-one, one row per person" if declared.count else "both"
    exact = "an exact draw (evidence stated)" if declared.exact_draw else "its own randomness"
    cells = (
        f"`{kind.__name__}`",
        f"`{kind.name}`",
        ", ".join([*models, *(["intercept only"] if declared.intercept_only else [])]),
        GUARANTEES[declared.delta],
        relation,
        exact + (", bounded records" if declared.needs else ""),
        _code(declared.needs) or "nothing",
        _code(name for name in kind.option_names() if name not in declared.needs),
        declared.prefer,
    )
    return dict(zip(COLUMNS, cells, strict=True))


def requirement_table() -> str:
    """All mechanisms as a Markdown table."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS)]
    rows += [tuple(requirement_row(kind).values()) for kind in MECHANISMS.values()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    print(requirement_table())
