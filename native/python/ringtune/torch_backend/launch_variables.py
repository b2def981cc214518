# SPDX-License-Identifier: Apache-2.0
"""The question whether torch's `env://` needs ringtune's help; asked without the engine, by programs of any backend."""

from ringtune.meeting.bootstrap import environment
from ringtune.meeting.bootstrap.ownership import identify

_TOLD = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_needed(url: str) -> bool:
    """Return whether torch's own variables are missing, and ringtune can give this process its place.

    Args:
        url: Address that torch was given; it may name the rank.
    """
    environ = environment()
    return "rank=" not in url and not any(name in environ for name in _TOLD) and identify(environ) is not None
