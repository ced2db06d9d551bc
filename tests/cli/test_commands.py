# SPDX-License-Identifier: Apache-2.0
"""The commands that read no private table: predict, show, explain, calibrate, ledger; and what all share."""

import csv
import io
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import onedraw
from onedraw.cli import main
from onedraw.cli.app import CODES, COMMANDS
from onedraw.cli.explain import advantage, posterior
from onedraw.cli.output import say, waiting
from onedraw.estimators import from_release


@pytest.fixture
def release(cli):
    result = cli.fit("--seed", "1", *cli.ledger)
    assert result.exit_code == 0, result.stderr
    return onedraw.Release.from_json(cli.folder / "release.json")


# -- predict


def test_predictions_are_those_of_the_released_parameters_whatever_the_order_of_columns(cli, release):
    new = {"smoker": ["yes", "no", "former"], "extra": ["?", "?", "?"], "age": [40, 70, 55]}
    cli.write_csv(cli.folder / "new.csv", new)
    result = cli.run("predict", "release.json", "new.csv")
    assert result.exit_code == 0, result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    X = np.array([[40, 1, 0], [70, 0, 0], [55, 0, 1]], dtype=float)
    estimate = release.estimate
    dead = 1 / (1 + np.exp(-(X @ estimate.coef[0, 0] + estimate.intercept[0, 0])))
    assert [float(row["probability of dead"]) for row in rows] == pytest.approx(dead.tolist())
    assert [row["prediction"] for row in rows] == ["dead" if share > 0.5 else "alive" for share in dead]


@pytest.mark.parametrize(("model", "target"), [("linear", "pressure"), ("poisson", "visits")])
def test_predictions_of_a_number(cli, model, target):
    assert cli.fit(model=model, target=target, data="numbers.csv", columns=None).exit_code == 0
    found = cli.json("predict", "release.json", "numbers.csv")["predictions"]
    assert list(found) == ["prediction"]
    assert len(found["prediction"]) == 300


def test_predictions_are_written_to_a_file_once(cli, release):
    result = cli.run("predict", "release.json", "patients.csv", "--out", "p.csv")
    assert result.exit_code == 0, result.stderr
    lines = (cli.folder / "p.csv").read_text().splitlines()
    assert lines[0] == "prediction,probability of alive,probability of dead"
    assert len(lines) == 301
    again = cli.run("predict", "release.json", "patients.csv", "--out", "p.csv")
    assert (again.exit_code, "--force" in again.stderr) == (2, True)
    assert cli.run("predict", "release.json", "patients.csv", "--out", "p.csv", "--force").exit_code == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"smoker": "{marker}"}, "Column 'smoker' holds a category that is not declared"),
        ({"smoker": ""}, "Column 'smoker' has missing values"),
        ({"age": "{marker}"}, "Column 'age' holds something that is not a finite number"),
    ],
)
def test_new_rows_obey_the_same_rules(cli, release, values, message):
    cli.spoil(**{name: value.format(marker=cli.marker) for name, value in values.items()})
    result = cli.run("predict", "release.json", "patients.csv")
    assert result.exit_code == 2
    assert message in result.stderr
    assert cli.marker not in result.output


def test_the_rules_for_missing_values_can_be_given_again(cli, release):
    cli.spoil(smoker="", age="")
    (cli.folder / "m.toml").write_text('[columns]\nage = {missing = 50}\nsmoker.categories = ["no", "yes"]\n')
    result = cli.run("predict", "release.json", "patients.csv", "--columns", "m.toml")
    assert "'smoker' has missing" in result.stderr
    (cli.folder / "m.toml").write_text(
        '[columns]\nage = {missing = 50}\n[columns.smoker]\ncategories = ["no", "yes"]\nmissing = "no"\n'
    )
    result = cli.run("predict", "release.json", "patients.csv", "--columns", "m.toml")
    assert result.exit_code == 0, result.stderr
    (cli.folder / "m.toml").write_text("[columns]\nsmoker = {missing = 1}\n")
    assert cli.run("predict", "release.json", "patients.csv", "--columns", "m.toml").exit_code == 2


def test_a_missing_column_is_named_by_the_release(cli, release):
    cli.write_csv(cli.folder / "new.csv", {cli.marker: [1], "age": [2]})
    result = cli.run("predict", "release.json", "new.csv")
    assert result.exit_code == 2
    assert f"has no column 'smoker'. It has 2: '{cli.marker}', 'age'." in result.stderr  # names are public


