# SPDX-License-Identifier: Apache-2.0
"""The job's interface to the shared service: a first config, a log sink that reports, `close()`. It never raises."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ringtune.tuner import Designer, RunSettings, SearchSpace, TuningLog, open_log


@dataclass(frozen=True)
class ServiceJob:
    """Identity of a job for the service, and its legal configs.

    Attributes:
        settings: Identity of the tuning run: `run_id`, `key`, and `layout` with its `ranks_per_host`.
        space: The legal configs.
        gradient_bytes: Size of each gradient of a step, above zero; empty where it is not known.
    """

    settings: RunSettings
    space: SearchSpace
    gradient_bytes: Sequence[int] = ()


class Notices(Protocol):
    """Messages to people; see `ringtune.system.console.Console`."""

    def info(self, text: str) -> None:
        """Show information."""

    def warning(self, text: str) -> None:
        """Show a warning."""


class ServiceLink(Protocol):
    """A job's link to the service; `close` belongs to the main thread, the rest to the tuning thread."""

    def with_start(self, designer: Designer, job: ServiceJob) -> Designer:
        """Return a designer that begins with the service's recommendation, or the same one; takes 2 s at most."""

    def report_log(self) -> TuningLog:
        """Return a log sink that reports the job's first run to the service; `close` ends it."""

    def study_page(self) -> str | None:
        """Return the URL of the page of the job's study, once: None later, and until the service knows the study."""

    def close(self) -> None:
        """Deliver the rest if that is possible at once; takes 2 s at most. Idempotent."""


class NoService:
    """The link of a job without a service: everything stays as it is."""

    def with_start(self, designer: Designer, job: ServiceJob) -> Designer:
        """Return the designer."""
        del job
        return designer

    def report_log(self) -> TuningLog:
        """Return a log that drops its records."""
        return open_log(None)

    def study_page(self) -> str | None:
        """Return None: there is no page."""
        return None

    def close(self) -> None:
        """Ignore it: no service is used."""


def service_link(url: str | None, token: str | None, cache_folder: Path, notices: Notices) -> ServiceLink:
    """Return the link that a job's settings ask for; it has sent no request yet.

    Args:
        url: `AUTOTUNE_SERVICE_URL`, or None.
        token: `AUTOTUNE_SERVICE_TOKEN`, or None.
        cache_folder: Folder of the user, for results that could not be delivered.
        notices: Shows faults and answers.

    Raises:
        ConfigError: If the URL or the token is malformed.
    """
    if url is None:
        return NoService()
    from .http_link import HttpLink  # noqa: PLC0415  (httpx is for jobs that have a service)

    return HttpLink(url, token, cache_folder, notices)
