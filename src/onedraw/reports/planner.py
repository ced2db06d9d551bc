# SPDX-License-Identifier: Apache-2.0
"""A page to plan with: move epsilon, rows and columns, and see error, interval and what one person risks.

It is about a tilted fit to two classes, features uniform on their declared ranges and a linear predictor of
spread 1. For a coefficient over half of its range, with n rows, curvature h = ``CURVATURE``/3 a row and a
tilt of standard deviation s (``onedraw.tilted.calibration``),

    non-private error = 1/sqrt(n h),     error of the noise = s/(n h),

and both add as squares: first-order expansions of the fit, which a test compares with simulated releases. s
depends on epsilon and the number of columns alone; the page holds a table of it, its script does the rest.

>>> round(expected(rows=10_000, columns=5, epsilon=1.0).widening, 2)
1.06
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from onedraw.cautions import FEWEST_PER_PARAMETER
from onedraw.inference import LogisticWeight
from onedraw.mechanisms.tilted_fit import CURVATURE_SHARE
from onedraw.privacy.meaning import percent, posterior
from onedraw.release.html import Markup, element, joined
from onedraw.reports.style import page
from onedraw.tilted.calibration import calibrate
from onedraw.tilted.losses import Logistic
from onedraw.tilted.recipes import BRIER
from onedraw.uncertainty.beforehand import USUAL

CURVATURE = 0.2066
"""E p (1 - p) for a normal predictor of spread 1; uniform features on [-1, 1] have a variance of a third."""
EPSILONS = tuple(round(float(e), 4) for e in np.geomspace(0.1, 10.0, 41))
MOST_COLUMNS = 40
FEWEST_ROWS, MOST_ROWS = 100, 10_000_000
NORMAL = 1.959964


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What to expect of one coefficient, over half of its feature's range."""

    plain: float
    """The error without privacy."""
    error: float
    """The error with privacy."""

    @property
    def widening(self) -> float:
        """How many times as wide an interval is as without privacy."""
        return self.error / self.plain


def expected(*, rows: int, columns: int, epsilon: float) -> Expected:
    """The formula of the page."""
    information = rows * CURVATURE / 3.0
    plain = 1.0 / math.sqrt(information)
    return Expected(plain=plain, error=math.hypot(plain, tilt_sd(columns, epsilon) / information))


@cache
def tilt_sd(columns: int, epsilon: float) -> float:
    """The standard deviation of the tilt where a part of epsilon is spent on the curvature, over how much
    steeper the fit's score is than that of the log loss, at a predictor of spread 1.
    """
    loss, epsilon = Logistic(brier=BRIER), (1.0 - CURVATURE_SHARE) * epsilon
    slopes = [LogisticWeight(c).normal_means(np.zeros(1), np.ones(1))[1, 0] for c in (0.0, BRIER)]
    tilt = calibrate(loss, epsilon=epsilon, dim=columns + 1, geometry="cube").tilt_sd
    return float(tilt * slopes[0] / slopes[1])


def planner_page(*, rows: int, columns: int, epsilon: float = 1.0) -> str:
    """The page, with these values to begin with."""
    # Times epsilon it is nearly constant, so that a straight line between two values will do.
    table = [[round(e * tilt_sd(c, e), 4) for e in EPSILONS] for c in range(1, MOST_COLUMNS + 1)]
    constants = {"epsilons": EPSILONS, "tilt": table, "curvature": CURVATURE, "normal": NORMAL}
    constants |= {"usual": USUAL, "noise": FEWEST_PER_PARAMETER}
    script = f"const KNOWN = {json.dumps(constants)};\n{SCRIPT}"
    return page(
        "Plan a private regression",
        element(
            "header",
            element("p", "Before anything is spent", class_="kind"),
            element("h1", "Plan a private regression"),
            element("p", "Two classes, one row per person. No data were read for this page.", class_="lead"),
        ),
        element(
            "form",
            _slider("epsilon", "Privacy loss ε", math.log10(0.1), math.log10(10.0), math.log10(epsilon)),
            _slider("rows", "Rows", math.log10(FEWEST_ROWS), math.log10(MOST_ROWS), math.log10(rows)),
            _slider("columns", "Columns", 1, MOST_COLUMNS, columns, step=1),
            class_="sliders",
        ),
        _answers(expected(rows=rows, columns=columns, epsilon=epsilon), epsilon),
        element(
            "section",
            element("h2", "The same table at other values of epsilon"),
            element(
                "figure", Markup('<svg id="curve" class="forest" width="100%" height="260" role="img"></svg>')
            ),
            element(
                "p",
                "How many times as wide an interval is as without privacy. The dot is your plan.",
                class_="notes",
            ),
        ),
        element("section", element("h2", "What this rests on"), element("p", RESTS, class_="notes")),
        script=script,
    )


RESTS = (
    "Features spread evenly over declared ranges, an outcome that is neither rare nor fixed, and effects of "
    "ordinary size; a first-order expansion of the tilted fit, with a quarter of epsilon spent on what "
    "intervals need. Rare outcomes, narrow columns and columns that go together need more rows, with and "
    "without privacy. To simulate your own case: onedraw plan --help."
)


def _slider(name: str, label: str, low: float, high: float, value: float, step: float = 0.01) -> Markup:
    limits = f'min="{low:g}" max="{high:g}" step="{step:g}" value="{value:.6g}"'
    return element(
        "label",
        element("span", label),
        element("output", "", id=f"{name}-shown"),
        Markup(f'<input type="range" id="{name}" {limits}>'),
    )


