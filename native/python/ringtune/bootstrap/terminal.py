# SPDX-License-Identifier: Apache-2.0
"""Whether a person sees what this process writes: on its own terminal, or on its launcher's."""

import re
from collections.abc import Mapping

COLUMNS_NAME = "RINGTUNE_TERMINAL_COLUMNS"
DEFAULT_COLUMNS = 80  # of a terminal that does not say
_NUMBER = re.compile("[1-9][0-9]{0,5}")
_DUMB = ("", "dumb", "unknown")


def can_move_cursor(environ: Mapping[str, str]) -> bool:
    """Return whether a terminal understands more than lines."""
    return environ.get("TERM", "") not in _DUMB


def columns_behind_pipe(environ: Mapping[str, str]) -> int | None:
    """Return the width of the terminal that the launcher shows this process's output on; None where there is none."""
    return int(environ[COLUMNS_NAME]) if _NUMBER.fullmatch(environ.get(COLUMNS_NAME, "")) else None
