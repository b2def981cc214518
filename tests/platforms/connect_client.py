# SPDX-License-Identifier: Apache-2.0
"""Client of a Spark Connect server, a process without Java: runs jobs on ranks and prints their results as JSON.

Argument: the server's address, `sc://HOST:PORT`.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

import ringtune.spark
from ringtune.errors import RingtuneError
from tests.platforms import spark_functions as functions


def outcome(call: Callable[[], Any]) -> str:
    """Return the error of a call, as `CLASS: message`."""
    try:
        return repr(call())
    except (RingtuneError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Run jobs that succeed and jobs that fail."""
    session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    found = {
        "kind": type(session).__module__,
        "totals": [seen.total for seen in ringtune.spark.run(functions.see, num_proc=3)],
        "default": len(ringtune.spark.run(lambda: functions.see().rank)),
        "raised": outcome(lambda: ringtune.spark.run(functions.raise_on, (1, "far away"), num_proc=2)),
        "too_many": outcome(lambda: ringtune.spark.run(functions.see, num_proc=9)),
        "late": outcome(lambda: ringtune.spark.run(functions.see, num_proc=2, start_timeout=0.001)),
        "output": outcome(lambda: ringtune.spark.run(functions.see, num_proc=2, stdout=sys.stdout)),
        "runner": ringtune.spark.HorovodRunner(np=2).run(functions.lock_unless_first),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    session.stop()


main()
