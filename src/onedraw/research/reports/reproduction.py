# SPDX-License-Identifier: Apache-2.0
"""The results of an experiment as files: numbers, pictures, verdicts."""

from __future__ import annotations

import importlib
import io
import json
import os
from pathlib import Path
from typing import Any

from onedraw.reports.canvas import as_bytes
from onedraw.research.experiments import Experiment, Results
from onedraw.research.experiments.spec import Row, Verdict
from onedraw.research.experiments.table import from_csv, to_csv
from onedraw.research.reports.figures import draw_view

PICTURES = ("png", "svg")
CELLS = "cells"
"""The folder, inside that of the results, of finished cells and full tables; a work file, not a result."""


def publish(results: Results, folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Write the summary (CSV), the pictures and the verdicts (JSON) of one experiment; return the last."""
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    experiment, version = results.experiment, results.version
    stem = f"{experiment.name}.{version}"
    note = experiment.notes.get(version, "")
    (home / f"{stem}.csv").write_text(to_csv(results.summary, results.about), encoding="utf-8")
    pictures = _pictures(experiment, version, results.summary, home)
    report = {
        **results.about,
        "title": experiment.title,
        "figures": experiment.figures,
        "note": note,
        "cells": results.cells,
        "warmup": experiment.sizes[results.about["size"]].get("warmup"),
        "seconds": round(results.seconds, 1),
        "pictures": pictures,
        "table": [] if experiment.views else results.summary,
        "claims": [_checked(statement, verdict) for statement, verdict in results.verdicts],
    }
    return _written(report, home)


def redraw(experiment: Experiment, version: str, folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Draw the pictures of one experiment again, from its numbers in the folder; None if there are none."""
    stem, home = f"{experiment.name}.{version}", Path(folder)
    if not (home / f"{stem}.json").exists():
        return None
    report: dict[str, Any] = json.loads((home / f"{stem}.json").read_text(encoding="utf-8"))
    summary, _ = from_csv((home / f"{stem}.csv").read_text(encoding="utf-8"))
    for claim in report["claims"]:
        claim["verdict"] = Verdict(claim["right"], claim["cases"], "", claim["ties"]).word
    report |= {"title": experiment.title, "figures": experiment.figures}
    report["pictures"] = _pictures(experiment, version, summary, home)
    return _written(report, home)


def _written(report: dict[str, Any], home: Path) -> dict[str, Any]:
    path = home / f"{report['experiment']}.{report['version']}.json"
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


def _pictures(experiment: Experiment, version: str, summary: list[Row], home: Path) -> list[dict[str, str]]:
    """The views that these numbers have, as files."""
    stem, pictures = f"{experiment.name}.{version}", []
    for view in experiment.views:
        figure = draw_view(view, summary, experiment.notes.get(version, ""))
        for form in PICTURES:
            content = as_bytes(figure, form)
            content = with_palette(content) if form == "png" else content
            (home / f"{stem}.{view.name}.{form}").write_bytes(content)
        pictures.append({"name": view.name, "title": view.title, "file": f"{stem}.{view.name}.png"})
    return pictures


def with_palette(png: bytes) -> bytes:
    """The picture in 256 colours that cover all it has, also the rare ones: a page has fifty of them."""
    images = importlib.import_module("PIL.Image")  # Matplotlib itself needs it
    buffer = io.BytesIO()
    picture = images.open(io.BytesIO(png)).convert("RGB").quantize(256, method=1)  # of largest coverage
    picture.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def _checked(statement: str, verdict: Verdict) -> dict[str, Any]:
    return {
        "statement": statement,
        "verdict": verdict.word,
        "right": verdict.right,
        "ties": verdict.ties,
        "cases": verdict.cases,
        "count": verdict.count,
        "numbers": verdict.numbers,
    }
