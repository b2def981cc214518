# SPDX-License-Identifier: Apache-2.0
"""Replies to an import."""

from .fields import Count, Message


class Imported(Message):
    """Rows taken and rows that were there already."""

    studies: Count
    results: Count
    same: Count
