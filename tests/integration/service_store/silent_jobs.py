# SPDX-License-Identifier: Apache-2.0
"""Jobs whose last state or report is some time ago."""

from collections.abc import Sequence

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.jobs import JobReport
from ringtune.service.domain.machines import MachineKind
from ringtune.service.domain.summary_updates import rebuild
from ringtune.service.store import Database
from ringtune.service.store.clock import UnixNow
from ringtune.service.store.tables import job_facts, reports
from ringtune.tuner import Phase
from tests.unit.service.domain.reported import new_id, result, tell

MACHINE = MachineKind(hosts=2, cpu_model="AMD EPYC 7B13", cores=64, link_kind="tcp", link_bits_per_s=25 * 10**9)
RUNNING = JobReport(name="first try", tags=("nightly", "a100"), commit="9fceb02", machines=(MACHINE,))


def report_at(service: Service, database: Database, study_id: str, job_id: str, ages_s: Sequence[float]) -> None:
    """Report a baseline window at each age, the oldest first."""
    for age_s in ages_s:
        trial_id = new_id()
        tell(service, study_id, trial_id, result(job_id, phase=Phase.BASELINE))
        with database.writing() as connection:
            row = reports.update().where(reports.c.trial_id == trial_id)
            connection.execute(row.values(received_unix_s=UnixNow() - age_s))
    with database.writing() as connection:
        rebuild(connection, [study_id], ServiceLimits().max_speedup)


def announce(service: Service, database: Database, study_id: str, job_id: str, age_s: float) -> None:
    """Let a job say that it runs, some time ago."""
    service.jobs.put(study_id, job_id, RUNNING)
    with database.writing() as connection:
        times = dict.fromkeys(("begun_unix_s", "heard_unix_s"), UnixNow() - age_s)
        connection.execute(job_facts.update().where(job_facts.c.job_id == job_id).values(**times))
