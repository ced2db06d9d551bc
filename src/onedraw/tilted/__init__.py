# SPDX-License-Identifier: Apache-2.0
"""The tilted fit: regressions whose objective carries a random linear term, private by its known law."""
