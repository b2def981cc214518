# SPDX-License-Identifier: Apache-2.0
"""Databricks' `HorovodRunner`: rank 0's result of a function that runs on task slots, or on this machine to try it."""

import sys
from collections.abc import Callable
from typing import Any

import ringtune
from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap import environment

from .call import Call
from .forwarding import rank_variables
from .job import run_call

_VERBOSITIES = ("log_callback_only", "all")


class HorovodRunner:
    """Runs a function on ranks, with the arguments and meanings of `sparkdl.HorovodRunner`."""

    def __init__(self, np: int, driver_log_verbosity: str = "log_callback_only") -> None:
        """Choose the ranks.

        Args:
            np: Over 0: that many task slots of the active Spark session. 0: all of its slots. Below 0: -np processes
                on this machine, without Spark, by `ringtune.run`.
            driver_log_verbosity: `all` shows the ranks' output here, too; it is in their executors' logs in any case.

        Raises:
            ConfigError: If the verbosity is not known.
        """
        if driver_log_verbosity not in _VERBOSITIES:
            raise ConfigError(
                f"HorovodRunner(driver_log_verbosity={driver_log_verbosity!r}) is not possible; allowed: "
                f"{', '.join(_VERBOSITIES)}"
            )
        self._np = np
        self._shows_output = driver_log_verbosity == "all"

    def run(self, main: Callable[..., Any], **kwargs: Any) -> Any:
        """Call a function on every rank and return rank 0's result.

        Args:
            main: The function; it calls `init()` of its front end.
            **kwargs: Its arguments.

        Raises:
            ConfigError: If the session or the function does not allow the job; no rank was started.
            ringtune.run_function.RankFailedError: If a rank raised, with its traceback, or ended.
        """
        if self._np < 0:
            return ringtune.run(main, kwargs=kwargs, np=-self._np)[0]
        call = Call(main, (), kwargs, rank_variables(environment(), {}), returns_all=False)
        streams = {"stdout": sys.stdout, "stderr": sys.stderr} if self._shows_output else {}
        return run_call(call, self._np or None, streams=streams)[0]
