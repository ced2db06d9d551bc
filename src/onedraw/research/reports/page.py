# SPDX-License-Identifier: Apache-2.0
"""The page of the reproduction: both versions side by side, every claim with its verdict."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onedraw.research.datasets.registry import DATASETS
from onedraw.research.experiments import EXPERIMENTS, VERSIONS
from onedraw.research.experiments.table import distinct, from_csv

INTRODUCTION = """\
# Reproduction of the paper

The experiments of Jewson, Ghalebikesabi and Holmes, *Differentially Private Statistical Inference
through β-Divergence One Posterior Sampling* (NeurIPS 2023), on exact draws instead of Markov chains
wherever there is an exact sampler: everywhere but for networks.
This page is written by

```sh
onedraw reproduce all --version both --out docs/reproduction --page docs/reproduction.md
```

**Two versions.** *Corrected* (the default) claims only what is true: noise of a proved scale, public
bounds for scaling; beside the paper's methods it has two of this library, the draw with β and w chosen
together and the tilted fit, its default, so that what is gained at the same epsilon can be seen. *As
published* keeps the published calibration and noise with their errors, and labels each curve by the
guarantee that it really has. Brackets in the legends are that guarantee; shaded bands are two standard
errors.

**Reading the verdicts.** A claim is checked case by case (per epsilon, or per data set and epsilon).
Methods are compared on the same data sets, repetition by repetition: a case counts only if the mean
difference is beyond two standard errors, and is a tie otherwise. "Holds in part (3 of 5, 1 tie)" means
that three of five cases bear the claim out, one shows no difference, and one contradicts it. The paper's
method is the draw with weight 1; network regression cannot reach these epsilons with it, so there, in the
corrected version, it is the draw with β and w chosen together.

Chaudhuri's penalty covers the intercept too: on unbalanced data (adult) with λ = 1/9 the coefficients have
to make up for it, and even the non-private twin ranks the wrong way round. So do the networks of few
steps of DP-SGD on these data.

**What differs from the paper.** Draws are exact as far as a search goes (evidence `searched`), and each
cell averages several of them instead of drawing once. Simulated coefficients are N(0, 3²) as in the text,
with an intercept that makes the mean predictor zero; those of the published code, N(0, 9²), have a
section of their own, because the choice turns verdicts; all methods keep the prior N(0, 3²) in both. That
section goes to n = 1,000, and claims about non-private twins, judged at n = 100,000 elsewhere, were taken
out of it after they had been seen: there the draw did not approach its twin (0 of 7), and both claims
about Chaudhuri held. Ordered classes of the breast-cancer data are read as the middle of their interval.
The UCI runs have 5 splits with 10 draws each, where the paper has 50 runs with one draw.

**What the tilted fit gains, and where it does not.** On simulated logistic regressions with two features its
error falls faster than that of the draw with weight 1: it is ahead in 53 of 56 cases and level in three, with
20 records too (at n = 100,000 and epsilon 0.2 its RMSE is about a fifteenth). It knows no prior, so it is
behind where records are few for the coefficients: at n = 1,000 with 8 features and little epsilon, and mostly
from 16 on. On all rows of the UCI data it is level with the draw in 11 of 24 cases, ahead in 5 and behind in
8. In place of a network, without a hidden layer, it is level or ahead in classification of simulated data and
in regression of them with 1,000 records; with few records and little epsilon its regressions are far behind.

**Networks** are the exception: a draw is a state of one Markov chain, as in the paper, and its guarantee
assumes that the chain has converged; the estimators of this library run four chains and check them. How long
the chains are is said below. Not every such chain converges: of five with 250 warm-up iterations that were
run again four times as long, four changed their score by less than 0.07, and one on kin8nm fell from a log
RMSE of -1.50 to -1.83. This counts against the draw. Chains are computed in single precision, which takes
half the time of double precision with 1,000 records: of twenty means over 24 chains each, of log densities,
outputs and their variances, the two differ by at most 2.1 standard errors.

There are 10 repetitions of figures 3 and 9 on simulated data and 5 on UCI data and of figure 10, too few for
small differences; each cell averages five releases. The 10 were not planned: with 5, every case of network
regression on simulated data was a tie, in both versions, and the number was raised after that was seen, so
these verdicts are less certain than two standard errors suggest.

