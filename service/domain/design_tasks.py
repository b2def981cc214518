# SPDX-License-Identifier: Apache-2.0
"""DesignTasks for a designer: the study's results as trials, jobs made comparable, and the leased configs."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ringtune.service.errors import StudyNotFound
from ringtune.service.store import Database, leases, reports, studies, summaries
from ringtune.service.store.rows import NewQueuedSuggestion, ReportRow
from ringtune.service.store.summary_rows import JobSummary
from ringtune.shared_service.advice.neighbours import is_of_engine
from ringtune.tuner import Config, SearchSpace
from ringtune.tuner.space.parameters import default_config

from .asked_space import AskedSpace
from .canonical import canonical, digest
from .evidence import mean_log_step
from .policy import ServiceLimits
from .study_cache import StudyCache

MAX_BASELINES = 64
MAX_PENDING = 16
MAX_QUEUED = 100
"""Suggestions of one study that wait, for all search spaces: the oldest are for jobs that asked and ended."""
MAX_SEED = 2**31


class DesignTasks:
    """Tasks for the designer, made from the ledger; keeps its suggestions in the queue."""

    def __init__(self, database: Database, cache: StudyCache, policy: ServiceLimits) -> None:
        """Read and write `database`."""
        self._database = database
        self._cache = cache
        self._policy = policy

    def task_of(self, asked: AskedSpace) -> dict[str, Any] | None:
        """Return the task of a study in a space, None while its queue is full; StudyNotFound if it was deleted."""
        study_id, space = asked.study_id, asked.space
        study = self._cache.get(study_id)
        with self._database.reading() as connection:
            missing = self._policy.queued_suggestions - leases.queued(connection, study_id, asked.digest)
            if missing <= 0:
                return None
            rows = reports.newest_samples(connection, study_id, self._policy.max_design_samples)
            baselines = summaries.baselines_of(connection, study_id, MAX_BASELINES)
            pending = leases.pending(connection, study_id, MAX_PENDING)
        of_engine = is_of_engine(space)
        legal = [row for row in rows if space.contains(row.config_values)]
        return {
            "designer": self._policy.designer,
            "seed": int(study_id[:8], 16) % MAX_SEED,
            "space": space.to_json(),
            "trials": trials(legal, baselines, default_in(space, study.key.layout)),
            "pending": [config for config in pending if space.contains(config)],
            "count": missing,
            "gradient_bytes": list(study.gradient_bytes) if of_engine else [],
            "layout": list(study.key.layout),
        }

    def keep(self, asked: AskedSpace, configs: Sequence[Mapping[str, Any]]) -> None:
        """Put configs into a space's queue, those left out that are in any, or are being measured."""
        study_id = asked.study_id
        texts = [canonical(asked.space.validate(config).to_json()) for config in configs]
        with self._database.writing(f"ringtune ask {study_id}") as connection:
            if not studies.existing(connection, {study_id}):
                self._cache.forget(study_id)
                raise StudyNotFound(f"study {study_id} was deleted; its suggestions are not kept")
            known = set(leases.asked_digests(connection, study_id)) | set(leases.queued_digests(connection, study_id))
            rows = [
                NewQueuedSuggestion(
                    study_id=study_id,
                    space_digest=asked.digest,
                    config=text,
                    config_digest=digest(text),
                    designer=self._policy.designer,
                )
                for text in texts
            ]
            leases.enqueue(connection, [row for row in rows if row.config_digest not in known])
            leases.shorten_queue(connection, study_id, MAX_QUEUED)


def trials(rows: Sequence[ReportRow], baselines: Sequence[JobSummary], default: Config) -> list[dict[str, Any]]:
    """Return results as trials, the baseline first, step times scaled to those of the median job's baseline.

    Jobs whose baseline is not that of the most jobs stay as they are: there is no measure to compare them by.

    Args:
        rows: Ledger rows, the oldest first.
        baselines: Rows of `job_summaries` with jobs' baselines.
        default: Baseline: the config of a job without settings.
    """
    shared = Counter(row.baseline for row in baselines).most_common(1)
    alike = (row for row in baselines if row.baseline == shared[0][0])
    means = {row.job_id: mean for row in alike if (mean := mean_log_step(row)) is not None}
    usual = sorted(means.values())[len(means) // 2] if means else 0.0
    samples: dict[Config, list[list[float]]] = {default: []}
    for row in rows:
        scale = math.exp(usual - means.get(row.job_id, usual))
        samples.setdefault(Config(row.config_values), []).append(_sample(row, scale))
    return [{"config": config.to_json(), "samples": found} for config, found in samples.items()]


def _sample(row: ReportRow, scale: float) -> list[float]:
    """Return a valid result's step times, steps and score; step times are multiplied by `scale`."""
    times = (scale * (time or 0.0) for time in (row.median_step_ms, row.mad_step_ms, row.mean_step_ms))
    return [*times, row.steps, (row.score_bytes_per_s or 0.0) / scale]


def default_in(space: SearchSpace, layout: Sequence[int]) -> Config:
    """Return the config of a job of a layout without settings; where that is not in the space, the space's default."""
    default = default_config(layout) if is_of_engine(space) else space.default()
    return default if space.contains(default) else space.default()
