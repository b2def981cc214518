# SPDX-License-Identifier: Apache-2.0
"""What a mistake on the command line is answered with: the nearest option, and where the right help is.

Typer's errors of usage share no public class; what they have in common is asked for by name.
"""

import difflib
from typing import Any

LIKENESS = 0.6  # difflib's own default: half of the letters in order, and some more


def is_usage_error(error: Exception) -> bool:
    """Tell whether an error is typer's answer to a wrong command line."""
    return hasattr(error, "format_message")


def usage_advice(error: Any) -> str:
    """Return one paragraph: what was wrong, the nearest option or command, and the help that lists them all.

    Args:
        error: One for which `is_usage_error` holds.
    """
    context = getattr(error, "ctx", None)
    path = "ringtune" if context is None else context.command_path
    unknown = getattr(error, "option_name", None)
    if unknown is None or not hasattr(error, "possibilities"):
        return f"{error.format_message()} See {path} --help."
    known = [] if context is None else [name for p in context.command.params for name in (*p.opts, *p.secondary_opts)]
    nearest = difflib.get_close_matches(unknown, known, n=1, cutoff=LIKENESS)
    advice = f"; did you mean {nearest[0]}?" if nearest else "."
    return f"there is no option {unknown}{advice} See {path} --help."
