# SPDX-License-Identifier: Apache-2.0
"""Background thread that delivers this job's results, then those that earlier jobs left behind.

It may be slow, late or stuck: only `close` waits for it, and for a bounded time. Results that were not delivered by
then stay in the spool.
"""

import threading
from collections.abc import Callable

from ringtune.client.errors import ServiceUnavailableError
from ringtune.errors import StoreError

from .breaker import Breaker
from .delivery import Delivery
from .spool import Pending, Spool

LINGER_S = 2.0
"""Time for which results are collected before they are sent together, seconds."""
CLOSE_LIMIT_S = 2.0
"""Longest wait for the last delivery at the end of the job, seconds."""

Say = Callable[[str], None]


class ReportSender:
    """Delivers a job's queue, and the spool's; `wake` and `close` may be called from any thread."""

    def __init__(self, delivery: Delivery, spool: Spool, breaker: Breaker, say: Say) -> None:
        """Prepare; the first delivery waits for `start`.

        Args:
            delivery: Reaches the service.
            spool: Results that earlier jobs could not deliver.
            breaker: Decides when to try again.
            say: Shows a warning to people.
        """
        self._delivery = delivery
        self._spool = spool
        self._breaker = breaker
        self._say = say
        self._said: set[str] = set()
        self._is_rest_delivered = False
        self._has_news = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, own: Pending) -> None:
        """Begin to deliver: a job's queue, which is closed in the end, and the payloads of the spool."""
        self._has_news.set()
        self._thread = threading.Thread(target=self._run, args=(own,), name="ringtune-report-sender", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread: there is something new in the queue."""
        self._has_news.set()

    def close(self, limit_s: float) -> bool:
        """Deliver the rest if that is possible at once, and end.

        Returns:
            Whether it has ended; false if a stuck delivery is left behind.
        """
        self._closing.set()
        self._has_news.set()
        if self._thread is None:
            return True
        self._thread.join(limit_s)
        return not self._thread.is_alive()

    def _run(self, own: Pending) -> None:
        try:
            while not self._closing.is_set():
                self._wait()
                self._attempt(own)
            self._attempt(own)  # results that came during the last attempt
        except Exception as error:  # noqa: BLE001  (reporting never fails training)
            self._say(f"results are not reported any more: {error!r}; they stay in {self._spool.folder}")
        finally:
            own.close()

    def _wait(self) -> None:
        """Wait for something to send, for others that could go with it, and until the service may be called."""
        self._has_news.wait()
        self._closing.wait(max(LINGER_S, self._breaker.wait_s))
        self._has_news.clear()

    def _attempt(self, own: Pending) -> None:
        """Deliver, unless the service failed too often; a failure is shown once and tried again later."""
        if self._breaker.is_open:
            return
        try:
            self._deliver(own)
        except StoreError as error:
            self._breaker.failed(error.retry_after_s if isinstance(error, ServiceUnavailableError) else None)
            self._has_news.set()
            self._say_once("service", f"{error}; results are kept in {self._spool.folder} until they can be delivered")
        except OSError as error:
            self._breaker.failed()
            self._say_once("spool", f"the spool {self._spool.folder} fails ({error.strerror or error})")
        else:
            self._breaker.succeeded()
        tally = self._delivery.tally
        if tally.held_back:
            self._say_once(
                "version",
                f"results are kept in {self._spool.folder} for a service of another version: this one does not take "
                f"them ({tally.reason})",
            )

    def _deliver(self, own: Pending) -> None:
        self._delivery.deliver(own)
        if self._is_rest_delivered:
            return
        for file in self._spool.left_behind():
            if self._closing.is_set():
                return
            self._delivery.deliver(file)
        self._is_rest_delivered = True

    def _say_once(self, subject: str, text: str) -> None:
        if subject not in self._said:
            self._said.add(subject)
            self._say(text)
