# SPDX-License-Identifier: Apache-2.0
"""Every mistake in the input: one or two lines, exit code 2, no value quoted.

No budget is spent on a mistake that public facts show, and always on one that values show."""

import pytest

# What the first row of the table holds -> what the message says.
VALUES = {
    "text in a numeric column": ({"age": "{marker}"}, "Column 'age' holds something that is not a finite"),
    "infinity": ({"age": "inf"}, "Column 'age' holds something that is not a finite number"),
    "underscore": ({"age": "1_000"}, "Column 'age' holds something that is not a finite number"),
    "a missing number": ({"age": ""}, "Column 'age' has missing values"),
    "a missing category": ({"smoker": "NA"}, "Column 'smoker' has missing values"),
    "a missing label": ({"status": ""}, "The target 'status' has missing values"),
    "a category": ({"smoker": "{marker}"}, "Column 'smoker' holds a category that is not declared"),
    "a label": ({"status": "{marker}"}, "holds a label that is not among the classes ['alive', 'dead']"),
    "a field too many": ({"age": "1,2"}, "more or fewer fields"),
}


def check(cli, result, message, *, charges=0):
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stdout == ""
    told = [line for line in result.stderr.strip().splitlines() if not line.startswith("CAUTION: ")]
    assert told[0].startswith("error: ")
    assert len(told) <= 2
    assert "Traceback" not in result.stderr
    assert cli.marker not in result.output
    assert cli.charges() == charges
    assert ("The charge stands" in result.stderr) is bool(charges)
    assert not (cli.folder / "release.json").exists()


@pytest.mark.parametrize("case", VALUES)
def test_a_bad_value_names_its_column_and_is_not_quoted(cli, case):
    values, message = VALUES[case]
    cli.spoil(**{name: value.format(marker=cli.marker) for name, value in values.items()})
    check(cli, cli.fit(*cli.ledger), message, charges=1)
    assert "onedraw check DATA" in cli.fit(*cli.ledger).stderr
    without = cli.fit().stderr  # the owner, who pays nothing
    assert message in without
    assert "The charge stands" not in without


