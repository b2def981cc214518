# SPDX-License-Identifier: Apache-2.0
"""A service that is killed at a named point while clients report: its standard output is their record.

Arguments: URL STUDY POINT COUNT MODE FIRST LAST. Clients report the trials from FIRST to LAST; the process kills itself
when the writer passes POINT for the COUNT-th time. MODE `early` is the control: callers are answered before the commit,
and a single client reports, so that no late answer of an earlier transaction is taken for one of that which is killed.

A line is `S <trial id>` before a client reports, and `A <trial id> <status>` when it was answered. Each is one write to
a pipe, so that none is torn.
"""

import os
import signal
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.writer import GroupWriter
from ringtune.service.store import Database
from tests.integration.service_store.early_writer import EarlyWriter
from tests.unit.service.domain.reported import BETTER, result, tell

CLIENTS = 8
NAMESPACE = uuid.UUID(int=6)


class Killer:
    """Ends the process at a point. In the control it waits there for a client to have its answer."""

    def __init__(self, point: str, count: int, *, waits: bool) -> None:
        """Kill at the `count`-th passage of `point`."""
        self.point = point
        self.left = count
        self.waits = waits
        self.answered = threading.Event()

    def pass_point(self, point: str) -> None:
        """Count a passage."""
        if point != self.point:
            self.answered.clear()
            return
        self.left -= 1
        if self.left == 0:
            if self.waits:
                self.answered.wait(10.0)
            os.kill(os.getpid(), signal.SIGKILL)


def trial_id_of(number: int) -> str:
    """Return the id of a trial."""
    return str(uuid.uuid5(NAMESPACE, str(number)))


def main() -> None:
    """Report, and be killed."""
    url, study_id, point, count, mode, first, last = sys.argv[1:]
    is_control = mode == "early"
    killer = Killer(point, int(count), waits=is_control)
    service = Service(
        Database.open(url),
        policy=ServiceLimits(design_workers=0),
        writer_type=EarlyWriter if is_control else GroupWriter,
        on_point=killer.pass_point,
    )
    service.start()

    def report(number: int) -> None:
        trial_id = trial_id_of(number)
        os.write(1, f"S {trial_id}\n".encode())
        stored = tell(service, study_id, trial_id, result(f"job-{number % CLIENTS}", BETTER, 80.0 + number % 9))
        os.write(1, f"A {trial_id} {stored.status}\n".encode())
        killer.answered.set()

    with ThreadPoolExecutor(1 if is_control else CLIENTS) as pool:
        list(pool.map(report, range(int(first), int(last))))
    service.close()


if __name__ == "__main__":
    main()
