# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import onedraw
from onedraw import publishing
from onedraw.cli import fit as fit_module
from onedraw.cli.table import read_table
from onedraw.columns import Columns, Encoding
from onedraw.estimators import Header, from_release
from onedraw.mechanisms import OutputPerturbation
from onedraw.nn import NetworkDraw
from onedraw.samplers.nuts import NutsSampler

NUMBERS = {"data": "numbers.csv", "columns": None}


def mechanism(name, *options):
    """The arguments that choose a mechanism with these options."""
    return ("--mechanism", name, *(word for option in options for word in ("--mechanism-option", option)))


def release_of(cli, name="release.json"):
    return onedraw.Release.from_json(cli.folder / name)


def test_fit_prints_the_guarantee_and_the_parameters_of_the_file(cli):
    result = cli.fit()
    assert result.exit_code == 0, result.stderr
    release = release_of(cli)
    lines = result.stdout.splitlines()
    assert lines[0] == release.statement
    assert release.model.features == ("age", "smoker=yes (vs no)", "smoker=former (vs no)")
    assert release.model.classes == ("alive", "dead")
    assert release.model.feature_bounds == ((18.0, 100.0), (0.0, 1.0), (0.0, 1.0))
    for name, value in release.named_parameters().items():
        line = next(line for line in lines if line.startswith(name))
        assert line.endswith(f"{value:.6g}")
    assert not release.seeded
    assert result.stderr == ""


def test_fit_without_a_ledger_says_that_nothing_keeps_count(cli):
    assert result_lines(cli.fit(), "nothing keeps count") == 1
    assert result_lines(cli.fit("--force", *cli.ledger), "nothing keeps count") == 0


def result_lines(result, text):
    assert result.exit_code == 0, result.stderr
    return sum(text in line for line in result.stdout.splitlines())


def test_fit_is_charged_once_and_the_release_carries_the_receipt(cli):
    assert cli.charges() == 0
    result = cli.fit(*cli.ledger)
    assert result.exit_code == 0, result.stderr
    assert "1 of epsilon 3 spent, 2 remains" in result.stdout
    assert cli.charges() == 1
    assert release_of(cli).receipt["dataset"] == "patients"


@pytest.mark.parametrize(
    ("model", "target"),
    [("logistic", "died"), ("linear", "pressure"), ("poisson", "visits"), ("negative_binomial", "visits")],
)
def test_every_model_is_fitted_without_a_specification(cli, model, target):
    result = cli.fit(model=model, target=target, **NUMBERS)
    assert result.exit_code == 0, result.stderr
    release = release_of(cli)
    assert release.model.kind == model
    assert target not in release.model.features
    assert len(release.model.features) == 3
    assert release.model.feature_bounds is None


def test_the_multinomial_model_needs_declared_classes(cli):
    three = {"data": "patients.csv", "target": "smoker", "model": "multinomial"}
    refused = cli.fit(columns=None, **three)
    assert refused.exit_code == 2
    assert "classes = [...]" in refused.stderr
    (cli.folder / "c.toml").write_text('use = ["age"]\n[target]\nclasses = ["no", "yes", "former"]\n')
    assert cli.fit(columns="c.toml", **three).exit_code == 0
    assert release_of(cli).model.classes == ("no", "yes", "former")


def test_classes_of_a_logistic_model_are_0_and_1_unless_declared_and_never_read_from_the_labels(cli):
    assert cli.fit(target="died", **NUMBERS).exit_code == 0
    assert release_of(cli).model.classes == (0, 1)
    assert not any("read from the labels" in line for line in release_of(cli).assumptions)
    cli.write_csv(cli.folder / "numbers.csv", {"age": [1, 2, 3], "died": [0, 1, cli.marker]})
    refused = cli.fit("--force", target="died", **NUMBERS)
    assert refused.exit_code == 2
    assert "'died' holds a label that is not among the classes [0, 1]" in refused.stderr
    assert cli.marker not in refused.output


