# SPDX-License-Identifier: Apache-2.0
"""A family is one object: nobody outside ``families`` asks which one they have.

Read from the source: no ``isinstance`` of a family, no dispatch on its class, no comparison of the names of
families or kinds, no table with them as keys.
"""

import ast
import inspect
from pathlib import Path

import pytest

import onedraw.families as families

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "onedraw"

TABLES = {"tilted/recipes.py", "nn/likelihood.py", "uncertainty/readings.py"}
"""What a mechanism knows of each family is one table, in one file."""
NOISE = {"tilted/curvature.py", "audit/closed_forms.py", "mechanisms/output_perturbation.py"}
"""Laws of noise called Laplace and Gaussian, as two families are."""
FREE = {"families", "research"}
"""What the rule is about, and the paper's experiments, each of which is about one family."""

CLASSES = {
    name
    for name, value in vars(families).items()
    if inspect.isclass(value) and issubclass(value, families.Family) and value is not families.Family
}
NAMES = {*families.FAMILIES, *families.KINDS}


def checked_files():
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] not in FREE and place.as_posix() not in TABLES | NOISE:
            yield path


def names_in(node):
    """All names and attributes in an expression."""
    return {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(node)}


def texts_in(node):
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def family_classes(tree):
    """Classes of families as the file calls them."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("onedraw.families"):
            known |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom | ast.Import):
            known |= {"families": "families"} if "families" in ast.unparse(node) else {}
    local = {called for called, name in known.items() if name in CLASSES}
    return local | (CLASSES if "families" in known else set())


def violations(source):
    tree = ast.parse(source)
    classes = family_classes(tree)
    for node in ast.walk(tree):
        where = f"line {getattr(node, 'lineno', '?')}: "
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"isinstance", "issubclass"}:
            if names_in(node.args[1]) & classes:
                yield where + ast.unparse(node)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(names_in(side) & classes or texts_in(side) & NAMES for side in sides):
                yield where + ast.unparse(node)
        elif isinstance(node, ast.Dict):
            keys = [key for key in node.keys if key is not None]
            if any(names_in(key) & classes or texts_in(key) & NAMES for key in keys):
                yield where + "a table by family or kind"
        elif isinstance(node, ast.match_case):
            if names_in(node.pattern) & classes or texts_in(node.pattern) & NAMES:
                yield where + "a case of a family or kind"
        elif isinstance(node, ast.FunctionDef) and any(
            "register" in names_in(d) for d in node.decorator_list
        ):
            annotations = [a.annotation for a in node.args.args if a.annotation is not None]
            if any(names_in(part) & classes for part in [*annotations, *node.decorator_list]):
                yield where + f"{node.name} is registered for a family"


@pytest.mark.parametrize("path", [*checked_files()], ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_nobody_asks_which_family_it_has(path):
    found = list(violations(path.read_text(encoding="utf-8")))
    assert not found, f"{path.name} should ask the family instead: " + "; ".join(found)


IMPORT = "from onedraw.families import Bernoulli, Family, LocationScale\n"


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        ("isinstance(family, Bernoulli)", False),
        ("isinstance(family, Bernoulli | LocationScale)", False),
        ("isinstance(family, (int, Bernoulli))", False),
        ("isinstance(family, families.Poisson)\nimport onedraw.families as families", False),
        ("issubclass(kind, LocationScale)", False),
        ("type(family) is Bernoulli", False),
        ("type(family) in {Bernoulli}", False),
        ("model.kind == 'logistic'", False),
        ("'linear' != model.kind", False),
        ("family.name in ('poisson', 'gaussian')", False),
        ("{'linear': 1, 'other': 2}[model.kind]", False),
        ("{Bernoulli: 1}[type(family)]", False),
        ("match kind:\n    case 'poisson':\n        pass", False),
        ("match family:\n    case Bernoulli():\n        pass", False),
        ("@rule.register\ndef _(family: Bernoulli): ...", False),
        ("@rule.register(Bernoulli)\ndef _(family): ...", False),
        ("isinstance(family, Family)", True),
        ("family.has_scale", True),
        ("model.kind in families_of_some", True),
        ("one_of(('auto', 'paper'), beta=beta)", True),
        ("f = Bernoulli()", True),
        ("from onedraw.samplers.envelope import StudentT\nisinstance(component, StudentT)", True),
    ],
)
def test_the_rule_itself(source, allowed):
    assert (not list(violations(IMPORT + source))) is allowed
