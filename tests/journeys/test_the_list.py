# SPDX-License-Identifier: Apache-2.0
"""The rest of a new user's list, item by item, where the other journeys do not go: mostly Python, and pages.

Items 10 to 13 have tests of their own beside these: ``test_site``, ``test_docs``, ``reports``,
``test_notebook``, ``test_package`` (with ``scripts/package``) and ``test_examples_in_r``.
"""

import gzip
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import onedraw
from onedraw import Column, Columns, Target
from onedraw.cli import main

LETTERS = [*"abcdefgh"]


def told(*words, code=0, **options):
    """What the command says, on both channels."""
    done = CliRunner().invoke(main, [str(word) for word in words], **options)
    assert done.exit_code == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(autouse=True)
def _stay(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def patients():
    rng, n = np.random.default_rng(5), 4000
    frame = pd.DataFrame({"age": rng.integers(18, 95, n), "sex": rng.choice(["f", "m"], n)})
    frame["smoker"] = rng.choice(["no", "yes"], n)
    frame["died"] = np.where(rng.random(n) < 0.1 + 0.006 * frame["age"], "dead", "alive")
    frame["visits"] = rng.poisson(1.0 + 0.02 * frame["age"])
    return frame


DECLARED = Columns(
    {"age": (18, 100), "sex": ["f", "m"], "smoker": ["no", "yes"]},
    Target(name="died", classes=["alive", "dead"]),
    ignore=["visits"],
)


def test_2_ordinary_categories_are_released_and_what_may_fail_says_so():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {f"c{j}": rng.choice(LETTERS, 800) for j in range(4)} | {"y": rng.integers(0, 2, 800)}
    )
    columns = Columns({f"c{j}": LETTERS for j in range(4)}, Target(name="y", classes=[0, 1]))
    model = onedraw.LogisticRegression(epsilon=3.0, columns=columns)
    assert "may find no draw" not in str(model.plan(frame))
    assert len(model.fit(frame).release_.named_parameters()) == 29
    drawn = onedraw.LogisticRegression(epsilon=3.0, columns=columns, mechanism="one_posterior")
    assert "with 29 parameters that is likely" in str(drawn.plan(frame))


def test_3_a_plan_of_counts_is_no_better_than_no_privacy():
    said = told(
        "plan", "--model", "poisson", "--rows", 4177, "--features", 9, "--epsilons", 1, "--repeats", 2
    )
    (row,) = re.findall(r"^1 +([\d.]+) +([\d.]+) +([\d.]+)", said, flags=re.MULTILINE)
    private, plain, ratio = map(float, row)
    assert 0.0 < plain < private
    assert ratio > 1.0


def test_6_the_command_and_python_print_the_same_numbers(patients, tmp_path):
    patients.drop(columns="died").to_csv("p.csv", index=False)
    (tmp_path / "c.toml").write_text(
        '[columns.age]\nbounds = [18, 100]\n[columns.sex]\ncategories = ["f", "m"]\n'
        '[columns.smoker]\ncategories = ["no", "yes"]\n'
    )
    fit = ("fit", "p.csv", "--target", "visits", "--model", "linear", "--epsilon", 2, "--columns", "c.toml")
    said = told(*fit, "--out", "r.json")
    lines = str(onedraw.Release.from_json("r.json").summary()).splitlines()
    assert [line for line in lines if line.startswith(("age", "sex", "smoker", "(intercept)"))]
    shown = told("show", "r.json")
    for line in lines[1:6]:
        assert line in said
        assert line in shown


