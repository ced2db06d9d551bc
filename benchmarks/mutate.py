# SPDX-License-Identifier: Apache-2.0
"""Plant bugs one at a time and see whether the tests notice.

Each entry of tests/mutations/*.toml replaces one string of one file by another, such that privacy or validity
breaks, and names the tests that should fail. They run in a temporary copy of the tree, never in the checkout:
first all named tests as they are, which must pass, then the tests of each bug with that bug planted. A bug is
caught if a test fails; a file that can no longer be imported is a mistake of the entry, not a catch.

    scripts/mutate                       all, going on where the last run stopped
    scripts/mutate --only tilted ledger  those whose name or parts hold one of the words
    scripts/mutate --sample 10           ten quick ones, others with every commit
    scripts/mutate --write               ... and the table written to docs/audit.md
    scripts/mutate --again               forget what earlier runs found

A result is kept in .mutations.jsonl for as long as entry, mutated file and test files stay as they are. Exits
with 1 if a bug was missed that no entry explains.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
ENTRIES = ROOT / "tests" / "mutations"
KEPT = ROOT / ".mutations.jsonl"
COPIED = ("src", "tests", "docs", "benchmarks", "examples", "scripts", "pyproject.toml", "README.md")
LIMIT = 120
"""Seconds of processor time for the tests of one bug: a bug that hangs is a mistake of its entry."""
PASSED, FAILED = 0, 1
"""What pytest says of tests that ran; anything else means that they did not."""


@dataclass(frozen=True, kw_only=True)
class Bug:
    """A planted bug: ``find``, which stands exactly once in ``file``, becomes ``replace``."""

    name: str
    of: tuple[str, ...]
    """What it breaks: names of mechanisms and families, or parts of the library."""
    file: str
    find: str
    replace: str
    why: str
    tests: tuple[str, ...]
    """Pytest's names of the tests that should fail."""
    missed: str = ""
    """Why no test catches it, where none does."""
    slow: bool = False
    """Whether it takes too long for a sample."""

    def planted(self, text: str) -> str:
        """The text of the file with the bug in it."""
        if text.count(self.find) != 1:
            raise SystemExit(f"{self.name}: {text.count(self.find)} times in {self.file}:\n{self.find}")
        return text.replace(self.find, self.replace)

    @property
    def test_files(self) -> tuple[str, ...]:
        """The files of the tests."""
        return tuple(dict.fromkeys(test.partition("::")[0] for test in self.tests))

    def digest(self, root: Path = ROOT) -> str:
        """Of all that decides the result, as far as files say it."""
        found = hashlib.sha256(repr((self.file, self.find, self.replace, self.tests)).encode())
        for path in (self.file, *self.test_files):
            found.update((root / path).read_bytes())
        return found.hexdigest()[:16]


