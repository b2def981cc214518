# SPDX-License-Identifier: Apache-2.0
"""Foreign text in the form that a person may be shown: no control characters, no escape sequences, no forged lines.

Text is foreign if another process wrote it: files of options, logs, names of hosts, messages of a service or of
another worker. A terminal obeys escape sequences, and a shell takes a line of its own for a command.
"""

import unicodedata
from collections.abc import Iterable
from pathlib import PurePath

MOST_CHARACTERS = 100
"""Characters of a foreign value in a message: a name or a number, and not a file's whole content."""
_SCALARS = (str, bool, int, float, type(None))
_LARGEST_SHOWN = 10**MOST_CHARACTERS


def printable(text: str) -> str:
    """Return a text as one line: other spaces become a space, and a character that is not printable its escape."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def printable_lines(text: str) -> str:
    """Return a text of printable lines; those after the first are indented, so that none passes for a new message."""
    first, *others = text.split("\n")
    indented = [line if line[:1] in {"", " "} else f"  {line}" for line in map(printable, others)]
    return "\n".join([printable(first), *indented])


def shown(value: object, most: int = MOST_CHARACTERS) -> str:
    """Return a foreign value for a message: text and numbers shortened, containers by their kind alone.

    Args:
        value: A value of a parsed file or message; one that contains others may be far larger than its source.
        most: Characters at most, dots for the omitted ones included.
    """
    if not isinstance(value, _SCALARS):
        return "a mapping" if isinstance(value, dict) else f"a {type(value).__name__}"
    if isinstance(value, int) and abs(value) >= _LARGEST_SHOWN:
        return f"an integer of {value.bit_length()} bits"  # Python refuses to print thousands of digits
    text = printable(value[: most + 1] if isinstance(value, str) else str(value))
    return text if len(text) <= most else f"{text[: most - 3]}..."


def quoted(value: object) -> str:
    """Return a foreign value for a message, text in quotation marks."""
    return f"'{shown(value)}'" if isinstance(value, str) else shown(value)


def shown_command(words: Iterable[str]) -> str:
    """Return a process's command line for a message; of files the names alone, for folders before them may be long.

    Args:
        words: Program and arguments; empty ones are left out.
    """
    program, *arguments = [word for word in words if word] or [""]
    named = [f".../{PurePath(word).name}" if word.startswith("/") else word for word in arguments]
    return shown(" ".join([PurePath(program).name, *named]), MOST_CHARACTERS)


def _escaped(character: str) -> str:
    if character == "\t" or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")
