# SPDX-License-Identifier: Apache-2.0
"""Errors of a job as Spark reports them to the driver, turned into the error of the rank that caused them."""

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ringtune.errors import ConfigError, RingtuneError
from ringtune.run_function import RankFailedError

from .rank_errors import failure_in

SPARK_ERRORS = (Py4JJavaError, PySparkException)
"""Errors with which a job ends, in a classic session and in one of Spark Connect."""
_JAVA_FRAME = re.compile(r"\n\s+at [\w.$]+")
_REASON = re.compile(
    r".*[Mm]ost recent failure(?: reason)?: "
    r"(Stage failed because barrier task ResultTask\([0-9]+, (?P<rank>[0-9]+)\) finished unsuccessfully\.\s*)?",
    re.DOTALL,
)
_LONGEST_REASON = 2_000  # characters of Spark's own words in a message; the cause of the error has all


def failure_of(error: Exception) -> RingtuneError:
    """Return the error for the caller of a job that Spark says has failed.

    Args:
        error: Error that Spark raised on the driver.
    """
    text = str(error)
    if re.search(r"No module named 'ringtune['.]", text):
        return ConfigError(
            "ringtune is not installed for the executors' Python (spark.pyspark.python, PYSPARK_PYTHON); install it on "
            "every node, or ship an environment that has it with spark.archives"
        )
    if failure := failure_in(text):
        return failure
    text = _JAVA_FRAME.split(text, maxsplit=1)[0]
    found = _REASON.match(text)
    rank = int(found["rank"]) if found is not None and found["rank"] else None
    reason = text[0 if found is None else found.end() :].strip()
    return RankFailedError(
        f"{'a rank' if rank is None else f'rank {rank}'} ended without a result, and the log of its executor tells "
        f"more. Spark says: {reason[:_LONGEST_REASON]}",
        rank,
    )
