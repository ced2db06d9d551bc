# SPDX-License-Identifier: Apache-2.0
"""Pictures of what the library computes; each needs the ``plots`` extra and imports it when it draws."""