def test_facts_about_a_linear_target_reach_the_model(cli):
    (cli.folder / "c.toml").write_text(
        'use = ["age"]\n[target]\nbounds = [80, 160]\n[columns.age]\nbounds = [0, 100]\n'
    )
    chosen = mechanism("one_posterior", "noise_floor=2", "noise-scale=6")
    result = cli.fit(*chosen, data="numbers.csv", target="pressure", model="linear", columns="c.toml")
    assert result.exit_code == 0, result.stderr
    model = release_of(cli).model
    assert model.target_bounds == (80.0, 160.0)
    assert model.scale_floor == pytest.approx(2 / 40)
    assert model.feature_bounds == ((0.0, 100.0),)


def test_a_yaml_specification_says_the_same(cli):
    pytest.importorskip("yaml")
    (cli.folder / "c.yaml").write_text(
        "ignore: [id]\ntarget: {classes: [alive, dead]}\n"
        'columns:\n  smoker: {categories: ["no", "yes", former]}\n'
    )
    assert cli.fit("--seed", "1", columns="c.yaml").exit_code == 0
    assert release_of(cli).model.features[1:] == ("smoker=yes (vs no)", "smoker=former (vs no)")


def test_without_pyyaml_the_error_names_the_extra(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    (cli.folder / "c.yaml").write_text("use: [age]\n")
    result = cli.fit(columns="c.yaml")
    assert result.exit_code == 2
    assert f"pip install '{Path(onedraw.__file__).parents[2]}[all]'" in result.stderr


def test_without_a_toml_reader_the_error_says_what_to_do(cli, monkeypatch):
    for name in ("tomllib", "tomli"):
        monkeypatch.setitem(sys.modules, name, None)
    result = cli.fit()
    assert result.exit_code == 2
    assert "needs Python 3.11 or later" in result.stderr


def test_without_pyarrow_the_error_names_the_extra(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (cli.folder / "p.parquet").write_bytes(b"PAR1")
    result = cli.fit(data="p.parquet")
    assert result.exit_code == 2
    assert "Reading Parquet needs an extra" in result.stderr


def test_parquet_columns_are_read_as_they_stand(monkeypatch):
    """With a stand-in for pyarrow: numbers, booleans and None instead of text."""
    columns = {"age": [31.0, None], "smoker": [True, False], "group": [2, 1], "died": [0, 1]}

    class Content:
        column_names = tuple(columns)
        num_rows = 2

        def column(self, i):
            return types.SimpleNamespace(to_pylist=lambda: list(columns.values())[i])

    parquet = types.ModuleType("pyarrow.parquet")
    parquet.read_table = lambda path: Content()
    arrow = types.ModuleType("pyarrow")
    arrow.parquet, arrow.ArrowException = parquet, RuntimeError
    monkeypatch.setitem(sys.modules, "pyarrow", arrow)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)
    table = read_table("p.parquet")
    facts = {
        "age": {"missing": 50},
        "smoker": {"categories": ["false", "true"]},
        "group": {"categories": [1, 2]},
    }
    columns = Columns(facts, {"name": "died"})
    found = Encoding.of(columns, tuple(table.columns))
    assert found.features == ("age", "smoker=true (vs false)", "group=2 (vs 1)")
    assert found.encode(table.columns)[0].tolist() == [[31.0, 1.0, 1.0], [50.0, 0.0, 0.0]]


def test_missing_values_are_filled_in_by_the_public_rule(cli):
    cli.spoil(age="", smoker="NA")
    spec = (cli.folder / "columns.toml").read_text()
    for column, rule in (("[columns.age]", "missing = 50"), ("[columns.smoker]", 'missing = "no"')):
        spec = spec.replace(column, f"{column}\n{rule}")
    (cli.folder / "columns.toml").write_text(spec)
    assert cli.fit("--seed", "3").exit_code == 0
    filled = release_of(cli).draws
    cli.spoil(age="50", smoker="no")
    assert cli.fit("--seed", "3", "--force").exit_code == 0
    assert release_of(cli).draws == filled


def test_a_declared_category_that_looks_like_a_missing_value_is_a_category(cli):
    cli.spoil(smoker="NA")
    spec = (cli.folder / "columns.toml").read_text()
    (cli.folder / "columns.toml").write_text(spec.replace('"former"', '"former", "NA"'))
    assert cli.fit().exit_code == 0


def test_a_seed_repeats_the_draw_and_marks_the_release(cli):
    first, second = cli.fit("--seed", "5"), cli.fit("--seed", "5", out="other.json")
    assert "SEEDED" in first.stdout
    assert release_of(cli).seeded
    assert release_of(cli).draws == release_of(cli, "other.json").draws
    assert second.exit_code == 0


def test_the_number_of_rows_is_nowhere_under_add_remove(cli):
    result = cli.fit("--neighbours", "add_remove", "--seed", "5")
    assert result.exit_code == 0
    assert release_of(cli).num_records is None
    assert "300" not in result.output


def test_an_empty_table_is_refused_only_where_its_size_is_public(cli):
    (cli.folder / "patients.csv").write_text("id,age,smoker,status\n")
    assert "has no rows" in cli.fit().stderr


@pytest.mark.parametrize("private", [{"neighbours": "add_remove"}, {"rows_per_person": 2}])
def test_an_empty_table_releases_what_the_estimator_releases_where_its_size_is_private(cli, private):
    """An error would tell an empty table from one with a single person."""
    (cli.folder / "patients.csv").write_text("id,age,smoker,status\n")
    ((name, value),) = private.items()
    result = cli.fit(f"--{name.replace('_', '-')}", value, "--seed", "7")
    assert result.exit_code == 0, result.stderr
    names = ("age", "smoker=yes (vs no)", "smoker=former (vs no)")
    estimator = onedraw.LogisticRegression(
        epsilon=1.0,
        classes=["alive", "dead"],
        feature_bounds=[(18, 100), (0, 1), (0, 1)],
        random_state=7,
        **private,
    )
    plan = estimator.plan(Header(features=names))
    estimator.fit_planned(plan, lambda: (np.empty((0, 3)), np.empty(0, dtype=str)))
    assert release_of(cli) == estimator.release_


def test_options_reach_the_guarantee(cli):
    options = ("--delta", "1e-6", "--rows-per-person", "2", "--draws", "3")
    assert cli.fit(*options).exit_code == 0
    guarantee = release_of(cli).guarantee
    assert (guarantee.delta, guarantee.rows_per_person, guarantee.draws) == (1e-6, 2, 3)


def test_proved_evidence_can_be_asked_for(cli):
    (cli.folder / "c.toml").write_text('use = ["age"]\n[columns.age]\nbounds = [18, 100]\n')
    chosen = mechanism("one_posterior", "evidence=proved")
    result = cli.fit(*chosen, data="numbers.csv", target="died", columns="c.toml")
    assert result.exit_code == 0, result.stderr
    assert release_of(cli).evidence.level == "proved"


# -- the output file


def test_an_existing_file_is_not_replaced_without_force_and_nothing_is_charged(cli):
    (cli.folder / "release.json").write_text("precious")
    result = cli.fit(*cli.ledger)
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert (cli.folder / "release.json").read_text() == "precious"
    assert cli.charges() == 0
    assert cli.fit("--force", *cli.ledger).exit_code == 0
    assert release_of(cli).model.kind == "logistic"


@pytest.mark.parametrize("out", ["patients.csv", "columns.toml", "budget.db"])
def test_an_input_is_never_replaced(cli, out):
    before = (cli.folder / out).read_bytes()
    result = cli.fit("--force", *cli.ledger, out=out)
    assert result.exit_code == 2
    assert "also an input" in result.stderr
    assert (cli.folder / out).read_bytes() == before


@pytest.mark.parametrize("out", [".", "nowhere/release.json"])
def test_an_output_that_cannot_be_written_is_found_before_the_charge(cli, out):
    result = cli.fit(*cli.ledger, out=out)
    assert result.exit_code == 2
    assert cli.charges() == 0


def test_a_failed_fit_leaves_no_file_at_all(cli):
    before = sorted(os.listdir(cli.folder))
    cli.spoil(age=cli.marker)
    assert cli.fit().exit_code == 2
    assert sorted(os.listdir(cli.folder)) == before


def test_a_full_disk_is_one_line_and_leaves_no_part(cli, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("onedraw.cli.files.os.fsync", full)
    result = cli.fit()
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert not list(cli.folder.glob("*release.json*"))
    assert not list(cli.folder.glob(".*"))


# -- failures after the charge


def test_a_sampling_failure_has_its_code_and_the_charge_stands(cli, monkeypatch):
    def fail(self, *args, **kwargs):
        raise onedraw.AcceptanceTooLow("The envelope fits too badly.")

    monkeypatch.setattr("onedraw.mechanisms.TiltedFit._computed", fail)
    result = cli.fit(*cli.ledger)
    assert result.exit_code == 4
    assert "The charge stands" in result.stderr
    assert cli.charges() == 1
    assert not (cli.folder / "release.json").exists()
    assert "The charge stands" not in cli.fit().stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [(onedraw.InvalidInput("No."), 2), (ZeroDivisionError(), 1), (KeyboardInterrupt(), 130)],
    ids=lambda value: type(value).__name__,
)
def test_whatever_fails_behind_the_charge_says_that_the_charge_stands(cli, monkeypatch, error, code):
    def fail(self, *args, **kwargs):
        raise error

    monkeypatch.setattr("onedraw.mechanisms.TiltedFit._computed", fail)
    result = cli.fit(*cli.ledger)
    assert result.exit_code == code
    assert "The charge stands" in result.stderr
    assert cli.charges() == 1


def test_a_fit_beyond_the_budget_is_refused_with_what_remains(cli):
    for i in range(3):
        assert cli.fit(*cli.ledger, out=f"{i}.json").exit_code == 0
    result = cli.fit(*cli.ledger)
    assert result.exit_code == 3
    assert "Cannot spend epsilon=1 on dataset 'patients': 0 of 3 remains" in result.stderr
    assert "onedraw ledger show" in result.stderr
    assert not (cli.folder / "release.json").exists()
    machine = json.loads(cli.fit("--json", *cli.ledger).stderr)["error"]
    assert (machine["exit_code"], machine["requested"], machine["remaining"]) == (3, 1.0, 0.0)


def test_who_has_no_budget_learns_nothing_about_the_rows(cli):
    """Names of columns and the number of rows are public; the budget is looked at before any row is."""
    for i in range(3):
        assert cli.fit(*cli.ledger, out=f"{i}.json").exit_code == 0
    expected = cli.fit(*cli.ledger).stderr.splitlines()[-1]  # cautions follow the public number of rows
    names = "id,age,smoker,status\n"
    for rows in ("1,2\n", '1,"2,no,dead\n', f"{cli.marker},x,y,z\n"):
        (cli.folder / "patients.csv").write_text(names + rows)
        result = cli.fit(*cli.ledger)
        assert (result.exit_code, result.stderr.splitlines()[-1]) == (3, expected)


def test_rows_are_read_only_after_the_budget_was_found_to_pay(cli, monkeypatch):
    seen = []
    read, afford = fit_module.read_table, publishing.afford
    monkeypatch.setattr(fit_module, "read_table", lambda *args: [seen.append("read"), read(*args)][1])
    monkeypatch.setattr(publishing, "afford", lambda *terms: [seen.append("afford"), afford(*terms)][1])
    assert cli.fit(*cli.ledger).exit_code == 0
    assert seen == ["afford", "read"]


# -- other mechanisms


def test_another_mechanism_is_chosen_by_name_with_its_options(cli):
    chosen = mechanism("output_perturbation", "feature_norm=2", "regularisation=0.1", "noise=laplace")
    assert cli.fit(*chosen, *cli.ledger).exit_code == 0
    made = release_of(cli).mechanism
    expected = OutputPerturbation(feature_norm=2, regularisation=0.1, noise="laplace")
    assert (made.name, made.options) == ("output_perturbation", expected.options)
    assert any("feature_norm=2" in line for line in release_of(cli).assumptions)
    assert cli.charges() == 1


def test_the_law_of_the_errors_is_an_option_of_the_linear_model(cli):
    assert cli.fit("--errors", "laplace", model="linear", target="pressure", **NUMBERS).exit_code == 0
    assert release_of(cli).model.family.name == "laplace"


def test_dashes_and_underscores_of_a_model_are_alike(cli):
    chosen = {"model": "negative-binomial", "target": "visits", **NUMBERS}
    assert cli.fit("--dispersion", "2.5", "--no-fit-intercept", **chosen).exit_code == 0
    model = release_of(cli).model
    assert (model.kind, model.family.dispersion, model.fit_intercept) == ("negative_binomial", 2.5, False)


def test_an_unexpected_error_shows_its_type_only_and_debug_shows_the_rest(cli, monkeypatch):
    def broken(*args):
        raise ZeroDivisionError(cli.marker)

    monkeypatch.setattr(fit_module, "read_table", broken)
    result = cli.fit()
    assert result.exit_code == 1
    assert "Unexpected ZeroDivisionError" in result.stderr
    assert cli.marker not in result.output
    assert "Traceback" not in result.output
    assert "Traceback" in cli.fit("--debug").stderr


def test_the_json_of_a_fit_is_the_release_and_the_account(cli):
    content = json.loads(cli.fit("--json", *cli.ledger).stdout)
    assert content["release"] == json.loads((cli.folder / "release.json").read_text())
    assert content["ledger"]["spent"] == 1.0
    assert json.loads(cli.fit("--json", "--force").stdout)["ledger"] is None


def test_the_draw_is_that_of_the_estimator_on_the_same_numbers(cli):
    """The command adds reading and naming, nothing else."""
    assert cli.fit("--seed", "11", target="died", **NUMBERS).exit_code == 0
    table = np.genfromtxt(cli.folder / "numbers.csv", delimiter=",", names=True)
    X = np.stack([table["age"], table["visits"], table["pressure"]], axis=1)
    model = onedraw.LogisticRegression(epsilon=1.0, classes=[0, 1], random_state=11).fit(X, table["died"])
    assert release_of(cli).draws == model.release_.draws


# -- networks


@pytest.mark.jax
def test_a_network_is_fitted_shown_and_used_for_prediction(cli, monkeypatch):
    pytest.importorskip("jax")
    lax = {"min_ess": 1.0, "max_rhat": 5.0, "max_divergent": 0.99, "min_bfmi": 0.01}
    quick = NutsSampler(chains=2, warmup=100, kept=50, **lax)
    monkeypatch.setattr(NetworkDraw, "drawn_by", quick, raising=False)
    result = cli.fit(*cli.ledger, "--seed", "1", "--hidden-layer-sizes", "2", model="mlp-classifier")
    assert result.exit_code == 0, result.stderr
    assert "neural network" in result.stdout
    assert cli.charges() == 1
    assert "diagnosed" in cli.run("show", "release.json").stdout
    predicted = cli.run("predict", "release.json", "patients.csv")
    assert predicted.exit_code == 0, predicted.stderr
    assert predicted.stdout.splitlines()[0].startswith("prediction")
    assert from_release(release_of(cli)).classes_.tolist() == ["alive", "dead"]


@pytest.mark.jax
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("dp_sgd", ("clip=0.5", "optimiser=sgd")),
        ("beta_sgd", ("feature-norm=2", "weight_norm=3")),
        ("dp_vi", ("clip=0.5", "draws=3")),
    ],
)
def test_a_network_is_fitted_by_noisy_gradients(cli, name, more):
    pytest.importorskip("jax_privacy")
    chosen = mechanism(name, "epochs=2", "batch_size=50", *more)
    network = ("--delta", "1e-5", "--hidden-layer-sizes", "2", "--activation", "tanh")
    onedraw.Ledger(cli.folder / "with_delta.db").create(
        "trial", epsilon=2.0, delta=1e-4, delta_for_charges=1e-4
    )
    ledger = ("--ledger", "with_delta.db", "--dataset", "trial")
    result = cli.fit(*chosen, *network, *ledger, "--seed", "1", model="mlp-classifier")
    assert result.exit_code == 0, result.stderr
    assert "Charged to data set 'trial': 1 of epsilon 2" in result.stdout
    release = release_of(cli)
    told = release.mechanism
    assert (told.name, told.options["epochs"], told.options["batch_size"]) == (name, 2, 50)
    assert (release.model.hidden_layer_sizes, release.model.activation) == ((2,), "tanh")
    assert cli.run("predict", "release.json", "patients.csv").exit_code == 0


