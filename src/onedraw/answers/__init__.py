# SPDX-License-Identifier: Apache-2.0
"""A mean, a proportion, a rate, and the comparison of two groups: one line each, with an interval."""

from onedraw.answers.answer import Answer
from onedraw.answers.questions import compare, mean, proportion, rate

__all__ = ["Answer", "compare", "mean", "proportion", "rate"]
