# SPDX-License-Identifier: Apache-2.0
"""Ranks as tasks of Apache Spark: `run`, with the meaning of `horovod.spark.run`, and Databricks' `HorovodRunner`.

The ranks of a job are the tasks of one stage in barrier mode: Spark starts all of them together or none. They meet over
the stage's own channel. The function, its arguments and its results travel by Spark's serializer.
"""

from .elastic import run_elastic
from .job import run
from .runner import HorovodRunner

__all__ = ["HorovodRunner", "run", "run_elastic"]