def test_an_empty_line_of_a_single_column_is_a_missing_value_and_not_skipped(cli):
    cli.write_csv(cli.folder / "one.csv", {"x": [0.1, 0.2], "died": [0, 1]})
    assert cli.fit(data="one.csv", target="died", columns=None).exit_code == 0
    (cli.folder / "new.csv").write_text("x\n1\n\n2\n")
    assert "'x' has missing values" in cli.run("predict", "release.json", "new.csv").stderr


def test_no_rows_to_predict_is_an_error(cli, release):
    (cli.folder / "new.csv").write_text("age,smoker\n")
    assert "no rows" in cli.run("predict", "release.json", "new.csv").stderr


# -- show


def test_show_prints_guarantee_evidence_assumptions_and_parameters(cli, release):
    result = cli.run("show", "release.json")
    assert result.exit_code == 0, result.stderr
    for text in (release.statement, release.evidence.statement, *release.assumptions, "SEEDED"):
        assert text in result.stdout
    for name, value in release.named_parameters().items():
        assert re.search(rf"^{re.escape(name)} +{re.escape(f'{value:.6g}')}", result.stdout, re.MULTILINE)
    assert "log odds of class 'dead' against 'alive'" in result.stdout
    assert f"of ledger {release.receipt['ledger']}, receipt {release.receipt['hash']}" in result.stdout


def test_the_json_of_show_holds_the_release(cli, release):
    content = cli.json("show", "release.json")
    assert content.pop("intervals") is None  # one draw shows no spread
    assert onedraw.Release.from_dict(content) == release


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-40],
        lambda text: text.replace('"seeded": true', '"seeded": false'),
        lambda text: text.replace("onedraw.release/2", "onedraw.release/9"),
        lambda text: "[]",
        lambda text: "",
    ],
)
def test_a_release_that_is_not_whole_has_its_code(cli, release, spoil):
    path = cli.folder / "release.json"
    path.write_text(spoil(path.read_text()))
    for command in (["show"], ["predict"]):
        more = ["patients.csv"] if command == ["predict"] else []
        result = cli.run(*command, "release.json", *more)
        assert result.exit_code == 5
        assert len(result.stderr.strip().splitlines()) <= 2
        assert "Traceback" not in result.output


def test_a_release_that_is_not_there_has_the_same_code(cli):
    result = cli.run("show", "nowhere.json")
    assert result.exit_code == 5
    assert "No such file" in result.stderr


def test_control_characters_of_a_file_do_not_reach_the_terminal(capsys):
    say("name\x1b[2J\x07")
    assert capsys.readouterr().out == "name?[2J?\n"


def test_intervals_are_shown_where_there_are_draws_enough(cli):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 4000).round(3)
    y = (rng.random(4000) < 1 / (1 + np.exp(-x))).astype(int)
    cli.write_csv(cli.folder / "big.csv", {"x": x, "y": y})
    options = ("--draws", "8", "--epsilon", "4", "--seed", "1")
    fitted = cli.fit(*options, data="big.csv", target="y", columns=None)
    assert fitted.exit_code == 0, fitted.stderr
    shown = cli.run("show", "release.json").stdout
    expected = from_release(onedraw.Release.from_json(cli.folder / "release.json")).summary()
    for output in (fitted.stdout, shown):
        table = str(expected).splitlines()[1:4]  # the header and two parameters, as Python prints them
        assert table[0].split()[-5:] == ["z", "p", "95%", "low", "high"]
        assert "\n".join(table) in output
    assert cli.json("show", "release.json")["intervals"]["low"] == list(expected.low)
    narrow = cli.json("show", "release.json", "--level", "0.5")["intervals"]
    assert narrow["level"] == 0.5
    assert narrow["low"][0] > expected.low[0]
    assert "between 0 and 1, got 95" in cli.run("show", "release.json", "--level", "95").stderr
    written = cli.fit(*options, "--force", "--json", data="big.csv", target="y", columns=None)
    assert json.loads(written.stdout)["intervals"]["low"] == list(expected.low)


def test_the_reason_is_shown_where_there_are_no_intervals(cli):
    rng = np.random.default_rng(0)
    cli.write_csv(cli.folder / "small.csv", {"x": rng.uniform(-1, 1, 60).round(3), "y": np.arange(60) % 2})
    fitted = cli.fit("--draws", "auto", "--seed", "1", data="small.csv", target="y", columns=None)
    assert "Even 4 draws would each be too wide" in " ".join(fitted.stderr.split())
    for output in (fitted.stdout, cli.run("show", "release.json").stdout):
        assert "No intervals: Intervals need at least 4 draws" in " ".join(output.split())


