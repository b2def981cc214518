# SPDX-License-Identifier: Apache-2.0
"""Imports."""

from .fields import Count, Reply


class Imported(Reply):
    """Rows taken and rows that were there already."""

    studies: Count
    results: Count
    same: Count
