# SPDX-License-Identifier: Apache-2.0
"""Task slots of a Spark application: how many there are, and whether a stage in barrier mode can start on them.

Spark itself looks once in 15 s, forty times, before it says that there are too few. Here the number asked for and the
number there are compared before the job.
"""

import math
import re
import time
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from ringtune.errors import ConfigError

from .active_session import is_connect, setting

_LOCAL = re.compile(r"local(?:\[(?P<slots>[0-9]+|\*)(?:,[^\]]*)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(?P<executors>[0-9]+)\s*,\s*(?P<cores>[0-9]+)\s*,.*\]")
_POLL_S = 0.5
_QUIET_S = 30.0  # time without a new executor after which no more are expected: Spark's own limit for its start
_MANY_ROWS = 100_000  # more rows than any cluster has slots: Spark splits a range into as many parts as it is parallel


@dataclass(frozen=True)
class Slots:
    """Task slots.

    Attributes:
        there: Slots of the executors that have registered; None where the session does not report them.
        most: Slots that the session's settings allow at most; None where they set no limit.
    """

    there: int | None
    most: int | None


def check_mode(session: SparkSession) -> None:
    """Refuse a session in which Spark does not start stages in barrier mode.

    Raises:
        ConfigError: If the application's executors come and go by themselves.
    """
    is_dynamic = (setting(session, "spark.dynamicAllocation.enabled") or "").lower() == "true"
    if is_dynamic and _LOCAL.fullmatch(setting(session, "spark.master") or "") is None:
        raise ConfigError(
            "spark.dynamicAllocation.enabled is true, and Spark starts no ranks that begin together (barrier mode) on "
            "executors that come and go; start the session with spark.dynamicAllocation.enabled=false and "
            "spark.executor.instances=N"
        )


def check_repeats_tasks(session: SparkSession) -> None:
    """Refuse a session in which Spark does not start a lost task anew, or starts tasks twice to be faster.

    Raises:
        ConfigError: If a setting has to be another one.
    """
    master = _LOCAL.fullmatch(setting(session, "spark.master") or "")
    if master is not None and "," not in master[0]:
        raise ConfigError(
            f"Spark does not start lost tasks anew with spark.master={master[0]}; use local[N,F], which repeats a task "
            "up to F - 1 times, or a cluster"
        )
    if (setting(session, "spark.speculation") or "").lower() == "true":
        raise ConfigError("spark.speculation is true, which starts ranks twice; turn it off for this session")


def default_ranks(session: SparkSession) -> int:
    """Return the application's parallelism, which is the number of ranks if none is given."""
    if not is_connect(session):
        return int(session.sparkContext.defaultParallelism)
    return int(session.range(_MANY_ROWS).select(spark_partition_id()).distinct().count())


def wait_for_slots(session: SparkSession, ranks: int, limit_s: float) -> None:
    """Return when there are slots for all ranks, or their number is not known; executors may still be on their way.

    Args:
        session: The session.
        ranks: Number of ranks.
        limit_s: Longest wait for executors.

    Raises:
        ConfigError: If there are fewer, and no more are to be expected.
    """
    end_s = time.monotonic() + limit_s
    slots, grown_s = find_slots(session), time.monotonic()
    while _may_grow(slots, ranks, time.monotonic() - grown_s) and time.monotonic() < end_s:
        time.sleep(_POLL_S)
        before, slots = slots, find_slots(session)
        grown_s = grown_s if slots == before else time.monotonic()
    known = slots.most if slots.there is None else slots.there
    if known is not None and known < ranks:
        raise ConfigError(_too_few(session, ranks, known, slots))


def _may_grow(slots: Slots, ranks: int, quiet_s: float) -> bool:
    """Return whether there are too few slots, and executors with more of them may still register.

    Args:
        slots: The slots.
        ranks: Number of ranks.
        quiet_s: Time in which none has registered.
    """
    if slots.there is None or slots.there >= ranks:
        return False
    if slots.most is not None:
        return slots.most >= ranks
    return slots.there == 0 or quiet_s < _QUIET_S


def _too_few(session: SparkSession, ranks: int, known: int, slots: Slots) -> str:
    limit = "" if slots.most is None or slots.most == known else f", and at most {slots.most} by its settings"
    settings = ", ".join(
        f"{name}={value}"
        for name in ("spark.master", "spark.executor.instances", "spark.executor.cores", "spark.task.cpus")
        if (value := setting(session, name)) is not None
    )
    return (
        f"{ranks} ranks need {ranks} task slots at the same time, and the Spark application has {known}{limit} "
        f"({settings}); ask for fewer ranks (num_proc, np), or start the session with more executors or cores"
    )


def find_slots(session: SparkSession) -> Slots:
    """Return the application's task slots."""
    if is_connect(session):
        return Slots(None, _slots_by_settings(session))
    context: Any = session.sparkContext._jsc.sc()  # noqa: SLF001  (Spark's Python has no way to it)
    profile = context.resourceProfileManager().defaultResourceProfile()
    there = int(context.maxNumConcurrentTasks(profile))
    is_local = _LOCAL.fullmatch(setting(session, "spark.master") or "") is not None
    return Slots(there, there if is_local else _slots_by_settings(session))


def _slots_by_settings(session: SparkSession) -> int | None:
    """Return the slots that the settings allow at most; None where they set no limit."""
    cpus = float(setting(session, "spark.task.cpus") or 1)
    master = setting(session, "spark.master") or ""
    if match := _LOCAL.fullmatch(master):
        cores = match["slots"] or "1"
        return None if cores == "*" else _slots(int(cores), cpus)
    if match := _LOCAL_CLUSTER.fullmatch(master):
        return int(match["executors"]) * _slots(int(match["cores"]), cpus)
    instances, cores = (setting(session, f"spark.executor.{name}") for name in ("instances", "cores"))
    if instances is None or cores is None:
        return None
    return int(instances) * _slots(int(cores), cpus)


def _slots(cores: int, cpus: float) -> int:
    """Return the tasks that cores can take; the small addend is for shares such as 0.1, which have no exact number."""
    return math.floor(cores / cpus + 1e-9)
