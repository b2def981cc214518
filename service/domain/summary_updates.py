# SPDX-License-Identifier: Apache-2.0
"""The summaries: a record per job, sums per job and config, and the verdict per config.

They are kept in step with the ledger, or rebuilt from it.

The sums are whole numbers, so that it does not matter in how many transactions results came; their order is the
ledger's. A job has one baseline, the first that it reported; speed-ups over different baselines are never one estimate.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from ringtune.service.store import job_records, reports, studies, summaries
from ringtune.service.store.job_records import JobRecord
from ringtune.service.store.keys import Key
from ringtune.service.store.rows import NewReport
from ringtune.service.store.summary_rows import JobSummary
from ringtune.tuner import Phase

from .bracketing import Gains, OpenWindows
from .canonical import digest
from .evidence import MAX_JOBS, Tally, mean_log_step, tally
from .standings import SPEAKING, config_rows, ranks


class Changes:
    """Changes of one transaction to the summaries of any studies."""

    def __init__(self, sums: dict[Key, JobSummary], counts: dict[Key, int], records: dict[Key, JobRecord]) -> None:
        """Begin with the present rows, all that this transaction may change.

        Args:
            sums: Rows of `job_summaries` by study, job and config.
            counts: Number of configs for which each job has rows, by study and job.
            records: Rows of `job_records` by study and job.
        """
        self._sums = sums
        self._counts = counts
        self._records = records
        self._noted: set[Key] = set()
        self._changed: set[Key] = set()
        self._rebased: set[Key] = set()
        self._configs: dict[Key, str] = {}
        self._open: dict[Key, OpenWindows] = {}

    @classmethod
    def load(cls, connection: Connection, rows: Sequence[NewReport]) -> "Changes":
        """Read the sums to which ledger rows may add."""
        jobs: set[Key] = {(row.study_id, row.job_id) for row in rows}
        keys: set[Key] = {(row.study_id, row.job_id, row.config_digest) for row in rows}
        keys |= {(*job, summaries.BASELINE) for job in jobs}
        sums = _by_key(summaries.of_jobs(connection, keys))
        waiting = {
            (*key[:2], digest)
            for key, row in sums.items()
            if key[2] == summaries.BASELINE
            for digest in OpenWindows.from_row(row).waiting
        }
        sums.update(_by_key(summaries.of_jobs(connection, waiting - set(sums)) if waiting else ()))
        records: dict[Key, JobRecord] = {
            (row.study_id, row.job_id): row for row in job_records.of_jobs(connection, jobs)
        }
        return cls(sums, summaries.config_counts(connection, jobs), records)

    def baseline(self, row: NewReport) -> JobSummary | None:
        """Return the sums of the own baseline of the job that a ledger row is of."""
        return self._sums.get((row.study_id, row.job_id, summaries.BASELINE))

    def is_other_baseline(self, row: NewReport) -> bool:
        """Tell whether the job of a ledger row has another baseline than the row's config."""
        baseline = self.baseline(row)
        return baseline is not None and baseline.baseline != row.config

    def is_other_token(self, row: NewReport) -> bool:
        """Tell whether the facts of a ledger row's job came with another token than the row."""
        baseline = self.baseline(row)
        return baseline is not None and baseline.token_id != row.token_id

    def other_configs(self, row: NewReport) -> int:
        """Return how many configs the job of a ledger row has measured besides the row's."""
        job = (row.study_id, row.job_id)
        return self._counts.get(job, 0) - ((*job, row.config_digest) in self._sums)

    def add(self, row: NewReport) -> None:
        """Add a ledger row: to its job's record and, if it counts, to the job's baseline or its sums for the config."""
        record = self._note(row)
        is_baseline = row.phase == Phase.BASELINE.value
        if not _counts(row) or (is_baseline and self.is_other_baseline(row)):
            return
        job = (row.study_id, row.job_id)
        key = (*job, summaries.BASELINE if is_baseline else row.config_digest)
        if key not in self._sums:
            self._begin(key, row, is_baseline=is_baseline)
        added = tally(row, is_baseline=is_baseline)
        _grow(self._sums[key], added, row.received_unix_s)
        self._changed.add(key)
        record.trials += added.trials
        record.used_unix_s = max(record.used_unix_s or row.received_unix_s, row.received_unix_s)
        if is_baseline:
            record.baseline_digest, record.baseline_log_step = digest(row.config), mean_log_step(self._sums[key])
        else:
            self._configs[row.study_id, row.config_digest] = row.config
        if added.samples:
            self._place(job, row.config_digest, added.log_step_e9, is_baseline=is_baseline)

    def save(self, connection: Connection, max_speedup: float) -> None:
        """Write the sums, and the verdicts on all configs that they concern."""
        job_records.put(connection, [self._records[job] for job in sorted(self._noted)])
        if not self._changed:
            return
        for job, windows in self._open.items():
            self._sums[(*job, summaries.BASELINE)].open_windows = windows.text()
        summaries.put_jobs(connection, [self._sums[key] for key in sorted(self._changed)])
        concerned: set[Key] = {
            (study_id, digest) for study_id, _, digest in self._changed if digest != summaries.BASELINE
        }
        concerned |= summaries.configs_of_jobs(connection, self._rebased) if self._rebased else set()
        judge(connection, concerned, max_speedup, known=self._configs)

    def _note(self, row: NewReport) -> JobRecord:
        """Note in its job's record that a result came; returns that record."""
        job, came_s = (row.study_id, row.job_id), row.received_unix_s
        if job not in self._records:
            self._records[job] = JobRecord(
                study_id=row.study_id, job_id=row.job_id, first_unix_s=came_s, newest_unix_s=came_s
            )
        record = self._records[job]
        record.results += 1
        record.longest_gap_s = max(record.longest_gap_s, came_s - record.newest_unix_s, record.first_unix_s - came_s)
        record.first_unix_s, record.newest_unix_s = min(record.first_unix_s, came_s), max(record.newest_unix_s, came_s)
        if row.speedup is not None and row.status in reports.COUNTED:
            record.test_ci_low = row.ci_low
        self._noted.add(job)
        return record

    def _begin(self, key: Key, row: NewReport, *, is_baseline: bool) -> None:
        """Begin the sums of a job for a config; a first baseline concerns all configs that the job has measured."""
        study_id, job_id, config_digest = key
        self._sums[key] = JobSummary(
            study_id=study_id,
            job_id=job_id,
            config_digest=config_digest,
            baseline=row.config if is_baseline else None,
            token_id=row.token_id,
            first_unix_s=row.received_unix_s,
        )
        job = key[:2]
        if is_baseline:
            self._rebased.add(job)
        else:
            self._counts[job] = self._counts.get(job, 0) + 1

    def _place(self, job: Key, config_digest: str, log_step_e9: int, *, is_baseline: bool) -> None:
        """Put a window between its neighbours, as far as they are known."""
        baseline = self._sums.get((*job, summaries.BASELINE))
        if baseline is None:
            return
        if job not in self._open:
            self._open[job] = OpenWindows.from_row(baseline)
            self._changed.add((*job, summaries.BASELINE))
        if not is_baseline:
            self._open[job].wait(config_digest, log_step_e9)
            return
        for config, gains in self._open[job].close(log_step_e9).items():
            _compare(self._sums[(*job, config)], gains)
            self._changed.add((*job, config))