def _answers(found: Expected, epsilon: float) -> Markup:
    """The numbers, as they are before the script has moved anything."""
    facts = [
        ("error", "A coefficient is off by about", f"{found.error:.3g}"),
        ("plain", "Without privacy by", f"{found.plain:.3g}"),
        ("widening", "Intervals are wider by a factor of", f"{found.widening:.2f}"),
        ("sure", "A suspicion of 50% becomes at most", percent(posterior(0.5, epsilon))),
    ]
    cells = [
        element("div", element("dt", label), element("dd", value, id=name)) for name, label, value in facts
    ]
    unit = "Errors are standard errors of log odds, over half of a column's range."
    example = element("p", "", id="example", class_="promise")
    return element(
        "section",
        joined([element("dl", *cells, class_="facts"), element("p", unit, class_="notes"), example]),
    )


SCRIPT = r"""
const by = id => document.getElementById(id);
const svg = (name, set, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in set) made.setAttribute(key, set[key]);
  if (text) made.textContent = text;
  return made;
};
function tilt(columns, epsilon) {
  const es = KNOWN.epsilons, row = KNOWN.tilt[columns - 1], x = Math.log(epsilon);
  let i = 1;
  while (i < es.length - 1 && es[i] < epsilon) i += 1;
  const a = Math.log(es[i - 1]), b = Math.log(es[i]);
  const share = Math.min(1, Math.max(0, (x - a) / (b - a)));
  return ((1 - share) * row[i - 1] + share * row[i]) / epsilon;
}
function expected(rows, columns, epsilon) {
  const information = rows * KNOWN.curvature / 3, plain = 1 / Math.sqrt(information);
  const error = Math.hypot(plain, tilt(columns, epsilon) / information);
  return {plain, error, widening: error / plain};
}
const digits = (value, n) => Number(value.toPrecision(n)).toString();
const whole = value => value.toLocaleString("en", {maximumFractionDigits: 0});
function percent(share) {
  const text = digits(100 * share, 3) + "%";
  return text === "100%" && share < 1 ? "almost 100%" : text;
}
function show() {
  const epsilon = Number(digits(10 ** by("epsilon").value, 2)), columns = Number(by("columns").value);
  const rows = Number(digits(10 ** by("rows").value, 2));
  const found = expected(rows, columns, epsilon);
  by("epsilon-shown").textContent = digits(epsilon, 2);
  by("rows-shown").textContent = whole(rows);
  by("columns-shown").textContent = columns;
  by("error").textContent = digits(found.error, 3);
  by("plain").textContent = digits(found.plain, 3);
  by("widening").textContent = found.widening.toFixed(2);
  by("sure").textContent = percent(1 / (1 + Math.exp(-epsilon)));
  const half = 2 * KNOWN.normal * found.error;
  const ends = [-1, 1].map(sign => Math.exp(Math.log(2) + sign * half));
  const room = rows * epsilon / (columns + 1), enough = Number(digits(rows * KNOWN.usual / room, 2));
  by("example").textContent = room < KNOWN.noise
    ? "So few rows are mostly noise: coefficients of zero would be closer to the truth than such a release."
    : room < KNOWN.usual
    ? "So few rows usually give no intervals, only coefficients. Intervals come from about " + whole(enough)
    + " rows on, at this epsilon and so many columns."
    : "A true odds ratio of 2 from one end of a column's range to the other would be "
    + "reported with a 95% interval of about " + digits(ends[0], 3) + " to " + digits(ends[1], 3) + ": "
    + (ends[0] > 1 ? "the effect would show." : "too wide to show the effect.");
  draw(rows, columns, epsilon, found.widening);
}
function draw(rows, columns, epsilon, here) {
  const box = by("curve"), most = expected(rows, columns, KNOWN.epsilons[0]).widening;
  const top = Math.max(1.5, Math.min(most, 10)), high = 210;
  const x = e => 4 + 92 * (Math.log10(e) + 1) / 2;
  const y = w => high - (high - 14) * (Math.min(w, top) - 1) / (top - 1);
  const label = (set, text) => box.append(svg("text", {"font-size": 12, fill: "#26323a", ...set}, text));
  box.replaceChildren(svg("title", {}, "Widening of intervals against epsilon"));
  for (const e of [0.1, 0.3, 1, 3, 10]) {
    box.append(svg("line", {x1: x(e) + "%", x2: x(e) + "%", y1: 10, y2: high, stroke: "#d5dde1"}));
    label({x: x(e) + "%", y: high + 18, "text-anchor": "middle"}, e);
  }
  for (const share of [0, 0.5, 1]) {
    const w = 1 + share * (top - 1);
    box.append(svg("line", {x1: "4%", x2: "96%", y1: y(w), y2: y(w), stroke: "#d5dde1"}));
    label({x: "4%", y: y(w) - 4}, "× " + digits(w, 2));
  }
  const es = KNOWN.epsilons;
  for (let i = 1; i < es.length; i += 1) {
    const [a, b] = [es[i - 1], es[i]].map(e => y(expected(rows, columns, e).widening));
    if (a <= y(top) && b <= y(top)) continue;
    const ends = {x1: x(es[i - 1]) + "%", x2: x(es[i]) + "%", y1: a, y2: b};
    box.append(svg("line", {...ends, stroke: "#0f6b8f", "stroke-width": 2.5}));
  }
  box.append(svg("circle", {cx: x(epsilon) + "%", cy: y(here), r: 6, fill: "#0f6b8f", stroke: "#fff"}));
  label({x: "50%", y: high + 40, "text-anchor": "middle", "font-size": 13}, "epsilon");
}
for (const name of ["epsilon", "rows", "columns"]) by(name).addEventListener("input", show);
show();
"""
