# SPDX-License-Identifier: Apache-2.0
"""Pictures and pages of what the library computes; pictures need the ``plots`` extra, pages need nothing."""
