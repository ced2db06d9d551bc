# SPDX-License-Identifier: Apache-2.0
"""The pages about the command: what they say to type is typed, in sequence, in an empty folder."""

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

import onedraw
from onedraw.cli import main
from onedraw.columns import Columns

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(python|py|sh|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(page):
    """Run all blocks; return (command, output) for each line that starts with onedraw."""
    scope, done = {"__name__": "__docs__"}, []
    for language, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if language in ("python", "py"):
            exec(compile(text, page, "exec"), scope)
        elif language == "sh":
            for line in text.splitlines():
                program, *arguments = shlex.split(line, comments=True)
                assert program == "onedraw", line
                result = CliRunner().invoke(main, arguments)
                assert result.exit_code == 0, f"{line}\n{result.output}"
                done.append((line, result.stdout))
    return done


def output_of(done, start):
    return next(output for line, output in done if line.startswith(start))


def test_the_tutorial_runs_and_shows_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    done = run_page("tutorial.md")
    assert re.search(r"^10% +23.2%$", output_of(done, "onedraw explain"), re.MULTILINE)
    dry = output_of(done, "onedraw fit")
    assert "CAUTION" not in dry
    assert "half-width of its 95% interval" in dry
    assert "nothing was charged" in dry
    fit, fitted = next((line, said) for line, said in done if "--out release.json" in line)
    assert "replacing all the data of any one person" in fitted.lower().splitlines()[0]
    assert "smoker=yes (vs no)" in fitted
    assert "1 of epsilon 2 spent, 1 remains" in fitted
    assert "sound" in output_of(done, "onedraw ledger verify")
    assert (tmp_path / "predictions.csv").read_text() == output_of(done, "onedraw predict")
    release = onedraw.Release.from_json(tmp_path / "release.json")
    assert not release.seeded
    again = [[*shlex.split(fit)[1:-1], name] for name in ("second.json", "third.json")]
    codes = [CliRunner().invoke(main, arguments).exit_code for arguments in again]
    assert codes == [0, 3]


def test_the_commands_of_the_reference_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(run_page("command.md")) == 3


def test_the_specification_of_the_reference_is_valid(tmp_path):
    found = BLOCK.findall((DOCS / "command.md").read_text(encoding="utf-8"))
    (text,) = (text for language, text in found if language == "toml")
    (tmp_path / "c.toml").write_text(text)
    spec = Columns.read(str(tmp_path / "c.toml"))
    assert spec.columns["smoker"].missing == "no"
    commented = re.sub(r"^# ", "", text, flags=re.MULTILINE)
    (tmp_path / "c.toml").write_text(commented)
    assert Columns.read(str(tmp_path / "c.toml")).target.bounds == (0.0, 300.0)