# -- options that cannot be

DELTA = ("--delta", "1e-5")
DP_SGD = (*mechanism("dp_sgd"), *DELTA)


@pytest.mark.parametrize(
    ("model", "chosen", "message"),
    [
        ("logistic", mechanism("output_perturbation"), "needs feature_norm: one record moves the estimate"),
        ("logistic", mechanism("adassp"), "AdaSSP is for these models: gaussian; got a logistic model"),
        ("logistic", mechanism("ada_ssp"), "Did you mean 'adassp'?"),
        ("logistic", mechanism("dp_sgd"), "Expected mechanism to be one of"),
        ("logistic", mechanism("auto", "beta=2"), "--mechanism-option is for a mechanism that is named"),
        ("logistic", mechanism("one_posterior", "bta=2"), "Did you mean 'beta'?"),
        ("logistic", mechanism("one_posterior", "beta=0.5"), "Expected beta"),
        ("logistic", mechanism("one_posterior", "noise_floor=1"), "which has no residual scale"),
        ("logistic", mechanism("one_posterior", "evidence=proven"), "Did you mean 'proved'?"),
        ("logistic", mechanism("one_posterior", "beta"), "as name=value, for example epochs=20"),
        ("logistic", mechanism("one_posterior", "beta=2", "beta=3"), "gives beta twice"),
        ("logistic", ("--hidden-layer-sizes", "3"), "--hidden-layer-sizes does not apply to the logistic"),
        ("logistic", ("--activation", "tanh"), "--activation does not apply to the logistic model"),
        ("logistic", ("--errors", "laplace"), "--errors does not apply to the logistic model"),
        ("logistic", ("--dispersion", "2"), "--dispersion does not apply to the logistic model"),
        ("mlp-classifier", ("--no-fit-intercept",), "--fit-intercept does not apply to the mlp-classifier"),
        ("mlp-classifier", ("--draws", "auto"), "does not choose the number of draws"),
        ("mlp-classifier", mechanism("dp_sgd"), "DPSGD has no guarantee at delta=0"),
        ("mlp-classifier", mechanism("adassp"), "Expected mechanism to be one of"),
        ("mlp-classifier", (*mechanism("dp_sgd", "epoch=2"), *DELTA), "Did you mean 'epochs'?"),
        ("mlp-classifier", (*mechanism("dp_sgd", "epochs=2.5"), *DELTA), "epochs to be a whole number >= 1"),
        ("mlp-classifier", (*mechanism("dp_sgd", "clip=big"), *DELTA), "Expected clip > 0 and finite"),
        ("mlp-classifier", (*DP_SGD, "--hidden-layer-sizes", "ten"), "'ten' cannot be read"),
        ("mlp-classifier", (*DP_SGD, "--hidden-layer-sizes", "0"), "hidden_layer_sizes to be a whole number"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_before_the_charge(cli, model, chosen, message):
    if model == "mlp-classifier":
        pytest.importorskip("jax_privacy")
    result = cli.fit(*chosen, *cli.ledger, model=model)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert cli.charges() == 0


def test_columns_without_declared_bounds_are_warned_about_before_the_charge(cli):
    cli.write_csv(
        cli.folder / "ages.csv", {"age": [20, 50, 80] * 20, "income": [1, 9, 5] * 20, "died": [0, 0, 1] * 20}
    )
    told = cli.fit(data="ages.csv", target="died", columns=None)
    drawn = cli.fit("--force", "--mechanism", "one_posterior", data="ages.csv", target="died", columns=None)
    known = cli.fit("--force")
    assert told.exit_code == drawn.exit_code == known.exit_code == 0
    assert "too few to find a unit for each" in told.stderr
    assert "under [columns.NAME] of the column file" in told.stderr
    assert "taken to be of order one" in drawn.stderr
    assert "No bounds" not in known.stderr
