# SPDX-License-Identifier: Apache-2.0
"""What an import did."""

from .fields import Count, Message


class Imported(Message):
    """Rows taken and rows that were there already."""

    studies: Count
    results: Count
    same: Count
