# SPDX-License-Identifier: Apache-2.0
"""The link of a job that has a service, over HTTP. Whatever the service does, the job trains on."""

from contextlib import closing
from pathlib import Path

from ringtune.client import ExchangeLimits, Recommendation, ServiceClient, page_url
from ringtune.errors import StoreError
from ringtune.shared_service.advice.answers import is_default
from ringtune.shared_service.advice.wording import evidence_text
from ringtune.system.counts import counted
from ringtune.tuner import Designer, SpaceError, TuningLog
from ringtune.tuner.logs.records import RunRecord

from .breaker import Breaker
from .delivery import Delivery, Json, payload_of
from .first_config import START_LIMIT_S, FirstConfigDesigner, answer_within, legal_config
from .link import Notices, ServiceJob
from .report_log import ReportLog
from .report_sender import CLOSE_LIMIT_S, ReportSender
from .results import job_uuid, study_of
from .spool import MemoryQueue, Pending, Spool

REPORT_LIMIT_S = 5.0
"""Deadline of one call of the background thread, seconds; no other thread waits for it."""


class HttpLink:
    """See `link.ServiceLink`."""

    def __init__(self, url: str, token: str | None, cache_folder: Path, notices: Notices) -> None:
        """Prepare; the first request waits for `with_start` or a report.

        Raises:
            ConfigError: If the URL or the token is malformed.
        """
        self._notices = notices
        self._question_client = ServiceClient(url, token, ExchangeLimits(START_LIMIT_S))
        self._report_client = ServiceClient(url, token, ExchangeLimits(REPORT_LIMIT_S))
        self._delivery = Delivery(self._report_client)
        self._spool = Spool(cache_folder, self._report_client.url)
        self._breaker = Breaker()
        self._gradient_bytes: tuple[int, ...] = ()
        self._log: ReportLog | None = None
        self._study: Json | None = None
        self._is_page_told = False
        self._sender = ReportSender(self._delivery, self._spool, self._breaker, notices.warning)

    def with_start(self, designer: Designer, job: ServiceJob) -> Designer:
        """Return a designer that begins with the service's recommendation; see `link.ServiceLink`."""
        self._gradient_bytes = tuple(job.gradient_bytes)
        try:
            offer = answer_within(START_LIMIT_S, lambda: self._recommendation(job))
            start = offer.try_first if is_default(offer) else offer.config
            if start is None:
                url = self._question_client.url
                self._notices.info(f"the service at {url} knows no config for this job: {offer.reason}")
                return designer
            config = legal_config(start, job.space)
        except StoreError as error:
            self._breaker.failed()
            self._notices.warning(f"{error}; the search begins without it")
        except SpaceError as error:
            self._notices.warning(
                f"the service at {self._question_client.url} offers a config that is not legal here: {error}"
            )
        except Exception as error:  # noqa: BLE001  (the service never fails tuning)
            self._notices.warning(f"the service at {self._question_client.url} failed unexpectedly: {error!r}")
        else:
            untested = f"a config to try first, not an adopted one; {offer.reason}"
            evidence = untested if is_default(offer) else evidence_text(offer)
            self._notices.info(f"the search begins with what the service recommends ({evidence})")
            return FirstConfigDesigner(designer, config)
        return designer

    def report_log(self) -> TuningLog:
        """Return a log sink that reports to the service; see `link.ServiceLink`."""
        self._log = ReportLog(self._begin_report, wake=self._sender.wake, say=self._notices.warning)
        return self._log

    def study_page(self) -> str | None:
        """Return the URL of the page of the job's study, once; see `link.ServiceLink`."""
        if self._study is None or self._is_page_told:
            return None
        url = page_url(self._report_client.url, self._delivery.page_of(self._study))
        self._is_page_told = url is not None
        return url

    def close(self) -> None:
        """Deliver the rest if that is possible at once; see `link.ServiceLink`."""
        if self._log is not None:
            self._log.end()
        if self._sender.close(CLOSE_LIMIT_S):
            self._report_client.close()
        tally = self._delivery.tally
        if not tally.kept + tally.refused:
            return
        page = self.study_page()
        seen = f"; this job's study: {page}" if page else ""
        text = f"reported {counted(tally.kept, 'result')} to {self._report_client.url}"
        if tally.quarantined or tally.refused:
            doubts = f"{tally.quarantined} are not used there and {tally.refused} were refused ({tally.reason})"
            self._notices.warning(f"{text}; {doubts}{seen}")
        else:
            self._notices.info(f"{text}{seen}")

    def _recommendation(self, job: ServiceJob) -> Recommendation:
        key, ranks_per_host = job.settings.key, job.settings.layout["ranks_per_host"]
        with closing(self._question_client) as client:
            return client.recommendation(
                hardware=key["hardware"],
                model_fingerprint=key["model"],
                world_size=sum(ranks_per_host),
                local_size=max(ranks_per_host),
                target=key["target"],
                surface_version=key["surface_version"],
                gradient_bytes=job.gradient_bytes,
            )

    def _begin_report(self, run: RunRecord) -> Pending:
        """Open the job's queue, announce its study, and begin to deliver."""
        self._study = study_of(run, self._gradient_bytes)
        study = payload_of(self._study, None)
        try:
            queue: Pending = self._spool.open(job_uuid(run.run_id))
        except OSError as error:
            queue = self._queue_in_memory(error)
        try:
            queue.append(study)
        except OSError as error:
            queue.close()
            queue = self._queue_in_memory(error)
            queue.append(study)
        self._sender.start(queue)
        return queue

    def _queue_in_memory(self, error: OSError) -> Pending:
        self._notices.warning(
            f"{self._spool.folder} cannot keep results until they are delivered ({error.strerror or error}); "
            "results that are not delivered when the job ends are lost"
        )
        return MemoryQueue()
