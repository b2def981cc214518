# SPDX-License-Identifier: Apache-2.0
"""Reads the numbers that launchers put into the environment."""

import re
from collections.abc import Mapping

from ringtune.errors import ConfigError

MAX_WORLD_SIZE = 1000


def read_integer(environ: Mapping[str, str], name: str, *, low: int, high: int, advice: str = "") -> int:
    """Return an integer variable.

    Args:
        environ: The environment.
        name: The variable.
        low: The smallest value that is allowed.
        high: The largest.
        advice: Advice for the message.

    Raises:
        ConfigError: If the variable is missing, malformed or out of range.
    """
    text = environ.get(name, "")
    if not re.fullmatch(r"[0-9]{1,6}", text) or not low <= int(text) <= high:
        shown = repr(text) if name in environ else "(not set)"
        raise ConfigError(f"{name}={shown} is not allowed; allowed: an integer from {low} to {high}{advice}")
    return int(text)
