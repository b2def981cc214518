# SPDX-License-Identifier: Apache-2.0
"""The session of Spark that a job runs in, classic or Spark Connect, and its settings."""

from pyspark import SparkContext
from pyspark.sql import SparkSession

from ringtune.errors import ConfigError


def active_session() -> SparkSession:
    """Return the active session; one is made for a `SparkContext` that has none.

    Raises:
        ConfigError: If there is neither.
    """
    session = SparkSession.getActiveSession()
    if session is not None:
        return session
    if SparkContext._active_spark_context is not None:  # noqa: SLF001  (Spark has no public way to it)
        return SparkSession.builder.getOrCreate()
    raise ConfigError(
        "no Spark session is active; make one before the job: SparkSession.builder.getOrCreate(), or "
        "SparkSession.builder.remote('sc://HOST').getOrCreate() for Spark Connect"
    )


def is_connect(session: SparkSession) -> bool:
    """Return whether the session is one of Spark Connect, which has no `SparkContext`."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def setting(session: SparkSession, name: str) -> str | None:
    """Return a setting of the cluster or the session; None where it is not set, or the server hides it."""
    try:
        value = session.conf.get(name, None)
    except Exception:  # noqa: BLE001  (shared clusters refuse to tell some settings, each by an error of its own)
        return None
    return None if value is None else str(value)
