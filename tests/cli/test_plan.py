# SPDX-License-Identifier: Apache-2.0
"""``onedraw plan``: table, picture, JSON and mistakes."""

import pytest

PLAN = ("plan", "--model", "logistic", "--rows", "200", "--features", "2", "--repeats", "2", "--seed", "1")


def test_a_plan_is_a_table_and_a_sentence(cli):
    result = cli.run(*PLAN, "--epsilons", "0.5,5", "--wanted-error", "2")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].endswith("No data were read.")
    assert lines[2].split()[:2] == ["epsilon", "private"]
    assert [line.split()[0] for line in lines[3:5]] == ["0.5", "5"]
    assert "An error of 2" in result.stdout


def test_a_plan_of_declared_columns_says_its_units(cli):
    (cli.folder / "c.toml").write_text(
        '[columns.age]\nbounds = [18, 100]\n[columns.town]\ncategories = ["a", "b", "c"]\n'
    )
    more = ("--model", "poisson", "--rows", "3000", "--repeats", "2", "--epsilons", "1", "--seed", "1")
    result = cli.run("plan", *more, "--columns", "c.toml")
    assert result.exit_code == 0, result.stderr
    assert "3 features, numbers on [-1, 1] and categories against the first, 2 tables" in result.stdout


def test_a_plan_as_json(cli):
    content = cli.json(*PLAN, "--epsilons", "1")
    assert content["rows"][0]["epsilon"] == 1.0
    assert content["advice"].startswith("At epsilon 1")


@pytest.mark.parametrize(("name", "start"), [("p.png", b"\x89PNG"), ("p.svg", b"<?xml"), ("p.pdf", b"%PDF")])
def test_a_picture_of_the_plan(cli, name, start):
    pytest.importorskip("matplotlib")
    assert cli.run(*PLAN, "--epsilons", "0.5,5", "--picture", name).exit_code == 0
    assert (cli.folder / name).read_bytes().startswith(start)
    again = cli.run(*PLAN, "--epsilons", "1", "--picture", name)
    assert again.exit_code == 2
    assert "--force" in again.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--epsilons", "1,x"), "'1,x' is not a list of numbers"),
        (("--epsilons", "0"), "epsilon"),
        (("--picture", "plan.txt"), ".png, .svg, .pdf"),
        (("--classes", "3"), "multinomial"),
    ],
)
def test_mistakes_are_explained_in_a_line_or_two(cli, more, message):
    result = cli.run(*PLAN, *more)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) <= 2
    assert not list(cli.folder.glob("plan.*"))