def bugs(folder: Path = ENTRIES) -> list[Bug]:
    """All entries, in the order of the files."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["bug"]:
            listed = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
            found.append(Bug(**listed))
    return found


@dataclass(frozen=True, kw_only=True)
class Result:
    """Whether the tests noticed a bug, and how long they took."""

    name: str
    digest: str
    caught: bool
    seconds: float
    by: str = ""
    """The test that failed."""


class Copy:
    """A copy of the tree in a temporary folder, whose package the tests import."""

    def __init__(self, folder: str) -> None:
        self.root = Path(folder)
        for name in COPIED:
            source, target = ROOT / name, self.root / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)

    def run(self, tests: tuple[str, ...], limit: int | None = None) -> tuple[int, str]:
        """What pytest says of the tests, and the first that failed. Forked: libraries are loaded once."""
        log = self.root / "log.txt"
        child = os.fork()
        if not child:
            self._child(tests, log, limit)
        _, status = os.waitpid(child, 0)
        text = log.read_text(encoding="utf-8", errors="replace")
        failed = [line.split()[1] for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        code = os.waitstatus_to_exitcode(status)
        return code, failed[0] if code == FAILED and failed else text[-2000:]

    def _child(self, tests: tuple[str, ...], log: Path, limit: int | None) -> None:
        code = 70
        try:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            os.chdir(self.root)
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            sys.path.insert(0, str(self.root / "src"))
            os.environ["PYTHONPATH"] = str(self.root / "src")  # for processes that tests start
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # a planted bug must not be kept
            sys.dont_write_bytecode = True
            import pytest

            code = int(pytest.main(["-x", "-q", "-n0", "-p", "no:cacheprovider", *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def with_bug(self, bug: Bug) -> Result:
        """Plant, test, restore."""
        path, began = self.root / bug.file, time.perf_counter()
        sound = path.read_text(encoding="utf-8")
        path.write_text(bug.planted(sound), encoding="utf-8")
        try:
            code, said = self.run(bug.tests, LIMIT)
        finally:
            path.write_text(sound, encoding="utf-8")
        if code not in (PASSED, FAILED):
            raise SystemExit(f"{bug.name}: the tests did not run (pytest says {code}):\n{said}")
        return Result(
            name=bug.name,
            digest=bug.digest(),
            caught=code == FAILED,
            seconds=round(time.perf_counter() - began, 1),
            by=said if code == FAILED else "",
        )


def preload() -> None:
    """What most tests import, other than the package itself: forked children need not load it again."""
    for name in ("pytest", "scipy.optimize", "scipy.special", "scipy.stats", "sklearn.linear_model"):
        importlib.import_module(name)


def run(chosen: list[Bug], known: dict[str, Result], *, keep: bool) -> Iterator[Result]:
    """The results of the chosen bugs; those that are known already are not sought again."""
    open_ = [bug for bug in chosen if bug.name not in known]
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        if open_:
            preload()
            copy = Copy(folder)
            code, said = copy.run(tuple(dict.fromkeys(test for bug in open_ for test in bug.tests)))
            if code != PASSED:
                raise SystemExit(f"Without any bug the tests do not pass (pytest says {code}):\n{said}")
        for bug in chosen:
            result = known.get(bug.name) or copy.with_bug(bug)
            if keep and bug.name not in known:
                with KEPT.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(vars(result)) + "\n")
            yield result


def kept(every: list[Bug]) -> dict[str, Result]:
    """Results of earlier runs that still hold."""
    digests = {bug.name: bug.digest() for bug in every}
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    found = [Result(**json.loads(line)) for line in lines]
    return {result.name: result for result in found if digests.get(result.name) == result.digest}


def sample(every: list[Bug], size: int, turn: int) -> list[Bug]:
    """The ``turn``-th sample of quick bugs; all have been in one after as many turns as it takes."""
    quick = [bug for bug in every if not bug.slow and not bug.missed]
    # Spread over the list, so that a sample holds bugs of different parts.
    places = [(turn + i * max(1, len(quick) // size)) % len(quick) for i in range(min(size, len(quick)))]
    return [quick[place] for place in dict.fromkeys(places)]


def commits() -> int:
    """The number of commits so far, 0 outside a repository: it turns the samples."""
    told = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(told.stdout) if told.returncode == 0 else 0


def page(every: list[Bug], results: dict[str, Result]) -> str:
    """The table of docs/audit.md."""
    from _table import markdown

    rows = []
    for bug in every:
        found = results.get(bug.name)
        by = "-" if found is None else found.by.partition("::")[2].partition("[")[0] or "-"
        outcome = "caught" if found is not None and found.caught else f"missed: {bug.missed}"
        rows.append([bug.name, ", ".join(bug.of), bug.why, "not run" if found is None else outcome, by])
    caught = sum(result.caught for result in results.values())
    left = len(every) - len(results)
    return (
        f"{caught} of {len(results)} caught ({caught / max(1, len(results)):.0%})"
        + (f"; {left} more, new or in files that changed since, are still to be run" if left else "")
        + ".\n\n"
        + markdown(["bug", "part", "what it breaks", "outcome", "first test that failed"], rows)
    )


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="WORD", default=[])
    parser.add_argument("--sample", type=int, metavar="NUMBER")
    parser.add_argument("--write", action="store_true", help="write the table to docs/audit.md")
    parser.add_argument("--again", action="store_true", help="forget what earlier runs found")
    options = parser.parse_args(arguments)
    every = bugs()
    chosen = [b for b in every if not options.only or any(w in (b.name, *b.of) for w in options.only)]
    if options.sample is not None:
        chosen = sample(chosen, options.sample, commits())
    if options.again:
        KEPT.unlink(missing_ok=True)
    known = {} if options.sample is not None else kept(every)
    results: dict[str, Result] = {}
    for result in run(chosen, known, keep=options.sample is None):
        results[result.name] = result
        outcome = "caught" if result.caught else "MISSED"
        print(f"{outcome}  {result.name:40} {result.seconds:6.1f} s  {result.by}", flush=True)
    explained = {bug.name for bug in every if bug.missed}
    bad = [name for name, result in results.items() if result.caught == (name in explained)]
    print(f"{sum(result.caught for result in results.values())} of {len(results)} caught")
    if bad:
        print("missed without an explanation, or caught in spite of one:", ", ".join(bad))
    if options.write:
        from _table import write_section

        write_section(ROOT / "docs" / "audit.md", "mutations", page(every, {**known, **results}))
    return 1 if bad else 0


def defined_tests(path: Path) -> set[str]:
    """The names of the test functions in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


if __name__ == "__main__":
    raise SystemExit(main())
