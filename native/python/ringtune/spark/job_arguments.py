# SPDX-License-Identifier: Apache-2.0
"""Arguments of Horovod's jobs on Spark that need a check: time limits, and those that cannot act here."""

from typing import Any

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap import environment

DEFAULT_START_TIMEOUT_S = 600.0  # time in which all ranks must have started: Horovod's default
START_TIMEOUT_NAME = "HOROVOD_SPARK_START_TIMEOUT"
_BY_SPARK = "the ranks are started by Spark, not by mpirun"
REFUSED = {
    "use_mpi": _BY_SPARK,
    "extra_mpi_args": _BY_SPARK,
    "nics": "the ranks take the network that leads to the others",
    "executable": "the ranks run in Spark's Python: set spark.pyspark.python",
}


def check_refused(function: str, **given: Any) -> None:
    """Refuse arguments that cannot act.

    Args:
        function: Name of the function that has them.
        **given: Their values; an empty one stands for "not given".

    Raises:
        ConfigError: If one asks for something.
    """
    for name, value in given.items():
        if value:
            raise ConfigError(f"ringtune.spark.{function}({name}={value!r}) is not possible: {REFUSED[name]}")


def time_limit_s(name: str, value: float | None, variable: str, default: float) -> float:
    """Return a time limit.

    Args:
        name: Name of the argument.
        value: Its value; None for the variable's.
        variable: Variable of the environment.
        default: Value without both.

    Raises:
        ConfigError: If it is no number over 0.
    """
    text = environment().get(variable, default) if value is None else value
    origin = variable if value is None else name
    try:
        limit_s = float(text)
    except ValueError:
        limit_s = 0.0
    if not limit_s > 0:
        raise ConfigError(f"{origin}={text!r} is not possible; allowed: a number of seconds over 0")
    return limit_s