# -- explain and calibrate


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (1.0, 0.01), (3.0, 1e-6), (800.0, 0.0)]
)
def test_the_advantage_is_that_of_the_worst_mechanism(epsilon, delta):
    """Randomised response that tells all with probability delta: total variation, outcome by outcome."""
    p = (1 - delta) / (1 + math.exp(-epsilon))
    first, second = [delta, 0.0, p, 1 - delta - p], [0.0, delta, 1 - delta - p, p]
    variation = sum(max(0.0, a - b) for a, b in zip(first, second, strict=True))
    assert advantage(epsilon, delta) == pytest.approx(variation)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_posterior_is_reached_by_randomised_response(epsilon):
    p = 1 / (1 + math.exp(-epsilon))
    for prior in (0.01, 0.5, 0.9):
        assert posterior(prior, epsilon) == pytest.approx(prior * p / (prior * p + (1 - prior) * (1 - p)))


def test_with_delta_the_odds_factor_is_exceeded_with_probability_at_most_twice_delta():
    """The worst law puts mass just above the factor 2 e^epsilon: P(S) = 2 delta is reached."""
    epsilon, delta = 1.0, 0.01
    P, Q = 2 * delta, delta / math.exp(epsilon)
    assert math.exp(epsilon) * Q + delta == pytest.approx(P)
    assert posterior(0.5, epsilon, delta) == pytest.approx(P / (P + Q))


def test_explain_says_it_in_words(cli):
    text = cli.run("explain", "--epsilon", "1").stdout
    assert "factor of at most 2.72." in text
    assert "right at most 73.1% of the time" in text
    assert re.search(r"^50% +73.1%$", text, re.MULTILINE)
    with_delta = cli.run("explain", "--epsilon", "1", "--delta", "1e-5", "--neighbours", "add_remove").stdout
    assert "at most 5.44, except with a probability of at most 2e-05" in with_delta
    assert "that one person is in the data" in with_delta
    found = cli.json("explain", "--epsilon", "1")
    assert found["advantage"] == pytest.approx((math.e - 1) / (math.e + 1))
    assert found["posterior"][5] == {"prior": 0.5, "at_most": pytest.approx(1 / (1 + math.exp(-1)))}


def test_calibrate_shows_what_the_function_returns(cli):
    result = cli.run("calibrate", "gaussian", "--epsilon", "2", "--noise-floor", "0.5", "--beta", "1.5")
    expected = onedraw.calibrate("gaussian", epsilon=2.0, noise_floor=0.5, beta=1.5)
    assert str(expected) in result.stdout
    found = cli.json("calibrate", "bernoulli", "--epsilon", "1", "--beta", "paper")
    assert found["weight"] == 1.0
    assert found["statement"] == str(onedraw.calibrate("bernoulli", epsilon=1.0).guarantee)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["calibrate", "bernoulli"], "--epsilon"),
        (["calibrate", "weibull", "--epsilon", "1"], "weibull"),
        (["calibrate", "bernoulli", "--epsilon", "1", "--beta", "0.5"], "Expected beta"),
        (["calibrate", "bernoulli", "--epsilon", "1", "--df", "3"], "df does not apply"),
        (["explain", "--epsilon", "-1"], "Expected epsilon > 0"),
        (["explain", "--epsilon", "1", "--delta", "2"], "Expected delta"),
        (["ledger", "create", "x.db", "a", "--epsilon", "0"], "Expected epsilon > 0"),
        (["fitt"], "fitt"),
        (["ledger", "spend"], "spend"),
    ],
)
def test_bad_usage_has_code_2_and_at_most_two_lines(cli, args, message):
    result = cli.run(*args)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 2
    machine = json.loads(cli.run(*args, "--json").stderr)["error"]
    assert machine["exit_code"] == 2
    assert message in machine["message"]


# -- ledger


