# SPDX-License-Identifier: Apache-2.0
"""Attack every mechanism of the library, under each neighbouring relation that it offers.

The mechanisms are those of ``onedraw.audit.subjects``. Exits with 6 if a claimed epsilon is contradicted. At
95% confidence one sound claim in twenty may be contradicted by chance; the nightly run therefore spends its
5% on all rows of the list together (each has confidence 1 - 0.05/rows, also where only some are run).

    scripts/audit                            epsilon 1, 10,000 rounds each, fewer of slow mechanisms
    scripts/audit --write                    ... and the table written to docs/audit.md
    scripts/audit --write --only fast_mh     ... its rows only, beside those that are there
    scripts/audit --rounds 500 --tries 20 --only one_posterior adassp
    scripts/audit --checkpoint audit-runs    go on after an interruption
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from _table import machine, markdown, read_notes, read_section, write_section

from onedraw.audit.report import table
from onedraw.audit.subjects import SUBJECTS, audit_subject
from onedraw.errors import MissingExtra
from onedraw.reports.audit import draw_audit
from onedraw.reports.canvas import as_bytes, picture_format

PAGE = Path(__file__).parent.parent / "docs" / "audit.md"
HEADER = [
    "mechanism",
    "neighbours",
    "claimed",
    "delta",
    "exact",
    "lower bound",
    "if Gaussian",
    "of at most",
    "rounds",
    "verdict",
]
CONTRADICTED = 6


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=10_000, help="on both data sets together")
    parser.add_argument("--tries", type=int, default=200, help="random pairs of the exact search")
    parser.add_argument("--only", nargs="+", choices=list(SUBJECTS), default=list(SUBJECTS), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--checkpoint", type=Path, help="folder for finished runs")
    parser.add_argument("--out", type=Path, help="a picture of the trade-off curves")
    parser.add_argument("--write", action="store_true", help="write the table to docs/audit.md")
    options = parser.parse_args(arguments)
    tasks = [(SUBJECTS[name], relation) for name in options.only for relation in SUBJECTS[name].relations]
    confidence = 1.0 - 0.05 / sum(len(subject.relations) for subject in SUBJECTS.values())
    if options.checkpoint is not None:
        options.checkpoint.mkdir(parents=True, exist_ok=True)
    findings = []
    for subject, relation in tasks:
        began = time.perf_counter()
        checkpoint = options.checkpoint and str(options.checkpoint / runs_file(subject.name, relation))
        try:
            finding = audit_subject(
                subject,
                epsilon=options.epsilon,
                neighbours=relation,
                rounds=options.rounds // subject.slowness,
                tries=options.tries,
                confidence=confidence,
                random_state=options.seed,
                n_jobs=options.jobs,
                checkpoint=checkpoint,
                progress=sys.stderr.isatty(),
            )
        except MissingExtra as missing:
            print(f"{subject.name} is skipped. {missing}", flush=True)
            continue
        findings.append(finding)
        print(table([finding]).splitlines()[1], f"({time.perf_counter() - began:.0f} s)", flush=True)
    print("", table(findings), sep="\n")
    if options.out is not None:
        options.out.write_bytes(as_bytes(draw_audit(findings), picture_format(str(options.out))))
    if options.write:
        run = [name for name in options.only if any(finding.name == name for finding in findings)]
        write_rows([as_row(finding) for finding in findings], run, _note(options, confidence))
    return CONTRADICTED if any(finding.contradicted for finding in findings) else 0


def runs_file(name: str, relation: str) -> str:
    """Where the finished runs of a subject are; no colon, which not every file system allows."""
    return f"{name.replace(':', '-')}-{relation}.jsonl"


def write_rows(rows: list[list[str]], only: list[str], note: str) -> None:
    """Put the rows into the table of docs/audit.md, in its order, in place of those of the same subjects."""
    every = set(only) == set(SUBJECTS)
    kept = [] if every else [row for row in read_section(PAGE, "audit") if row[0] not in only]
    notes = [note] if every else [*read_notes(PAGE, "audit"), f"Rows of {', '.join(only)}: {note}"]
    order = list(SUBJECTS)
    table = sorted([*kept, *rows], key=lambda row: order.index(row[0]))  # stable: relations stay in order
    write_section(PAGE, "audit", "\n\n".join([markdown(HEADER, table), *notes]))


def as_row(finding: Any) -> list[str]:
    """Its row of docs/audit.md."""
    return [
        finding.name,
        finding.claimed.neighbours,
        f"{finding.claimed.epsilon:g}",
        f"{finding.claimed.delta:g}",
        "-" if finding.exact_epsilon is None else f"{finding.exact_epsilon:.4f}",
        f"{finding.lower_bound.epsilon:.3f}",
        f"{finding.bounds['gaussian'].epsilon:.3f}" if "gaussian" in finding.bounds else "-",
        f"{finding.lower_bound.largest:.2f}",
        f"{finding.attack.rounds:,}",
        finding.verdict,
    ]


def _note(options: argparse.Namespace, confidence: float) -> str:
    return (
        f"`scripts/audit --epsilon {options.epsilon:g} --rounds {options.rounds} --tries {options.tries} "
        f"--seed {options.seed}`. Each lower bound holds with confidence {confidence:.2%}, so all of them "
        f"together with 95%. Run on {machine()}."
    )


if __name__ == "__main__":
    raise SystemExit(main())