**Tilted fits in place of networks.** Beside networks stands the tilted fit without a hidden layer, on the
features as they are. A tilted fit on public random units of the features was compared with it, with the draw
and with DP-SGD by a rule that was fixed first (`random-units`); it is not offered, because it loses to the
fit without a hidden layer where the truth is nearly linear, and gains only on kin8nm, where the draw of a
network is better than both (with 1,000 records at epsilon 5 its log RMSE is -1.72, against -1.32 and -1.30).

The paper does not say how responses are scaled; here
public bounds (as published: the extremes of the training rows) are mapped to [-1, 1], and RMSE is in those
units. Simulated networks are the published ones, drawn again if they have less than a tenth of one class;
with two features, even the true one ranks only a little better than chance.
"""

FEATURES = (2, 4, 8, 16, 32)
SIMULATED_EPSILONS = (0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
UCI_GRID = {"n": (10, 20, 50, 100, 200, 500, 1000), "epsilon": (0.2, 0.5, 1.0, 5.0)}
NETWORK_GRID = {"n": (50, 100, 200, 500, 1000), "epsilon": SIMULATED_EPSILONS}
PAPER_GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "logistic-simulated": {"n": (20, 50, 100, 200, 500, 1000), "epsilon": (0.1, *SIMULATED_EPSILONS)},
    "logistic-uci": UCI_GRID,
    "network-regression": NETWORK_GRID,
    "network-regression-uci": UCI_GRID,
    "network-classification": NETWORK_GRID,
    "network-classification-uci": UCI_GRID,
    "dimensions": {"d": FEATURES, "epsilon": SIMULATED_EPSILONS},
    "network-dimensions": {"d": FEATURES, "epsilon": SIMULATED_EPSILONS},
}
"""Where the paper looks, by experiment."""
COARSER_EVERYWHERE = (
    "UCI data have 5 splits (the paper: 50 runs), and networks no more than 1,000 of their records (the "
    "paper: also all of them)."
)
CHAINS = (
    "Chains of networks start near a mode, have trajectories of at most 64 steps, and keep 50 iterations. "
    "They have {} warm-up iterations (the paper's text: 1,000, and 100 kept; its code: 500 and 50). "
)
OLDER_WARMUP = 250
"""Of reports that do not say."""

FULL = """\
> **This page comes from {} runs at full size**{}.

"""

SMOKE = """\
> **This page comes from a smoke run**: tiny grids and short chains that show that everything runs. No claim
> is judged on it, and its pictures say nothing about any method.

"""

RUNNING = """\
## Running it

`onedraw reproduce --list` names the experiments; `--size smoke` runs each in seconds or, for networks,
which need `pip install 'onedraw[jax]'`, in half a minute. The UCI data are read from the folder that the
environment variable `ONEDRAW_DATA` names; its files are listed below. Without such a folder the package asks
OpenML for the copies that it can check, a way that was tested with a stand-in for the server only. A run
can be stopped at any moment and goes on where it stopped; finished cells lie in the folder `cells` beside
the results. With `--minutes` it stops by itself, and reports the repetitions that are complete. The numbers
do not depend on the number of workers (`--jobs`). `onedraw reproduce all --redraw --version both --out FOLDER
--page PAGE` draws the pictures and writes the page anew from the numbers in the folder; nothing is computed.

From Python, cells go to whatever joblib is told, for example threads, or a cluster: after `Client(...)`
of `dask.distributed`, write `backend="dask"`.

