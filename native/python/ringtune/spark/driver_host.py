# SPDX-License-Identifier: Apache-2.0
"""The driver's host as its executors know it."""

from pyspark.sql import SparkSession

from ringtune.errors import ConfigError

from .active_session import is_connect, setting


def driver_host(session: SparkSession, problem: str) -> str:
    """Return the driver's host.

    Args:
        session: The session.
        problem: The feature that is impossible without the host; the error's message begins with it.

    Raises:
        ConfigError: If executors know no way to this process: it is a client of Spark Connect.
    """
    host = None if is_connect(session) else setting(session, "spark.driver.host")
    if host is None:
        raise ConfigError(
            f"{problem} over Spark Connect, for its executors know no way to this client; use a classic session"
        )
    return host