def test_7_tables_in_python(patients):
    # A frame with text and nothing declared: the columns are named, and the data are not.
    with pytest.raises(onedraw.InvalidInput, match="look at the columns 'sex', 'smoker'") as refused:
        onedraw.LogisticRegression(epsilon=1.0).fit(patients[["age", "sex", "smoker"]], patients["died"])
    assert "yes" not in str(refused.value)
    # Declared types of a frame are declarations; rules make every value count as something.
    typed = patients.astype({"sex": pd.CategoricalDtype(["f", "m"])})
    assert Columns.from_frame(typed[["age", "sex"]]).columns["sex"].categories == ("f", "m")
    odd = patients.assign(smoker=["?", "sometimes", *patients["smoker"][2:]])
    ruled = Columns(
        {"age": (18, 100), "sex": ["f", "m"], "smoker": Column(categories=["no", "yes"], unknown="no")},
        Target(name="died", classes=["alive", "dead"]),
        ignore=["visits"],
        missing=["?"],
    )
    with pytest.raises(onedraw.InvalidInput, match=r"'smoker'.*Column\(unknown=") as refused:
        onedraw.LogisticRegression(epsilon=1.0, columns=DECLARED).fit(odd)
    assert "sometimes" not in str(refused.value)
    model = onedraw.LogisticRegression(epsilon=1.0, columns=ruled).fit(odd)
    assert model.release_.model.features == ("age", "sex=m (vs f)", "smoker=yes (vs no)")
    # Names survive a pipeline.
    encode = OneHotEncoder(categories=[["f", "m"]], drop="first", sparse_output=False)
    steps = ColumnTransformer([("sex", encode, ["sex"]), ("rest", "passthrough", ["age"])])
    last = onedraw.LogisticRegression(
        epsilon=1.0, classes=["alive", "dead"], feature_bounds=[(0, 1), (18, 100)]
    )
    fitted = make_pipeline(steps.set_output(transform="pandas"), last).fit(patients, patients["died"])
    assert fitted[-1].release_.model.features == ("sex__sex_m", "rest__age")


def test_8_a_formula(patients):
    pytest.importorskip("formulaic")
    model = onedraw.fit("died ~ age + C(sex) * smoker", data=patients, columns=DECLARED, epsilon=1.0)
    assert model.release_.model.features == (
        "age",
        "C(sex)[T.m]",
        "smoker[T.yes]",
        "C(sex)[T.m]:smoker[T.yes]",
    )
    assert set(model.predict(patients[:3])) <= {"alive", "dead"}
    with pytest.raises(onedraw.InvalidInput, match="may look at other records"):
        onedraw.fit("died ~ scale(age)", data=patients, columns=DECLARED, epsilon=1.0)


def test_9_errors_name_what_exists_in_the_dialect_of_the_reader(patients, tmp_path):
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(patients.to_csv(index=False).encode()))
    fit = ("fit", "p.csv.gz", "--model", "linear", "--epsilon", 1, "--out", "r.json")
    said = told(*fit, "--target", "vists", code=2)
    assert "It has 5: 'age', 'sex', 'smoker', 'died', 'visits'. Did you mean 'visits'?" in said
    for name in ("p.xls", "p.arff"):
        (tmp_path / name).write_text("anything")
        said = told(
            "fit", name, "--model", "linear", "--epsilon", 1, "--target", "y", "--out", "r.json", code=2
        )
        assert ".csv" in said
        assert ".xlsx" in said
    said = told("show", "nothing.json", code=5)
    assert "to_json" not in said
    # Too few records for several draws: said before the charge, and nobody is sent to what was just tried.
    (tmp_path / "s.csv").write_text("x,y\n" + "\n".join(f"{i % 7},{i % 2}" for i in range(60)))
    small = ("fit", "s.csv", "--target", "y", "--model", "logistic", "--epsilon", 1, "--draws", "auto")
    said = told(*small, "--dry-run")
    assert "CAUTION: 1 draw, without intervals." in said
    assert "draws='auto'" not in said


def test_12_in_a_notebook_everything_shows_its_promise(patients):
    numbers = patients[["age"]]
    model = onedraw.LinearRegression(epsilon=4.0, feature_bounds=[(18, 100)])
    plan = model.plan(numbers)
    release = model.fit(numbers, patients["visits"]).release_
    for shown in (plan, release, release.guarantee, model.summary()):
        page = shown._repr_html_()
        assert "by a factor of at most 54.6" in page
        assert not re.search(r"<script|https?://", page)


def test_13_the_shell_completes():
    words = {"_ONEDRAW_COMPLETE": "bash_complete", "COMP_WORDS": "onedraw fit --mod", "COMP_CWORD": "2"}
    assert "--model" in told(env=words, prog_name="onedraw")


def test_14_who_fits_by_chains_is_told_that_they_take_minutes_and_cannot_be_resumed(patients):
    pytest.importorskip("blackjax")
    plan = onedraw.MLPClassifier(epsilon=1.0, classes=["alive", "dead"]).plan(patients[["age"]])
    (caution,) = plan.cautions
    assert "They take minutes" in caution
    assert "They cannot be resumed: who ends them has paid." in caution
    assert "tilted fit" not in caution
