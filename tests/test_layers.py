# SPDX-License-Identifier: Apache-2.0
"""A module imports only from its own package and from the lines above it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "onedraw"

# Top first. Names on one line do not import each other. ``__init__``, the package itself, may import all.
LAYERS = [
    ["advice", "cautions"],
    ["errors", "types", "_version"],
    ["_validate", "_extras", "_progress"],
    ["_random"],
    ["private"],
    ["tables"],
    ["records"],
    ["families"],
    ["losses"],
    ["priors"],
    ["privacy"],
    ["noise"],
    ["design"],
    ["posterior"],
    ["samplers"],
    ["model"],
    ["columns"],
    ["release"],
    ["tilted"],
    ["inference"],
    ["uncertainty"],
    ["ledger"],
    ["chains"],
    ["mechanisms"],
    ["nn"],
    ["registry"],
    ["publishing"],
    ["estimators"],
    ["answers"],
    ["unsafe", "simulated"],
    ["planning"],
    ["rehearsal"],
    ["formulas"],
    ["audit"],
    ["reports"],
    ["research"],
    ["cli"],
    ["__init__", "__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules(package=PACKAGE):
    return sorted(package.rglob("*.py"))


def layer_of(path, package=PACKAGE):
    """The top-level module or package that a file belongs to."""
    return path.relative_to(package).parts[0].removesuffix(".py")


def imported_names(tree, parts):
    """Dotted names of all modules that the code imports, wherever in the file; ``parts`` is its package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*parts[: len(parts) - node.level + 1]] if node.level else []
            stem = ".".join(base + ([node.module] if node.module else []))
            # ``from onedraw import families`` names a module, ``from onedraw import Release`` the package.
            yield from (f"{stem}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in {"import_module", "importlib.import_module", "__import__"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def violations(path, source, package=PACKAGE):
    own = layer_of(path, package)
    parts = ["onedraw", *path.relative_to(package).parent.parts]
    for name in imported_names(ast.parse(source), parts):
        head, *rest = name.split(".")
        if head != "onedraw":
            continue
        target = rest[0] if rest and rest[0] in LEVEL else "__init__"
        if target != own and LEVEL[target] >= LEVEL[own]:
            yield f"{own} imports {name}: {target} is not in a layer above it"


def test_every_top_level_module_has_a_layer():
    unknown = sorted({layer_of(path) for path in modules()} - set(LEVEL))
    assert not unknown, f"add {unknown} to LAYERS in tests/test_layers.py, below all that they import"


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_point_upwards(path):
    if layer_of(path) not in LEVEL:
        pytest.skip("no layer yet; test_every_top_level_module_has_a_layer says so")
    found = list(violations(path, path.read_text(encoding="utf-8")))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("file", "source", "allowed"),
    [
        ("losses/gibbs.py", "from onedraw.families.base import Family", True),
        ("losses/gibbs.py", "from onedraw.losses.base import Loss", True),
        ("losses/gibbs.py", "from .base import Loss", True),
        ("losses/gibbs.py", "from . import base", True),
        ("losses/gibbs.py", "from ..privacy import guarantee", False),
        ("losses/gibbs.py", "from .. import posterior", False),
        ("losses/gibbs.py", "import onedraw.posterior", False),
        ("losses/gibbs.py", "import onedraw", False),
        ("losses/gibbs.py", "from onedraw import Release", False),
        ("losses/gibbs.py", "from onedraw import families", True),
        ("losses/gibbs.py", "def f():\n    from onedraw import posterior", False),
        ("losses/gibbs.py", "import importlib\nimportlib.import_module('onedraw.cli')", False),
        ("losses/gibbs.py", "import numpy.random, onedrawing", True),
        ("types.py", "from onedraw.errors import InvalidInput", False),
        ("__init__.py", "from onedraw.cli import main", True),
        ("losses/__init__.py", "from onedraw.losses.gibbs import Gibbs", True),
        ("losses/__init__.py", "from .gibbs import Gibbs", True),
    ],
)
def test_the_rule_itself(file, source, allowed):
    assert (not list(violations(PACKAGE / file, source))) is allowed


# -- who may do what


def uses(name, *, called=False):
    """The modules, as dotted names below the package, that import ``name`` or (if asked) call it."""
    found = set()
    for path in modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom | ast.Import) and not called:
                hit = any(alias.name.split(".")[-1] == name for alias in node.names)
            elif isinstance(node, ast.Call) and called:
                hit = ast.unparse(node.func).split(".")[-1] == name
            elif isinstance(node, ast.Attribute) and not called:
                hit = node.attr == name and ast.unparse(node.value).split(".")[-1] == "private"
            else:
                hit = False
            if hit:
                parts = path.relative_to(PACKAGE).with_suffix("").parts
                found.add(".".join(parts))
    return found


OPENERS = {"publishing", "mechanisms.base", "unsafe"}
"""Who may open a box of private data: the one way to publish, the computation it asks for, and what says that
it is not private."""


def test_only_a_listed_few_open_private_data():
    assert uses("opened") <= OPENERS
    reached_around = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if re.search(r"\._open\b|_Private__content", path.read_text(encoding="utf-8"))
    }
    assert reached_around == {"private.py"}


def test_a_release_is_made_of_data_in_one_place_only():
    """Elsewhere a release is read from its file (``cls(...)`` in ``release`` itself)."""
    makers = uses("Release", called=True)
    assert makers <= {"publishing", "release.release", "release.file"}
    assert "publishing" in makers


def test_only_publishing_computes_a_mechanism_and_charges_a_ledger():
    computing = {module for module in uses("compute", called=True) if not module.startswith("research.")}
    assert computing <= {"publishing", "audit.releasing"}  # an audit looks at what publish would let out
    assert uses("charge", called=True) <= {"publishing", "cli.ledger"}
    assert uses("check_affordable", called=True) == {"publishing"}


# -- any order of imports


def test_no_name_of_a_package_hides_a_module_of_it():
    """``from package import name`` must not mean a function or the module of that name by what came first."""
    hidden = []
    for path in modules():
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] in ("__init__", "__main__"):
            continue
        init = path.with_name("__init__.py")
        if not init.exists():
            continue
        tree = ast.parse(init.read_text(encoding="utf-8"))
        bound = {
            alias.asname or alias.name: node.module
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        package = ".".join(["onedraw", *parts[:-1]])
        if parts[-1] in bound and bound[parts[-1]] != package:
            hidden.append(f"{package}.{parts[-1]}")
    assert hidden == []
