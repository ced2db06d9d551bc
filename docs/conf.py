# SPDX-License-Identifier: Apache-2.0
"""The documentation site, built by ``scripts/docs``: its pages load nothing from elsewhere when viewed."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "scripts"))

import reference_pages  # noqa: E402  # found by the line above

import onedraw  # noqa: E402

project = "onedraw"
version = release = onedraw.__version__
extensions = ["myst_parser"]
exclude_patterns = ["reproduction/cells"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"onedraw {version}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style, pygments_dark_style = "friendly", "native"

# Pages that are written from the code are part of the source tree only while the site is built.
reference_pages.write(HERE)
