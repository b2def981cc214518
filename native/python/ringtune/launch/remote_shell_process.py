# SPDX-License-Identifier: Apache-2.0
"""A running remote shell: its start, and its end with all that it started here, in words."""

import os
from collections.abc import Sequence

from ringtune.errors import ConfigError
from ringtune.system.child_process import PIPE, Child

END_S = 1.0  # for a shell whose connection has ended
_SAID_CHARACTERS = 2000


def start_shell(command: Sequence[str]) -> Child:
    """Start a remote shell, in a session of its own: the terminal's Ctrl-C is passed on, not died of.

    Args:
        command: The local command line.

    Raises:
        ConfigError: If it cannot be started.
    """
    try:
        return Child(command, stdin=PIPE)
    except OSError as error:
        raise ConfigError(
            f"the remote shell {command[0]!r} cannot be started ({error}); install it, or name another with --rsh"
        ) from error


def end_shell(shell: Child, command: Sequence[str], limit_s: float = END_S) -> str:
    """Give a shell a moment to end, and kill the rest of it here.

    Args:
        shell: The shell.
        command: The local command line.
        limit_s: The moment, in seconds.

    Returns:
        Its last words and its exit code.
    """
    shell.close_stdin()
    has_ended = shell.ends_within(limit_s)
    code = shell.end(0)
    last_words = " / ".join(shell.said[-_SAID_CHARACTERS:].split("\n")).strip(" /\r")
    exited = f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"
    ended = f"{os.path.basename(command[0])} {exited if has_ended else 'was ended'}"  # noqa: PTH119  (a program's name)
    return ended + (f", saying: {last_words}" if last_words else " and said nothing")
