# SPDX-License-Identifier: Apache-2.0
"""The summaries: sums per job and config, and the verdict per config, kept in step with the ledger or rebuilt from it.

The sums are whole numbers, so that it does not matter in which order, or in how many transactions, results came. A job
has one baseline, the first that it reported; speed-ups over different baselines are never one estimate.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection

from ringtune.service.store import reports, studies, summaries
from ringtune.service.store.keys import Key
from ringtune.service.store.rows import Row
from ringtune.tuner import Phase, default_config

from .canonical import canonical
from .evidence import COLUMNS, MAX_JOBS, job_estimate, judge, tally
from .spaces import ENGINE_TARGET

ENGINE_DEFAULT = canonical(default_config().to_json())
"""What a job on the engine runs that sets nothing, as the ledger writes it."""


class Changes:
    """What one transaction changes in the summaries of any studies."""

    def __init__(self, sums: dict[Key, dict[str, Any]], counts: dict[Key, int]) -> None:
        """Begin with the sums that are there.

        Args:
            sums: Rows of `job_summaries` by study, job and config; all that this transaction may change.
            counts: How many configs each of the jobs has rows for, by study and job.
        """
        self._sums = sums
        self._counts = counts
        self._changed: set[Key] = set()
        self._configs: dict[Key, str] = {}

    @classmethod
    def load(cls, connection: Connection, rows: Sequence[Row]) -> "Changes":
        """Read the sums to which ledger rows may add."""
        jobs: set[Key] = {(row["study_id"], row["job_id"]) for row in rows}
        keys: set[Key] = {(row["study_id"], row["job_id"], row["config_digest"]) for row in rows}
        keys |= {(*job, summaries.BASELINE) for job in jobs}
        found = summaries.of_jobs(connection, keys)
        sums: dict[Key, dict[str, Any]] = {
            (row["study_id"], row["job_id"], row["config_digest"]): dict(row) for row in found
        }
        return cls(sums, summaries.config_counts(connection, jobs))

    def baseline(self, row: Row) -> Row | None:
        """Return the sums of the own baseline of the job that a ledger row is of."""
        return self._sums.get((row["study_id"], row["job_id"], summaries.BASELINE))

    def is_other_baseline(self, row: Row) -> bool:
        """Tell whether the job of a ledger row has another baseline than the row's config."""
        baseline = self.baseline(row)
        return baseline is not None and baseline["baseline"] != row["config"]

    def other_configs(self, row: Row) -> int:
        """Return how many configs the job of a ledger row has measured besides the row's."""
        job = (row["study_id"], row["job_id"])
        return self._counts.get(job, 0) - ((*job, row["config_digest"]) in self._sums)

    def add(self, row: Row) -> None:
        """Add a ledger row, if it counts: to its job's baseline, or to what its job has of the config."""
        if not _counts(row):
            return
        is_baseline = row["phase"] == Phase.BASELINE.value
        if is_baseline and self.is_other_baseline(row):
            return
        job = (row["study_id"], row["job_id"])
        key = (*job, summaries.BASELINE if is_baseline else row["config_digest"])
        if key not in self._sums:
            self._sums[key] = {**_empty(key), "baseline": row["config"] if is_baseline else None}
            self._counts[job] = self._counts.get(job, 0) + (not is_baseline)
        sums = self._sums[key]
        for name, value in tally({**row, "speedup": None} if is_baseline else row).items():
            sums[name] += value
        sums["newest_unix_s"] = max(sums["newest_unix_s"], row["received_unix_s"])
        self._changed.add(key)
        if not is_baseline:
            self._configs[row["study_id"], row["config_digest"]] = row["config"]

    def save(self, connection: Connection, max_speedup: float) -> None:
        """Write the sums, and the verdicts on all configs that they concern."""
        if not self._changed:
            return
        summaries.put_jobs(connection, [self._sums[key] for key in sorted(self._changed)])
        rebased = {(study_id, job_id) for study_id, job_id, digest in self._changed if digest == summaries.BASELINE}
        concerned = {*self._configs, *(summaries.configs_of_jobs(connection, rebased) if rebased else ())}
        unknown = concerned - set(self._configs)
        known = summaries.configs_of(connection, unknown) if unknown else {}
        compared = summaries.compared(connection, concerned, MAX_JOBS)
        summaries.put_configs(connection, list(_config_rows(compared, {**known, **self._configs}, max_speedup)))


def _counts(row: Row) -> bool:
    return row["status"] in reports.COUNTED and bool(row["valid"]) and row["phase"] != Phase.WARMUP.value


def _empty(key: Key) -> dict[str, Any]:
    identity = dict(zip(("study_id", "job_id", "config_digest"), key, strict=True))
    return {**identity, **dict.fromkeys(COLUMNS, 0), "newest_unix_s": 0.0}


def rebuild(connection: Connection, study_ids: Collection[str], max_speedup: float) -> None:
    """Derive the summaries of studies anew from the ledger; the caller holds its lock."""
    for study_id in study_ids:
        summaries.clear(connection, study_id)
        changes = Changes({}, {})
        for row in reports.of_study(connection, study_id):
            changes.add(row)
        changes.save(connection, max_speedup)


def rebuild_all(connection: Connection, max_speedup: float) -> None:
    """Derive all summaries anew; the caller holds the ledger's lock."""
    rebuild(connection, studies.all_ids(connection), max_speedup)


def _config_rows(compared: Sequence[Row], configs: Mapping[Key, str], max_speedup: float) -> Iterator[dict[str, Any]]:
    for key, group in groupby(compared, key=lambda row: (row["study_id"], row["config_digest"])):
        by_baseline = [list(rows) for _, rows in groupby(group, key=lambda row: row["own_baseline"])]
        rows = max(by_baseline, key=_precedence)
        estimates = [found for row in rows if (found := job_estimate(row, _baseline(row))) is not None]
        verdict = judge(estimates, max_speedup)
        interval, is_over_default = verdict.interval, _is_over_default(rows[0])
        yield {
            "study_id": key[0],
            "config_digest": key[1],
            "config": configs[key],
            "trials": int(rows[0]["all_trials"]),
            "jobs": int(rows[0]["all_jobs"]) - (len(rows) - len(estimates)),
            "is_confirmed": verdict.is_confirmed and is_over_default,
            "is_promising": verdict.is_promising,
            "baseline": rows[0]["own_baseline"] if interval else None,
            "is_over_default": is_over_default,
            "speedup": interval.speedup if interval else None,
            "ci_low": interval.low if interval else None,
            "ci_high": interval.high if interval else None,
            "newest_unix_s": rows[0]["newest_unix_s"],
        }


def _precedence(rows: Sequence[Row]) -> tuple[bool, bool, int, str]:
    """Return what orders the jobs with one baseline among all that measured a config: the largest speak for it."""
    baseline = rows[0]["own_baseline"]
    return baseline is not None, _is_over_default(rows[0]), int(rows[0]["all_jobs"]), baseline or ""


def _is_over_default(row: Row) -> bool:
    """Tell whether a job's speed-up is one over the default; of other targets than the engine any baseline is it."""
    return row["own_baseline"] is not None and (row["target"] != ENGINE_TARGET or row["own_baseline"] == ENGINE_DEFAULT)


def _baseline(row: Row) -> Row | None:
    if not row["baseline_samples"]:
        return None
    return {"samples": row["baseline_samples"], "log_step_e9": row["baseline_log_step_e9"]}
