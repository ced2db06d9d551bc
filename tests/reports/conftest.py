# SPDX-License-Identifier: Apache-2.0
"""Pages, parsed and shown in a real browser where one is installed (Debian's chromium)."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HEADLESS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
VOID = {"meta", "input"}


class WellFormed(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.addresses = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def well_formed():
    return WellFormed


@pytest.fixture
def browse(tmp_path):
    """A function that shows a page of some width and returns what became of it.

    A ``probe`` is a script that looks at the layout; it takes the place of the policy that would forbid it.
    """
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium")

    def show(text, width=1100, *, probe=None):
        page = tmp_path / "shown.html"
        if probe is not None:
            text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', lambda _: probe, text)
        page.write_text(text, "utf-8")
        options = [*HEADLESS, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},1200"]
        command = [CHROMIUM, *options, "--dump-dom", f"file://{page}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout

    return show
