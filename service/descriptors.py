# SPDX-License-Identifier: Apache-2.0
"""File descriptors: as many as the system lets this process have, and the share of them for connections."""

import resource

OTHER_FILES = 192
"""Descriptors for everything but connections: the database's, its journals, workers' pipes, logs."""


def raise_limit() -> int:
    """Raise the soft limit on open files to the hard one, if it is lower; return the one in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # the kernel may allow less than the limit says
            return soft
    return hard


def connections_for(wanted: int, files: int) -> int:
    """Return the number of connections to allow: the wanted ones, or as many as `files` descriptors leave.

    Args:
        wanted: The setting.
        files: The limit on open files; negative where there is none.
    """
    if files < 0:
        return wanted
    return min(wanted, max(files - OTHER_FILES, files // 2))
