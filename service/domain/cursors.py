# SPDX-License-Identifier: Apache-2.0
"""Cursors of lists that are read page by page: the time and the id of the last item of the page before."""

import math
import re

from ringtune.service.errors import InvalidRequest

ID = re.compile(r"[ -~]{1,64}")


def cursor_of(unix_s: float, item_id: str) -> str:
    """Return the cursor of the page after an item."""
    return f"{unix_s!r}_{item_id}"


def place_in(cursor: str | None) -> tuple[float, str] | None:
    """Return the time and the id in a cursor; None for None.

    Raises:
        InvalidRequest: If it is none that an earlier page gave.
    """
    if cursor is None:
        return None
    time, _, item_id = cursor.partition("_")
    try:
        unix_s = float(time)
    except ValueError:
        unix_s = math.nan
    if not math.isfinite(unix_s) or not ID.fullmatch(item_id):
        raise InvalidRequest(f"cursor={cursor[:100]!r} is none that an earlier page gave")
    return unix_s, item_id
