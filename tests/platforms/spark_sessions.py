# SPDX-License-Identifier: Apache-2.0
"""Sessions of Spark for tests: on this machine alone, quiet, with the tests' Python for the executors."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tests.house.source_tree import REPOSITORY

LOOPBACK = "127.0.0.1"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.memory": "512m",
    "spark.dynamicAllocation.enabled": "false",  # a later session in the same Java process would inherit another value
}


@contextmanager
def session_of(master: str, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Return a context with the active session of a cluster, whose executors import the tests' modules.

    Args:
        master: Such as `local[4]`.
        settings: Spark's, besides those of every test.
    """
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(REPOSITORY), SPARK_LOCAL_IP=LOOPBACK)
    builder = SparkSession.builder.master(master).appName("ringtune")
    for name, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
