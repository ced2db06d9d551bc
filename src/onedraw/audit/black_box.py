# SPDX-License-Identifier: Apache-2.0
"""Audit from outside: any ``fit(X, y) -> parameters``, or any scikit-learn estimator, run many times.

Each of two neighbouring data sets is fitted ``runs`` times. A score tells the outputs apart: one that you
choose, or a classifier learned on a third of the runs. A third of the runs that it has not seen chooses its
threshold, and the others give the bound. No part is used twice, so the bound is that of
``onedraw.audit.bounds`` with a score and a threshold fixed beforehand.

Runs go through joblib: ``with joblib.parallel_config(backend=...)`` sends them to threads, processes or a
cluster. With ``checkpoint`` every finished run is on disk before the next begins; after an interruption the
same call goes on where it stopped and computes nothing again (in parallel: nothing but the batch that was
under way).

Edge cases:
    A fixed seed in an estimator is refused: all its runs would be equal. An error in ``fit`` stops the audit:
    whether a fit fails may itself tell the data sets apart, and should be mended first. The outputs are as
    private as the data sets: audit made-up ones.

>>> import numpy as np
>>> from onedraw.audit.pairs import Pair, neighbours_of
>>> def noisy_count(X, y, random_state):
...     return y.sum() + np.random.default_rng(random_state).laplace(scale=0.5)        # epsilon = 2
>>> pair = neighbours_of([([0.0], 0.0)] * 9, ([0.0], 0.0), ([0.0], 1.0))
>>> found = black_box_audit(noisy_count, pair, epsilon=1.0, runs=1000, random_state=0)
>>> found.verdict
'contradicted'
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, QuantileTransformer

from onedraw._progress import progress
from onedraw._validate import one_of, positive, whole
from onedraw.audit.attack import Attack, Score
from onedraw.audit.finding import Finding
from onedraw.audit.pairs import Pair
from onedraw.errors import InvalidInput
from onedraw.privacy.guarantee import Guarantee
from onedraw.types import Array

SCHEMA = "onedraw.audit/1"
PILOT, AUDIT = 0, 1
PILOT_RUNS = (12, 60)
"""The fewest and the most on each data set of each pair; between them, a tenth of the runs."""
BATCH = 16
"""Runs per worker between two writes, where there are several workers."""
MOST_SQUARED = 20
"""Products of parameters are shown to the learned score up to this many parameters."""

Task = tuple[int, int, int, int]
"""Stage, pair, data set and run."""


def black_box_audit(
    fit: Any,
    pairs: Pair | Sequence[Pair],
    *,
    epsilon: float,
    delta: float = 0.0,
    runs: int = 1000,
    score: Score | str = "learned",
    parameters: Callable[[Any], Any] | None = None,
    confidence: float = 0.95,
    random_state: int | None = None,
    n_jobs: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
    name: str | None = None,
) -> Finding:
    """Test the claim that ``fit`` is (epsilon, delta)-DP, on the most telling of the ``pairs``.

    ``fit`` is a function of (X, y), and of ``random_state`` if it has such an argument, that returns numbers;
    or an estimator, of which ``parameters(fitted)`` is looked at (by default coef_ and intercept_). ``runs``
    are per data set. With several pairs a few extra runs choose one. ``score`` maps outputs (m, p) to numbers
    that are larger on the second data set, or is "learned". ``random_state`` makes the audit reproducible.
    """
    listed = [pairs] if isinstance(pairs, Pair) else list(pairs)
    if not listed:
        raise InvalidInput("Expected at least one pair of neighbouring data sets, got none.")
    if len({pair.neighbours for pair in listed}) > 1:
        raise InvalidInput("Expected pairs of one neighbouring relation: a claim is about one of them.")
    claimed = Guarantee(epsilon=positive(epsilon=epsilon), delta=delta, neighbours=listed[0].neighbours)
    fewest = 12 if isinstance(score, str) else 2
    runs = whole(runs=runs, minimum=fewest, remedy="They are divided into parts, none of them used twice.")
    if isinstance(score, str):
        one_of(("learned",), score=score, remedy="Or give a function of outputs (m, p).")
    target = _Target.of(fit, parameters, random_state)
    with _Runner(target, listed, random_state, n_jobs, checkpoint, progress) as runner:
        pilot = min(max(runs // 10, PILOT_RUNS[0]), PILOT_RUNS[1])
        chosen = 0 if len(listed) == 1 else _most_telling(runner, len(listed), pilot)
        outputs = [runner.outputs(AUDIT, chosen, data, runs) for data in (0, 1)]
    attack = _learned(*outputs) if isinstance(score, str) else _scored(score, *outputs)
    return Finding(
        name=name or target.name,
        claimed=claimed,
        attack=attack,
        pair=listed[chosen].name,
        confidence=confidence,
    )


# -- scores


def _scored(score: Score, first: Array, second: Array, *, log_odds: bool = False) -> Attack:
    return Attack(negatives=score(first), positives=score(second), threshold=None, log_odds=log_odds)


def _learned(first: Array, second: Array) -> Attack:
    """A score learned on the first third of the runs; the others have not been seen by it."""
    third = len(first) // 3
    score = learned_score(first[:third], second[:third])
    return _scored(score, first[third:], second[third:], log_odds=True)


def learned_score(first: Array, second: Array) -> Score:
    """The log odds of a logistic classifier on the ranks of the outputs and their products.

    Ranks, because outputs of private mechanisms have heavy tails; constant columns are left out.
    """
    outputs = np.concatenate([first, second])
    varying = np.ptp(outputs, axis=0) > 0.0
    if not varying.any():
        return lambda outputs: np.zeros(len(outputs))
    ranks = QuantileTransformer(
        n_quantiles=min(200, len(outputs)), output_distribution="normal", subsample=None, random_state=0
    )
    steps: list[Any] = [ranks, LogisticRegression(max_iter=2000)]
    if varying.sum() <= MOST_SQUARED:
        steps.insert(1, PolynomialFeatures(2, include_bias=False))
    learner = make_pipeline(*steps)
    learner.fit(outputs[:, varying], np.repeat([0, 1], [len(first), len(second)]))
    return lambda outputs: np.asarray(learner.decision_function(outputs[:, varying]))


def _most_telling(runner: _Runner, num_pairs: int, runs: int) -> int:
    """The pair that a few runs tell apart best; they are not used again."""
    rates = []
    for pair in range(num_pairs):
        outputs = [runner.outputs(PILOT, pair, data, runs) for data in (0, 1)]
        rates.append(_learned(*outputs).success_rate)
    return int(np.argmax(rates))


# -- the thing under audit


@dataclass(frozen=True, kw_only=True)
class _Target:
    """A function of (X, y, seed) that returns numbers, and how it is called in reports."""

    name: str
    call: Callable[[Array, Array, int | None], Array]

    @classmethod
    def of(cls, fit: Any, parameters: Callable[[Any], Any] | None, random_state: int | None) -> _Target:
        if hasattr(fit, "fit") and hasattr(fit, "get_params"):
            if random_state is None and fit.get_params().get("random_state") is not None:
                raise InvalidInput(
                    f"Expected {type(fit).__name__} with random_state=None, got a fixed seed, with which all "
                    "runs would be equal. Give random_state to the audit instead: it seeds each run."
                )
            call = functools.partial(_fit_estimator, fit, parameters or _coefficients)
            return cls(name=type(fit).__name__, call=call)
        if not callable(fit):
            raise InvalidInput(
                f"Expected fit to be a function of (X, y) or an estimator, got {type(fit).__name__}."
            )
        call = functools.partial(_call_function, fit, _takes_seed(fit), parameters or np.asarray)
        return cls(name=getattr(fit, "__name__", type(fit).__name__), call=call)


def _takes_seed(function: Callable[..., Any]) -> bool:
    try:
        return "random_state" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False


def _call_function(
    function: Callable[..., Any],
    takes_seed: bool,
    parameters: Callable[[Any], Any],
    X: Array,
    y: Array,
    seed: int | None,
) -> Array:
    return _numbers(parameters(function(X, y, random_state=seed) if takes_seed else function(X, y)))


def _fit_estimator(
    estimator: Any, parameters: Callable[[Any], Any], X: Array, y: Array, seed: int | None
) -> Array:
    fresh = clone(estimator)
    if seed is not None and "random_state" in fresh.get_params():
        fresh.set_params(random_state=seed)
    return _numbers(parameters(fresh.fit(X, y)))


def _coefficients(fitted: Any) -> Array:
    parts = [np.ravel(getattr(fitted, part)) for part in ("coef_", "intercept_") if hasattr(fitted, part)]
    if not parts:
        raise InvalidInput(
            f"{type(fitted).__name__} has neither coef_ nor intercept_. Say what it publishes: "
            "parameters=lambda fitted: ..."
        )
    return np.concatenate(parts)


def _numbers(output: Any) -> Array:
    numbers = np.ravel(np.asarray(output, dtype=np.float64))
    if not numbers.size or not np.isfinite(numbers).all():
        raise InvalidInput("Expected fit to return finite numbers, got none, NaN or infinite ones.")
    return numbers


# -- running, and remembering what was run


class _Runner:
    """Runs tasks through joblib, and keeps their outputs in the checkpoint file if there is one."""

    def __init__(
        self,
        target: _Target,
        pairs: list[Pair],
        random_state: int | None,
        n_jobs: int | None,
        checkpoint: str | os.PathLike[str] | None,
        progress: bool,
    ) -> None:
        if random_state is not None:
            whole(random_state=random_state, minimum=0)
        self._target, self._pairs, self._random_state = target, pairs, random_state
        self._n_jobs, self._progress = n_jobs, progress
        self._done: dict[Task, list[float]] = {}
        self._path = None if checkpoint is None else Path(checkpoint)
        self._file: Any = None

    def __enter__(self) -> _Runner:
        if self._path is not None:
            header = {"schema": SCHEMA, "audit": self._digest()}
            self._done = _read(self._path, header)
            self._file = self._path.open("a", encoding="utf-8")
            if not self._path.stat().st_size:
                self._write(header)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._file is not None:
            self._file.close()

    def outputs(self, stage: int, pair: int, data: int, runs: int) -> Array:
        """Outputs (runs, p), in order of the runs; only those that are missing are computed."""
        tasks: list[Task] = [(stage, pair, data, run) for run in range(runs)]
        missing = [task for task in tasks if task not in self._done]
        workers = max(1, int(joblib.effective_n_jobs(self._n_jobs)))
        size = 1 if workers == 1 else BATCH * workers
        what = f"{self._pairs[pair].name}, data set {data + 1}"
        with progress(what, len(tasks), shown=self._progress) as advance:
            advance(len(tasks) - len(missing))
            with joblib.Parallel(n_jobs=self._n_jobs) as parallel:
                for start in range(0, len(missing), size):
                    batch = missing[start : start + size]
                    results = parallel(joblib.delayed(self._target.call)(*self._inputs(t)) for t in batch)
                    for task, output in zip(batch, results, strict=True):
                        self._keep(task, output.tolist())
                    advance(len(batch))
        widths = {len(self._done[task]) for task in tasks}
        if len(widths) > 1:
            raise InvalidInput(
                f"Expected fit to return equally many numbers in every run, got {sorted(widths)}."
            )
        return np.array([self._done[task] for task in tasks])

    def _inputs(self, task: Task) -> tuple[Array, Array, int | None]:
        _, pair, data, _ = task
        records = self._pairs[pair].second if data else self._pairs[pair].first
        seed = None
        if self._random_state is not None:
            sequence = np.random.SeedSequence(self._random_state, spawn_key=task)
            seed = int(sequence.generate_state(1)[0])
        return records.features, records.response, seed

    def _keep(self, task: Task, output: list[float]) -> None:
        self._done[task] = output
        if self._file is not None:
            self._write({"task": task, "output": output})

    def _write(self, content: dict[str, Any]) -> None:
        # One write of one line, handed to the system at once: a kill loses at most the line under way.
        self._file.write(json.dumps(content, allow_nan=False) + "\n")
        self._file.flush()

    def _digest(self) -> str:
        """What must be the same for runs to be continued: data sets, seed, and the name of the target."""
        digest = hashlib.sha256(f"{self._target.name} {self._random_state}".encode())
        for pair in self._pairs:
            for records in (pair.first, pair.second):
                digest.update(f"{records.features.shape}".encode())
                digest.update(records.features.tobytes() + records.response.tobytes())
        return digest.hexdigest()


def _read(path: Path, header: dict[str, Any]) -> dict[Task, list[float]]:
    """Finished runs of the file; a last line that was cut short is cut off."""
    if not path.exists():
        return {}
    text = path.read_bytes()
    whole_lines = text[: text.rfind(b"\n") + 1]
    if len(whole_lines) < len(text):
        with path.open("r+b") as file:
            file.truncate(len(whole_lines))
    if not whole_lines:
        return {}
    first, *rest = whole_lines.decode("utf-8", errors="replace").splitlines()
    try:
        if json.loads(first) != header:
            raise InvalidInput(
                f"The checkpoint {str(path)!r} belongs to another audit (other data sets, seed or function). "
                "Give another path, or delete it."
            )
        runs = (json.loads(line) for line in rest)
        return {cast(Task, tuple(run["task"])): [float(v) for v in run["output"]] for run in runs}
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"The checkpoint {str(path)!r} is not one that an audit wrote. Give another path, or delete it."
        ) from error
