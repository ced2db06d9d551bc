# SPDX-License-Identifier: Apache-2.0
"""The documentation runs: every Python block, every command, every link."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WRITTEN_FOR_THE_SITE = {"reference/python.md", "reference/mechanisms.md", "reference/command.md"}
"""``scripts/reference_pages.py`` writes them, and tests/test_site.py builds the site with them."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def blocks(page, *languages):
    """(line number, text) of the fenced blocks in these languages, with their indent removed."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        indent, language, body = match.groups()
        if language in languages:
            lines = [line.removeprefix(indent) for line in body.splitlines()]
            yield text.count("\n", 0, match.start()) + 2, "\n".join(lines) + "\n"


def prose(page):
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """Anchors of the headings, made as code hosts make them: lower case, words joined by hyphens."""
    for heading in HEADING.findall(prose(page)):
        plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        yield plain.replace(" ", "-")


@pytest.mark.parametrize("page", [p for p in PAGES if any(blocks(p, "python"))], ids=name_of)
def test_python_blocks_run_in_sequence(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "__docs__"}
    for line, code in blocks(page, "python"):
        # Blank lines in front make a traceback show the line of the page.
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), scope)


def test_the_readme_example_prints_the_sentence_that_the_readme_quotes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    readme = ROOT / "README.md"
    example = next(blocks(readme, "python"))[1]
    assert len(example.strip().splitlines()) <= 12
    exec(compile(example, "README.md", "exec"), {"__name__": "__docs__"})
    sentence = capsys.readouterr().out.splitlines()[0]
    quoted = re.sub(r"\s*\n> ?", " ", readme.read_text(encoding="utf-8"))
    assert sentence in quoted
    assert (tmp_path / "release.json").is_file()


def test_the_readme_runs_from_top_to_bottom_in_an_empty_folder(tmp_path, monkeypatch, capsys):
    """Exactly as printed: Python blocks, and the commands between them."""
    monkeypatch.chdir(tmp_path)
    page, scope = ROOT / "README.md", {"__name__": "__docs__"}
    run = [(line, code, None) for line, code in blocks(page, "python")]
    run += [(line, None, text) for line, text in blocks(page, "sh")]
    commands = 0
    for line, code, text in sorted(run, key=lambda block: block[0]):
        if code is not None:
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), scope)
            continue
        for command in (words for words in map(shlex.split, text.splitlines()) if words[0] == "onedraw"):
            done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
            assert done.returncode == 0, f"{command}: {done.stderr}"
            commands += 1
    assert commands >= 4
    assert (tmp_path / "biopsies.json").is_file()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_name_scripts_that_exist(page):
    for _, text in blocks(page, "sh", "bash", "shell", "console"):
        for line in text.splitlines():
            command = line.split("#")[0].removeprefix("$ ").split()
            if not command:
                continue
            if "/" in command[0]:
                script = ROOT / command[0]
                assert script.is_file(), line
                assert os.access(script, os.X_OK), f"not executable: {line}"
            else:
                assert command[0] in {"pip", "python", "python3", "git", "cd", "onedraw"}, line
    for script in re.findall(r"`(scripts/\w+)", prose(page)):
        assert (ROOT / script).is_file(), f"{name_of(page)} names {script}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_inside_the_repository_resolve(page):
    broken = []
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        if path in WRITTEN_FOR_THE_SITE and page.name == "index.md":
            continue
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            broken.append(target)
    assert not broken, f"{name_of(page)}: {broken}"


def test_the_picture_is_small():
    assert (ROOT / "docs" / "images" / "demo.png").stat().st_size < 150_000


def test_every_pitfall_of_the_table_has_its_section_and_severity():
    text = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| (\d+) \| \[.*?\| (\w+) \|$", text, re.MULTILINE))
    section, found = None, {}
    for level, title in re.findall(r"^(##+) (.*)$", text, re.MULTILINE):
        if level == "##":
            section = title
        else:
            found[title.split(".")[0]] = section
    assert listed == found
    assert set(found.values()) == {"Critical", "Serious", "Moderate", "Theoretical"}


def test_the_layers_of_the_design_page_are_those_of_the_test():
    spec = importlib.util.spec_from_file_location("layers", ROOT / "tests" / "test_layers.py")
    layers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layers)
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    block = re.search(r"## Layers.*?```\n(.*?)```", text, re.DOTALL)[1]
    drawn = [line[:35].split() for line in block.splitlines()]
    assert drawn == [names for names in layers.LAYERS if "__init__" not in names]
