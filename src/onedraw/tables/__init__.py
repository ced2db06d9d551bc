# SPDX-License-Identifier: Apache-2.0
"""Tables of private records: in memory, streamed from files, or on the workers of a cluster."""