```python
import joblib
from onedraw.research.experiments import EXPERIMENTS, run

with joblib.parallel_config(backend="threading"):
    results = run(EXPERIMENTS["gaussian-calibration"], size="smoke", folder="cells", jobs=2)
for statement, verdict in results.verdicts:
    print(statement, verdict)
```
"""


def read_reports(folder: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """Reports by experiment and version, in the order of the paper."""
    found: dict[str, dict[str, Any]] = {}
    for name in EXPERIMENTS:
        for version in VERSIONS:
            path = Path(folder) / f"{name}.{version}.json"
            if path.exists():
                found.setdefault(name, {})[version] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write_page(folder: str | os.PathLike[str], page: str | os.PathLike[str]) -> None:
    """The page, from all reports in ``folder``."""
    reports, target = read_reports(folder), Path(page)
    base = Path(os.path.relpath(folder, target.parent)).as_posix()
    listed = [report for by_version in reports.values() for report in by_version.values()]
    smoke = any(report["size"] == "smoke" for report in listed)
    others = [_count(r) for r in listed if not smoke and _differs(r)]
    parts = [
        (SMOKE if smoke else FULL.format(len(listed), _which(len(others)))) + INTRODUCTION,
        _numbering(reports),
        _coarser(reports, Path(folder), others),
        _overview(reports),
        *(_section(base, by) for by in reports.values()),
        RUNNING,
        _files(),
    ]
    target.write_text("\n".join(part.rstrip("\n") + "\n" for part in parts), encoding="utf-8")


def _numbering(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """Figures by the paper's numbers, and the experiments that they come from."""
    lines = ["## Figures by the paper's numbers", "", "| figure | experiment |", "|---|---|"]
    found: dict[str, list[str]] = {}
    for name, by_version in reports.items():
        first = next(iter(by_version.values()))
        place = f"[{first['title']}](#{_anchor(first['title'])}), `{name}`"
        for figure in first["figures"].split(", "):
            found.setdefault(figure, []).append(place)
    ordered = sorted(found, key=_place)
    return "\n".join([*lines, *(f"| {figure} | {'; '.join(found[figure])} |" for figure in ordered)])


def _place(figure: str) -> tuple[bool, int]:
    """Numbers first, in their order; tables and theory after them."""
    number = figure.split()[0]
    return not number.isdigit(), int(number) if number.isdigit() else 0


def _differs(report: Mapping[str, Any]) -> bool:
    """Whether the experiment has other cells by now than those of the report, or more of them."""
    experiment = EXPERIMENTS[report["experiment"]]
    which = (report["version"], report["size"])
    now = experiment.fingerprint(*which), len(experiment.listed(*which))
    return (report["spec"], report["cells"]) != now


def _count(report: Mapping[str, Any]) -> str:
    """Which report it is, and how many of today's cells it has."""
    now = len(EXPERIMENTS[report["experiment"]].listed(report["version"], report["size"]))
    return f"{report['experiment']} ({report['version']}: {report['cells']} of {now})"


def _which(others: int) -> str:
    if not others:
        return ", with the cells of this version's specification"
    return (
        f", {others} of them with fewer or other cells than this version's specification (named under "
        '"What is coarser than the paper")'
    )


def _coarser(reports: Mapping[str, Mapping[str, Any]], folder: Path, others: list[str]) -> str:
    """Which n, d and epsilons of the paper the numbers in the folder do not have."""
    lines = ["## What is coarser than the paper", "", f"{_chains(reports)}{COARSER_EVERYWHERE}", ""]
    if others:
        lines += [f"Computed with fewer or other cells than the specification has: {', '.join(others)}.", ""]
    rows = []
    for name, grid in PAPER_GRIDS.items():
        for version, report in reports.get(name, {}).items():
            found, _ = from_csv((folder / f"{name}.{version}.csv").read_text(encoding="utf-8"))
            missing = [
                f"{column} {', '.join(f'{value:g}' for value in absent)}"
                for column, wanted in grid.items()
                if (absent := [value for value in wanted if value not in distinct(found, column)])
            ]
            if missing:
                rows.append(f"| {report['figures']} | `{name}`, {version} | {'; '.join(missing)} |")
    if not rows:
        return "\n".join([*lines, "Every n, d and epsilon of the paper's figures is here."])
    return "\n".join([*lines, "| figure | experiment | missing |", "|---|---|---|", *rows])