FILES = {
    "no column names": (b"Zebra7391,61,yes,dead\nZebra7391,47,no,alive\n", "has no column 'status'"),
    "two columns of one name": (b"Zebra7391,Zebra7391,status\n1,2,dead\n", "same name"),
    "a column without a name": (b"Zebra7391,,status\n1,2,dead\n", "same name, or one has none"),
    "names that are not UTF-8": (b"Zebra7391\xff,status\n1,dead\n", "is not a CSV file in UTF-8"),
    "a value that is not UTF-8": (
        b"id,age,smoker,status\n1,Zebra7391\xff,no,dead\n",
        "is not a CSV file in UTF-8",
    ),
    "an open quote": (b'id,age,smoker,status\n1,"Zebra7391,no,dead\n', "is not a CSV file in UTF-8"),
    "nothing": (b"", "is empty"),
    "no rows": (b"id,age,smoker,status\n", "has no rows"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_bad_table_is_one_line(cli, case):
    content, message = FILES[case]
    (cli.folder / "patients.csv").write_bytes(content)
    # What is found in the header or by counting rows costs nothing.
    after = case in ("an open quote", "a value that is not UTF-8")
    check(cli, cli.fit(*cli.ledger), message, charges=int(after))


@pytest.mark.parametrize("value", [b"Zebra7391\xff", b'"Zebra7391', b"Zebra\x007391", b"Zebra7391"])
def test_a_dry_run_says_the_same_whatever_a_value_is_made_of(cli, value):
    """The last row of a table is spoilt: before a charge that may not even show in what is planned."""
    path = cli.folder / "patients.csv"
    sound = cli.fit("--dry-run", *cli.ledger)
    head, last = path.read_bytes().rstrip(b"\n").rsplit(b"\n", 1)
    row = last.split(b",")
    row[1] = value
    path.write_bytes(head + b"\n" + b",".join(row) + b"\n")
    spoilt = cli.fit("--dry-run", *cli.ledger)
    assert (spoilt.exit_code, spoilt.stderr) == (0, sound.stderr)
    assert "".join(untimed(spoilt.stdout)) == "".join(untimed(sound.stdout))


def untimed(text):
    """The lines but those about how long a fit takes."""
    return [line for line in text.splitlines() if not ("takes" in line or " s" in line)]


SPECS = {
    "not TOML": ("ignore = [", "is not valid"),
    "an unknown key": ("colums = 1", "unknown key 'colums'"),
    "an unknown fact": ("[columns.age]\nbound = [0, 1]", "unknown key 'bound'"),
    "an unknown fact of the target": ('[target]\nclass = "a"', "unknown key 'class'"),
    "a column that is not there": ("[columns.agee]\nbounds = [0, 1]", "names 'agee' in columns"),
    "an ignored column that is not there": ('ignore = ["idd"]', "names 'idd' in ignore"),
    "the target as a feature": ('use = ["age", "status"]', "names the target 'status' in use"),
    "facts about an unused column": ('use = ["id"]\n[columns.age]\nbounds = [0, 1]', "'age', which is not"),
    "no feature": ("use = []", "No column is left"),
    "bounds in the wrong order": ("[columns.age]\nbounds = [100, 18]", "low < high"),
    "bounds that are no pair": ("[columns.age]\nbounds = [100]", "bounds = [low, high]"),
    "bounds and categories": ('[columns.age]\nbounds=[0, 1]\ncategories=["a", "b"]', "bounds and categories"),
    "one category": ('[columns.smoker]\ncategories = ["no"]', "two or more distinct labels"),
    "categories without quotes": ("[columns.smoker]\ncategories = [false, true]", "in quotes"),
    "a missing rule that is no category": (
        '[columns.smoker]\ncategories = ["no", "yes"]\nmissing = "unknown"',
        "missing to be one of its categories",
    ),
    "a missing rule that is no number": ('[columns.age]\nmissing = "x"', "expected a finite number"),
    "three classes": ('[target]\nclasses = ["a", "b", "c"]', "Set --model multinomial"),
    "classes of two kinds": ('[target]\nclasses = ["a", 1]', "all text or all numbers"),
    "bounds of a class": ("[target]\nbounds = [0, 1]", "bounds under [target] does not apply to the"),
    "a noise floor": ("[target]\nnoise_floor = 1", "unknown key 'noise_floor'"),
    "columns as a list": ("columns = [1]", "expected names with values"),
    "use as a text": ('use = "age"', "list of column names"),
    "a column twice": ('use = ["age", "age"]', "names a column twice"),
}


@pytest.mark.parametrize("case", SPECS)
def test_a_bad_specification_says_what_is_wrong(cli, case):
    text, message = SPECS[case]
    (cli.folder / "columns.toml").write_text(text)
    check(cli, cli.fit(*cli.ledger), message)


OPTIONS = {
    "epsilon 0": (["--epsilon", "0"], "Expected epsilon > 0"),
    "delta 1": (["--delta", "1"], "Expected delta in [0, 1)"),
    "no draws": (["--draws", "0"], "Expected draws"),
    "some draws": (["--draws", "some"], "a whole number >= 1 or 'auto', got 'some'"),
    "a negative seed": (["--seed", "-1"], "--seed"),
    "an unknown model": (["--model", "forest"], "forest"),
    "an unknown option": (["--epsilom", "1"], "--epsilom"),
    "unknown neighbours": (["--neighbours", "next_door"], "next_door"),
    "a text for a number": (["--epsilon", "much"], "much"),
    "a specification that is not there": (["--columns", "nowhere.toml"], "Cannot read the column"),
    "a specification in JSON": (["--columns", "columns.json"], ".toml or .yaml"),
    "an unknown target": (["--target", "stauts"], "has no column 'stauts'"),
    "an unknown data set": (["--dataset", "patient"], "Did you mean 'patients'?"),
    "proof for too many parameters": (
        ["--mechanism", "one_posterior", "--mechanism-option", "evidence=proved", "--columns", "more.toml"],
        "at most 5 parameters, got 7",
    ),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_a_bad_option_is_refused_before_the_charge(cli, case):
    options, message = OPTIONS[case]
    (cli.folder / "more.toml").write_text(
        'use = ["smoker"]\n[target]\nclasses=["alive", "dead"]\n'
        '[columns.smoker]\ncategories = ["no", "yes", "former", "a", "b", "c", "d"]\n'
    )
    check(cli, cli.fit(*cli.ledger, *options), message)


def test_a_ledger_needs_a_data_set_and_a_data_set_a_ledger(cli):
    check(cli, cli.fit("--ledger", "budget.db"), "Set --dataset VALUE, or leave --ledger out")
    check(cli, cli.fit("--dataset", "patients"), "Set --ledger VALUE, or leave --dataset out")


def test_a_ledger_that_is_not_there_is_not_created(cli):
    result = cli.fit("--ledger", "other.db", "--dataset", "patients")
    assert result.exit_code == 5
    assert "There is no ledger" in result.stderr
    assert "onedraw ledger create" in result.stderr
    assert not (cli.folder / "other.db").exists()


def test_a_table_of_unknown_kind_or_place_is_refused(cli):
    check(cli, cli.fit(data="patients.sav"), "ends in .csv, .tsv")
    check(cli, cli.fit(data="nowhere.csv"), "No such file")


def test_text_in_a_count_or_a_negative_count_is_refused(cli):
    cli.write_csv(cli.folder / "counts.csv", {"age": [1, 2], "n": [1, -2]})
    check(
        cli,
        cli.fit(data="counts.csv", target="n", model="poisson", columns=None),
        "Expected a response of counts",
    )
    cli.write_csv(cli.folder / "counts.csv", {"age": [1, 2], "n": [1, cli.marker]})
    check(cli, cli.fit(data="counts.csv", target="n", model="poisson", columns=None), "of counts")


@pytest.mark.parametrize("name", ["(intercept)", "age=old (vs young)"])
def test_a_column_named_like_a_parameter_is_refused(cli, name):
    cli.write_csv(cli.folder / "odd.csv", {name: [1, 2], "died": [0, 1]})
    result = cli.fit(*cli.ledger, data="odd.csv", target="died", columns=None)
    check(cli, result, name)
