# SPDX-License-Identifier: Apache-2.0
"""The site builds without a warning, names everything that is public, and loads nothing from elsewhere."""

import html
import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import onedraw
from onedraw.cli.app import main
from onedraw.registry import MECHANISMS

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("sphinx")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    home = tmp_path_factory.mktemp("site")
    for name in ("docs", "scripts"):  # a copy: the build writes the pages of the reference beside the others
        shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns("cells", "reference"))
    target = home / "html"
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "docs", target]
    built = subprocess.run(command, cwd=home, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return target


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_every_public_name_is_in_the_reference(site):
    text = text_of(site / "reference" / "python.html")
    for name in onedraw.__all__:
        if not name.startswith("_") and not inspect.ismodule(getattr(onedraw, name)):
            assert f"onedraw.{name}" in text, name


def test_every_mechanism_and_its_guarantee_are_in_the_reference(site):
    text = text_of(site / "reference" / "mechanisms.html")
    for name, kind in MECHANISMS.items():
        assert f'mechanism="{name}"' in text
        for option in kind.option_names():
            assert option in text, f"{name}: {option}"
    assert text.count("Guarantee:") >= len(MECHANISMS) - 1


def test_every_command_is_in_the_reference(site):
    text = text_of(site / "reference" / "command.html")
    for name in main.commands:
        assert f"onedraw {name}" in text


def test_every_page_of_the_folder_is_on_the_site_and_can_be_found(site):
    index = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / f"{page.stem}.html").is_file()
        assert page.stem == "index" or f'href="{page.stem}.html"' in index


def test_no_page_loads_anything_from_elsewhere(site):
    """Links may point outside; scripts, styles, fonts and pictures may not."""
    tags = ("<script[^>]*src", "<img[^>]*src", "<iframe[^>]*src", "<source[^>]*src", "<link[^>]*href")
    loads = re.compile("|".join(rf"{tag}=.(?:https?:)?//" for tag in tags))
    styles = re.compile(r"url\([\"']?(?:https?:)?//|@import")
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page.name
    for sheet in site.rglob("*.css"):
        assert not styles.search(sheet.read_text(encoding="utf-8")), sheet.name


def test_sections_of_docstrings_become_sections_and_lists():
    spec = importlib.util.spec_from_file_location("reference_pages", ROOT / "scripts" / "reference_pages.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    shown = pages.as_markdown("A ``name``.\n\nArgs:\n    rate: how fast,\n        or not.\n\n>>> 1 + 1\n2\n")
    assert "A `name`." in shown
    assert "**Args:**" in shown
    assert "- `rate`: how fast,\n    or not." in shown
    assert "```pycon\n>>> 1 + 1\n2\n```" in shown
