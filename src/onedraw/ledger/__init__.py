# SPDX-License-Identifier: Apache-2.0
"""The budget ledger: what has been released about a data set, and what may still be."""

from onedraw.ledger.ledger import Ledger
from onedraw.ledger.records import Account, Entry, Receipt, Table, Verification

__all__ = ["Account", "Entry", "Ledger", "Receipt", "Table", "Verification"]
