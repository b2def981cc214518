# SPDX-License-Identifier: Apache-2.0
"""What a job has of the service, seen from the wiring: a start, a log that reports, an end. None of it ever raises."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ringtune.tuner import Designer, RunSettings, SearchSpace, TuningLog, open_log


@dataclass(frozen=True)
class ServiceJob:
    """What the service is told of a job, and what is legal in it.

    Attributes:
        settings: Identity of the tuning run: `run_id`, `key`, and `layout` with its `ranks_per_host`.
        space: The legal configs.
        gradient_bytes: Of each gradient of a step, above zero; empty where that is not known.
    """

    settings: RunSettings
    space: SearchSpace
    gradient_bytes: Sequence[int] = ()


class Notices(Protocol):
    """Says to people what is good to know, and what to act on; see `ringtune.console.Console`."""

    def info(self, text: str) -> None:
        """Say what is good to know."""

    def warning(self, text: str) -> None:
        """Say what to act on."""


class ServiceLink(Protocol):
    """A job's link to the service; `close` belongs to the main thread, the rest to the tuning thread."""

    def with_start(self, designer: Designer, job: ServiceJob) -> Designer:
        """Return a designer that begins with what the service recommends, or the same one; takes 2 s at most."""

    def report_log(self) -> TuningLog:
        """Return a log sink that reports the job's first run to the service; `close` ends it."""

    def close(self) -> None:
        """Deliver what is left if that is possible at once; takes 2 s at most. Idempotent."""


class NoService:
    """The link of a job without a service: everything stays as it is."""

    def with_start(self, designer: Designer, job: ServiceJob) -> Designer:
        """Return the designer."""
        del job
        return designer

    def report_log(self) -> TuningLog:
        """Return a log that keeps nothing."""
        return open_log(None)

    def close(self) -> None:
        """Do nothing."""


def service_link(url: str | None, token: str | None, cache_folder: Path, notices: Notices) -> ServiceLink:
    """Return the link that a job's settings ask for; nothing is sent yet.

    Args:
        url: `AUTOTUNE_SERVICE_URL`, or None.
        token: `AUTOTUNE_SERVICE_TOKEN`, or None.
        cache_folder: The user's, for what could not be delivered.
        notices: Says what is in the way.

    Raises:
        ConfigError: If the URL or the token is malformed.
    """
    if url is None:
        return NoService()
    from .http_link import HttpLink  # noqa: PLC0415  (httpx is for jobs that have a service)

    return HttpLink(url, token, cache_folder, notices)
