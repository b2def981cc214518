# SPDX-License-Identifier: Apache-2.0
"""Registers callbacks with this process's session, before or after `init()`."""

from ringtune.errors import ConfigError
from ringtune.session.session import SESSION
from ringtune.tuning.job.callbacks import Callback


def add(callback: Callback) -> None:
    """Have a callback told of the tuner from now on, in this job and in every later one of this process.

    On other ranks than 0, and where `AUTOTUNE` is off, it is never called.

    Raises:
        ConfigError: If it is no `Callback`.
    """
    if not isinstance(callback, Callback):
        raise ConfigError(
            f"ringtune.callbacks.add() got a {type(callback).__name__}; derive its class from "
            "ringtune.callbacks.Callback"
        )
    SESSION.callbacks.add(callback)


def remove(callback: Callback) -> None:
    """Remove a callback; one that was not added is ignored."""
    SESSION.callbacks.remove(callback)
