# SPDX-License-Identifier: Apache-2.0
"""Answers to mistakes on the command line: the nearest option, and the command for the right help.

Typer's errors of usage share no public class; their common attributes are read by name.
"""

import difflib
from collections.abc import Sequence
from typing import Any

LIKENESS = 0.6  # difflib's own default: half of the letters in order, and some more


def is_usage_error(error: Exception) -> bool:
    """Tell whether an error is typer's answer to a wrong command line."""
    return hasattr(error, "format_message")


def usage_advice(error: Any, root: Any, arguments: Sequence[str]) -> str:
    """Return one paragraph: the mistake, the nearest option or command, and the help that lists them all.

    Args:
        error: One for which `is_usage_error` holds.
        root: Typer's command of the whole application.
        arguments: The command line, without the program.
    """
    command, path = _meant(root, arguments)
    unknown = getattr(error, "option_name", None)
    if unknown is None or not hasattr(error, "possibilities"):
        return f"{error.format_message()} See {path} --help."
    known = [name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]
    nearest = difflib.get_close_matches(unknown, known, n=1, cutoff=LIKENESS)
    advice = f"; did you mean {nearest[0]}?" if nearest else "."
    return f"there is no option {unknown}{advice} See {path} --help."


def _meant(root: Any, arguments: Sequence[str]) -> tuple[Any, str]:
    """Return the command that the first words name, as far as there is one, and how it is called."""
    command, path = root, str(root.name)
    for word in arguments:
        children = getattr(command, "commands", {})
        if word not in children:
            break
        command, path = children[word], f"{path} {word}"
    return command, path