def _chains(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """How long the chains behind these numbers are."""
    found: dict[int, list[str]] = {}
    for name, by_version in reports.items():
        if EXPERIMENTS[name].extra is None:
            continue
        for version, report in by_version.items():
            found.setdefault(report.get("warmup") or OLDER_WARMUP, []).append(f"{name} ({version})")
    if not found:
        return ""
    told = [f"{length} ({', '.join(names)})" for length, names in sorted(found.items())]
    return CHAINS.format(str(next(iter(found))) if len(found) == 1 else " or ".join(told))


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


def _files() -> str:
    """The files of the data sets, with their checksums."""
    lines = [
        "## Files of the data sets",
        "",
        "Put these into one folder, as they are published, and name the folder by `ONEDRAW_DATA`. A file",
        "with another checksum is refused.",
        "",
        "| data set | file | source | SHA-256 |",
        "|---|---|---|---|",
    ]
    rows = [f"| {d.name} | `{d.file}` | {d.source} | `{d.sha256}` |" for d in DATASETS.values()]
    return "\n".join([*lines, *rows])


def _overview(reports: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["## Every claim", "", "| figure | claim | corrected | as published |", "|---|---|---|---|"]
    for by_version in reports.values():
        first = next(iter(by_version.values()))
        for claim in first["claims"]:
            words = [_word(by_version.get(version), claim["statement"]) for version in VERSIONS]
            lines.append(f"| {first['figures']} | {claim['statement']} | {words[0]} | {words[1]} |")
    return "\n".join([*lines, "", _time(reports)])


def _claim(report: Mapping[str, Any] | None, statement: str) -> Mapping[str, Any] | None:
    """What a report says of a claim; nothing if it has none of these words, or no case of it."""
    found = [] if report is None else [c for c in report["claims"] if c["statement"] == statement]
    return found[0] if found and found[0]["cases"] else None


def _word(report: Mapping[str, Any] | None, statement: str) -> str:
    """The verdict on a claim in a word or two; smoke runs judge none."""
    claim = _claim(report, statement)
    if report is None or claim is None:
        return "–"
    if report["size"] == "smoke":
        return "not judged"
    return f"{claim['verdict'].lower()} {claim['count']}".rstrip()


def _time(reports: Mapping[str, Mapping[str, Any]]) -> str:
    listed = [report for by_version in reports.values() for report in by_version.values()]
    seconds = {f"{r['experiment']} ({r['version']})": r["seconds"] for r in listed}
    versions = ", ".join(f"{k} {v}" for k, v in listed[0]["versions"].items()) if listed else ""
    longest = sorted(seconds.items(), key=lambda item: -item[1])[:3]
    parts = ", ".join(f"{name} {value / 60.0:.1f}" for name, value in longest)
    return (
        f"The runs behind this page took {sum(seconds.values()) / 60.0:.0f} minutes of one core in all, "
        "cells that both versions share counted in both (the paper: about two hours). The longest, in "
        f"minutes: {parts}. {versions}."
    )


def _section(base: str, by_version: Mapping[str, Any]) -> str:
    first = next(iter(by_version.values()))
    figure = first["figures"]
    if not figure[0].isalpha():
        figure = f"figures {figure}" if "," in figure else f"figure {figure}"
    lines = [f"## {first['title']}", "", f"`onedraw reproduce {first['experiment']}`, {figure}.", ""]
    for version, report in by_version.items():
        tag = f"{report['cells']} cells, specification `{report['spec']}`, seed {report['seed']}"
        numbers = f"[numbers]({base}/{report['experiment']}.{version}.csv)"
        lines.append(f"*{_plain(version)}:* {report['note']} ({tag}; {numbers})")
        lines.append("")
    for statement in (claim["statement"] for claim in first["claims"]):
        lines.append(f"**{statement}**")
        lines.append("")
        for version, report in by_version.items():
            claim = _claim(report, statement)
            numbers = "not part of this version." if claim is None else claim["numbers"]
            lines.append(f"- {_plain(version)}: {_word(report, statement)}: {numbers}")
        lines.append("")
    if first["table"]:
        lines += [_table(first["table"]), ""]
    for i, picture in enumerate(first["pictures"]):
        shown = [(v, r["pictures"][i]["file"]) for v, r in by_version.items() if i < len(r["pictures"])]
        lines += [f"| {' | '.join(_plain(v) for v, _ in shown)} |", f"|{'---|' * len(shown)}"]
        images = [f"![{picture['title']}]({base}/{file})" for _, file in shown]
        lines += [f"| {' | '.join(images)} |", ""]
    return "\n".join(lines)


def _table(rows: list[dict[str, Any]]) -> str:
    columns = [name for name in rows[0] if name not in ("count",) and not name.endswith("_se")]
    columns = [name for name in columns if isinstance(rows[0][name], str)]
    lines = [f"| {' | '.join(name.replace('_', ' ') for name in columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(str(row[name]) for name in columns)} |" for row in rows)])


def _plain(version: str) -> str:
    return version.replace("-", " ").capitalize()