def judge(connection: Connection, keys: Collection[Key], max_speedup: float, known: dict[Key, str]) -> None:
    """Derive the verdicts on configs anew from the sums of their jobs.

    Args:
        connection: Connection to the database.
        keys: Studies and configs.
        max_speedup: Paired tests that claim more are left out.
        known: Configs (JSON) by study and digest, as far as they are at hand.
    """
    if not keys:
        return
    unknown = set(keys) - set(known)
    configs = {**known, **(summaries.configs_of(connection, unknown) if unknown else {})}
    found = list(config_rows(summaries.compared(connection, keys, MAX_JOBS), configs, max_speedup))
    summaries.put_configs(connection, [rows.config for rows in found])
    summaries.put_reporters(connection, keys, [row for rows in found for row in rows.reporters])
    studies_of = {study_id for study_id, _ in keys}
    summaries.set_ranks(connection, ranks(summaries.speaking(connection, studies_of, SPEAKING)))


def _grow(sums: JobSummary, added: Tally, received_unix_s: float) -> None:
    """Add a result to the sums of its job for its config."""
    sums.trials += added.trials
    sums.samples += added.samples
    sums.log_step_e9 += added.log_step_e9
    sums.adoptions += added.adoptions
    sums.log_speedup_e9 += added.log_speedup_e9
    sums.variance_e12 += added.variance_e12
    sums.newest_unix_s = max(sums.newest_unix_s, received_unix_s)
    if added.adoptions:
        sums.tested_unix_s = min(sums.tested_unix_s or received_unix_s, received_unix_s)


def _compare(sums: JobSummary, gains: Gains) -> None:
    """Add windows that now lie between two baseline windows to the sums of their job for their config."""
    sums.compared += gains.compared
    sums.log_gain_low_e9 += gains.log_gain_low_e9
    sums.log_gain_high_e9 += gains.log_gain_high_e9


def _by_key(rows: Sequence[JobSummary]) -> dict[Key, JobSummary]:
    return {(row.study_id, row.job_id, row.config_digest): row for row in rows}


def _counts(row: NewReport) -> bool:
    return row.status in reports.COUNTED and row.valid and row.phase != Phase.WARMUP.value


def rebuild(connection: Connection, study_ids: Collection[str], max_speedup: float) -> None:
    """Derive the summaries of studies anew from the ledger; the caller holds its lock."""
    for study_id in study_ids:
        summaries.clear(connection, study_id)
        changes = Changes({}, {}, {})
        for row in reports.of_study(connection, study_id):
            changes.add(row)
        changes.save(connection, max_speedup)


def rebuild_all(connection: Connection, max_speedup: float) -> None:
    """Derive all summaries anew; the caller holds the ledger's lock."""
    rebuild(connection, studies.all_ids(connection), max_speedup)
