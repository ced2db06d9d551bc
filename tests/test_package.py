# SPDX-License-Identifier: Apache-2.0
import importlib.metadata
import re
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

import onedraw
from onedraw._version import __version__

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def repository_files():
    """All files that are, or could be, committed; in a copy without git, all but caches and environments."""
    git = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split("\0")
        paths = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        hidden = {".git", ".venv", ".venv.lock", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
        hidden.add("__pycache__")
        paths = [p for p in ROOT.rglob("*") if not hidden.intersection(p.relative_to(ROOT).parts)]
    return sorted(path for path in paths if path.is_file())


OPTIONAL = "arviz blackjax click jax matplotlib numpyro optax pandas polars pyarrow rich scipy.stats yaml"


def test_importing_loads_no_optional_dependency():
    """None but those that scikit-learn loads by itself where they are installed, such as pandas."""
    loaded = f"import sys; print(*(m for m in {OPTIONAL!r}.split() if m in sys.modules))"
    ours = set(run_python(f"import onedraw; {loaded}").split())
    theirs = set(run_python(f"import sklearn.linear_model; {loaded}").split())
    assert ours <= theirs
    assert not theirs & {"jax", "matplotlib"}


@pytest.mark.slow
def test_importing_takes_less_than_twice_as_long_as_scikit_learn():
    """A ratio of best times, measured in turns, so that a busy machine slows both alike."""
    best = {"import onedraw": float("inf"), "import sklearn.linear_model": float("inf")}
    for _ in range(5):
        for code in best:
            start = time.perf_counter()
            run_python(code)
            best[code] = min(best[code], time.perf_counter() - start)
    ours, theirs = best.values()
    assert ours < 2 * theirs, f"import onedraw takes {ours:.2f} s, scikit-learn {theirs:.2f} s"


def test_public_names_are_one_sorted_list_and_complete():
    public = {
        name
        for name, value in vars(onedraw).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    public.discard("annotations")  # from __future__
    listed = list(onedraw.__all__)
    assert listed == sorted(set(listed))
    # Modules become attributes when anybody imports them, so only the listed ones count. Names loaded on
    # first use are not in vars yet, but getattr must find them.
    assert public <= set(listed), f"not in __all__: {sorted(public - set(listed))}"
    missing = [name for name in listed if not hasattr(onedraw, name)]
    assert not missing, f"in __all__ but not there: {missing}"


def test_dir_shows_the_public_names():
    assert set(onedraw.__all__) <= set(dir(onedraw))


def test_version_is_the_installed_one():
    try:
        installed = importlib.metadata.version("onedraw")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("run from a checkout that is not installed")
    assert onedraw.__version__ == __version__ == installed


def test_the_types_are_shipped():
    assert (Path(onedraw.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_source_file_names_its_licence(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n"), "the first line must be the SPDX line"


# Written in pieces, so that this file does not match itself.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"(?<![\w.~-])/" + r"(?:work|root|tmp|Users|home/\w+)/",
            r"[A-Z]:" + r"\\Users\\",
            r"python" + r"hosted\.org",
            r"py" + r"pi\.org/simple",
            r"https?://(?:[\w-]+\.)*" + r"(?:registry|artifactory|nexus)\b",
            r"ind" + r"ex-url",
            r"find" + r"-links",
        ]
    )
)


@pytest.mark.parametrize("text", ["see /ro" + "ot/x", "'/wo" + "rk/main'", "--ind" + "ex-url http://a"])
def test_the_search_for_machine_paths_finds_them(text):
    assert FORBIDDEN.search(text)


def test_no_file_names_a_machine_path_or_a_package_registry():
    found = []
    for path in repository_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if FORBIDDEN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not found, "\n".join(found)