def test_the_ledger_shows_its_budgets_and_history(cli, release):
    shown = cli.run("ledger", "show", "budget.db", "patients").stdout
    assert re.search(r"^spent +epsilon 1, delta 0", shown, re.MULTILINE)
    cli.json("ledger", "create", "budget.db", "survey", "--epsilon", "1", "--delta", "1e-6", "--who", "me")
    everything = cli.json("ledger", "show", "budget.db")["datasets"]
    spent = {account["dataset"]: account["spent"] for account in everything}
    assert spent == {"patients": 1.0, "survey": 0.0}
    history = cli.run("ledger", "history", "budget.db", "patients").stdout.splitlines()
    assert [line.split()[2] for line in history] == ["kind", "create", "charge"]
    kinds = [entry["kind"] for entry in cli.json("ledger", "history", "budget.db")["history"]]
    assert kinds == ["ledger", "create", "charge", "create"]


def test_verify_compares_with_releases_and_has_a_code_for_alterations(cli, release):
    sound = cli.run("ledger", "verify", "budget.db", "release.json")
    assert sound.exit_code == 0
    assert "sound: 4 rows, 1 receipts compared" in sound.stdout
    cli.run("ledger", "create", "other.db", "patients", "--epsilon", "1")
    altered = cli.run("ledger", "verify", "other.db", "release.json")
    assert altered.exit_code == 5
    assert "of another ledger" in altered.stdout
    assert json.loads(cli.run("ledger", "verify", "other.db", "release.json", "--json").stdout)["ok"] is False
    assert cli.fit(out="free.json").exit_code == 0
    without = cli.run("ledger", "verify", "budget.db", "free.json")
    assert without.exit_code == 2
    assert "has no receipt" in without.stderr


def test_ledger_files_that_cannot_be_used_have_their_code(cli):
    (cli.folder / "bad.db").write_text("not a ledger")
    for command in (["show"], ["history"], ["verify"]):
        for path in ("bad.db", "nowhere.db"):
            result = cli.run("ledger", *command, path)
            assert result.exit_code == 5
            assert len(result.stderr.strip().splitlines()) <= 2
    assert cli.fit("--ledger", "bad.db", "--dataset", "patients").exit_code == 5
    assert cli.run("ledger", "create", "budget.db", "patients", "--epsilon", "9").exit_code == 5
    unknown = cli.run("ledger", "show", "budget.db", "cats")
    assert unknown.exit_code == 2
    assert "onedraw ledger create" in unknown.stderr


def test_terms_that_do_not_fit_the_ledger_are_refused(cli):
    result = cli.fit("--neighbours", "add_remove", *cli.ledger)
    assert result.exit_code == 5
    assert "neighbours='replace_one'" in result.stderr
    assert cli.charges() == 0


# -- what all commands share


