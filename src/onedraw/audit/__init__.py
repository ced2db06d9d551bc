# SPDX-License-Identifier: Apache-2.0
"""Audits: attacks on mechanisms, and lower bounds on the epsilon that they really give."""

from onedraw.audit.attack import Attack, log_ratio, membership_attack
from onedraw.audit.black_box import black_box_audit
from onedraw.audit.bounds import (
    Bound,
    Counts,
    bayesian,
    best_threshold,
    clopper_pearson,
    gaussian,
    held_out_counts,
    one_run,
)
from onedraw.audit.closed_forms import NoiseDensity
from onedraw.audit.exact import ExactAudit, Laws, output_laws, worst_pair
from onedraw.audit.finding import Finding
from onedraw.audit.pairs import Pair, canary_pairs, neighbours_of, paper_pair
from onedraw.audit.report import table
from onedraw.audit.single_run import one_run_audit

__all__ = [
    "Attack",
    "Bound",
    "Counts",
    "ExactAudit",
    "Finding",
    "Laws",
    "NoiseDensity",
    "Pair",
    "bayesian",
    "best_threshold",
    "black_box_audit",
    "canary_pairs",
    "clopper_pearson",
    "gaussian",
    "held_out_counts",
    "log_ratio",
    "membership_attack",
    "neighbours_of",
    "one_run",
    "one_run_audit",
    "output_laws",
    "paper_pair",
    "table",
    "worst_pair",
]
