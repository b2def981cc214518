# SPDX-License-Identifier: Apache-2.0
"""Recognition of a terminal on which a person sees this process's output: its own, or its launcher's."""

import re
from collections.abc import Mapping

COLUMNS_NAME = "RINGTUNE_TERMINAL_COLUMNS"
DEFAULT_COLUMNS = 80  # width of a terminal that does not report it
_NUMBER = re.compile("[1-9][0-9]{0,5}")
_DUMB = ("", "dumb", "unknown")


def can_move_cursor(environ: Mapping[str, str]) -> bool:
    """Return whether a terminal understands more than lines."""
    return environ.get("TERM", "") not in _DUMB


def is_relayed(environ: Mapping[str, str]) -> bool:
    """Return whether a launcher shows this process's output on its terminal."""
    return _NUMBER.fullmatch(environ.get(COLUMNS_NAME, "")) is not None