def commands(group=main, path=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def parameters(command):
    return command.get_params(click.Context(command))


def test_the_list_of_commands_says_what_each_says_of_itself():
    for name, (_, words) in COMMANDS.items():
        assert main.get_command(click.Context(main), name).short_help == words


def test_listing_the_commands_imports_none_of_them():
    """Measured by what is imported, not by the clock."""
    code = "import sys; from onedraw.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += (
        "print(sorted(name for name in sys.modules if name.startswith(('onedraw.cli.', 'onedraw.audit'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "['onedraw.cli.app', 'onedraw.cli.output']", done.stderr


@pytest.mark.parametrize("path", [path for path, _ in commands()], ids=" ".join)
def test_every_command_has_json_debug_and_help(cli, path):
    command = dict(commands())[path]
    assert {"--json", "--debug"} <= {option for p in parameters(command) for option in p.opts}
    assert command.help
    assert cli.run(*path, "--help").exit_code == 0


def test_every_command_option_and_exit_code_is_documented():
    text = (Path(__file__).resolve().parents[2] / "docs" / "command.md").read_text(encoding="utf-8")
    for code in {0, 1, 130, *(code for _, code in CODES)}:
        assert f"| {code} |" in text
    for path, command in commands():
        assert f"onedraw {' '.join(path)}" in text
        for parameter in parameters(command):
            for option in parameter.opts:
                assert not option.startswith("--") or f"`{option}" in text, f"{path}: {option}"


def test_the_version_is_that_of_the_package(cli):
    assert onedraw.__version__ in cli.run("--version").stdout


def test_interrupting_leaves_no_traceback(cli, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("onedraw.cli.show.Release.from_json", interrupt)
    result = cli.run("show", "release.json")
    assert (result.exit_code, result.stderr.strip()) == (130, "Stopped.")


def test_there_is_no_spinner_without_a_terminal(capsys):
    with waiting("Working ...", after=0.0):
        pass
    assert capsys.readouterr().err == ""


def test_a_spinner_shows_on_a_terminal_only_after_the_wait(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    shown = {}
    for after in (0.0, 60.0):
        monkeypatch.setattr(sys, "stderr", Terminal())
        with waiting("Working ...", after=after):
            time.sleep(0.3)
        shown[after] = "Working ..." in sys.stderr.getvalue()
    assert shown == {0.0: True, 60.0: False}


def environment():
    path = str(Path(onedraw.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": path, "TERM": "xterm-256color", "OPENBLAS_NUM_THREADS": "1"}


def shell(args, **kwargs):
    env = {**environment(), **kwargs.pop("env", {})}
    return subprocess.run([sys.executable, "-m", "onedraw", *args], env=env, timeout=120, **kwargs)


def on_a_terminal(args, env):
    """What the command prints on a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    shell(args, stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=env)
    os.close(theirs)
    found = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says so at the end
            break
        if not piece:
            break
        found += piece
    os.close(ours)
    return found.decode().replace("\r\n", "\n")


def test_the_command_runs_as_a_program_and_prints_the_same_with_and_without_a_terminal(cli):
    args = ["explain", "--epsilon", "1"]
    piped = shell(args, capture_output=True, text=True)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert "\x1b" not in piped.stdout
    assert piped.stdout == cli.run(*args).stdout
    for colour in ("1", ""):
        shown = on_a_terminal(args, {"NO_COLOR": colour})
        assert re.sub(r"\x1b\[[\d;]*m", "", shown) == piped.stdout


def test_an_error_of_the_program_is_on_stderr_with_its_code(cli):
    done = shell(["show", "nowhere.json"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("error: Cannot read a release from 'nowhere.json'")


def test_rebuilding_is_what_predict_uses(cli, release):
    rebuilt = from_release(release)
    assert rebuilt.guarantee_ == release.guarantee
    assert rebuilt.feature_names_in_.tolist() == list(release.model.features)


@pytest.mark.parametrize(
    ("words", "found"), [("onedraw che", "check"), ("onedraw fit --model lin", "linear")]
)
def test_the_shell_completes_commands_and_models(words, found, monkeypatch, capsys):
    monkeypatch.setenv("_ONEDRAW_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    with pytest.raises(SystemExit):
        main([])
    assert f"plain,{found}" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "code", "charges"), [("n\n", 130, 0), ("y\n", 0, 1)])
def test_at_a_terminal_a_caution_asks_before_the_charge(cli, monkeypatch, answer, code, charges):
    class Terminal:
        stdin = stderr = type("Stream", (), {"isatty": staticmethod(lambda: True)})

    monkeypatch.setattr("onedraw.cli.fit.sys", Terminal)
    fit = ["fit", "numbers.csv", "--target=died", "--model=logistic", "--epsilon=1", "--out=r", *cli.ledger]
    done = CliRunner().invoke(main, fit, input=answer)
    assert done.exit_code == code, done.stderr
    assert "CAUTION: Nothing is declared about age, visits, pressure" in done.stderr
    assert "Charge the ledger all the same?" in done.output
    assert cli.charges() == charges
    assert CliRunner().invoke(main, [*fit, "--yes", "--force"], input="").exit_code == 0


def test_the_file_of_an_answer_is_shown_as_what_was_asked(cli):
    rng = np.random.default_rng(1)
    ages = rng.uniform(20.0, 70.0, 4000)
    group = np.where(rng.random(4000) < 0.5, "new", "old")
    facts = {"groups": ("old", "new"), "bounds": (0, 100), "epsilon": 2.0, "random_state": 0}
    answer = onedraw.compare(ages, group, of="mean", **facts)
    answer.release.to_json(cli.folder / "ages.json")
    shown = cli.run("show", "ages.json", "--html", "ages.html").stdout
    assert "Model: mean, two groups compared" in shown
    assert str(answer.summary()).splitlines()[1] in shown
    page = (cli.folder / "ages.html").read_text(encoding="utf-8")
    assert "difference, new less old" in page
    assert "Mean</h1>" in page
    refused = cli.run("predict", "ages.json", "new.csv")
    assert refused.exit_code == 2
    assert "nothing to predict" in refused.stderr
    share = onedraw.proportion(ages < 40.0, epsilon=2.0, random_state=0)
    share.release.to_json(cli.folder / "share.json")
    assert "\nproportion " in cli.run("show", "share.json").stdout
    odds = cli.run("show", "share.json", "--exponentiate").stdout
    assert "(intercept)" in odds
