# SPDX-License-Identifier: Apache-2.0
"""``python -m onedraw`` is the command ``onedraw``."""

from onedraw.cli import main

if __name__ == "__main__":
    main()
