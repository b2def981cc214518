# SPDX-License-Identifier: Apache-2.0
"""The rows that are derived per config and reporter: votes counted, and the places of a study's configs.

The rules of the contest are `advice.contest`'s.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ringtune.service.store.keys import Key
from ringtune.service.store.summary_rows import ComparedJob, ConfigSummary, RankChange, ReporterRow, SpeakingReporter
from ringtune.shared_service.advice.contest import Contender, places
from ringtune.shared_service.advice.votes import Stand, votes_of
from ringtune.tuner import default_config

from .canonical import canonical
from .evidence import stand_of
from .reporters import is_trusted_job, reporter_of
from .spaces import ENGINE_TARGET

SPEAKING = ("adopted", "kept", "faster")
"""Stands of reporters that decide a config's place."""


@dataclass(frozen=True)
class ConfigRows:
    """Summaries of a config: its own row, and one of each reporter."""

    config: ConfigSummary
    reporters: Sequence[ReporterRow]


def config_rows(
    compared: Sequence[ComparedJob], configs: Mapping[Key, str], max_speedup: float
) -> Iterator[ConfigRows]:
    """Yield the joint evidence of each config's jobs, as `summaries.compared` sorts them.

    Args:
        compared: Rows of jobs beside their baselines.
        configs: The configs (JSON) by study and digest.
        max_speedup: Paired tests that claim more are left out.
    """
    for key, group in groupby(compared, key=lambda row: (row.study_id, row.config_digest)):
        by_baseline = [list(rows) for _, rows in groupby(group, key=lambda row: row.own_baseline)]
        rows = max(by_baseline, key=_precedence)
        stands = _stands(rows, max_speedup) if rows[0].own_baseline is not None else []
        yield ConfigRows(_config_row(key, configs[key], rows, stands), [_reporter_row(key, item) for item in stands])


def ranks(speaking: Sequence[SpeakingReporter]) -> list[RankChange]:
    """Return the configs whose place among those of their study changes.

    Args:
        speaking: All rows, from `summaries.speaking`, of studies whose stand is one of `SPEAKING`.
    """
    configs: dict[str, dict[str, list[SpeakingReporter]]] = {}
    for row in speaking:
        configs.setdefault(row.study_id, {}).setdefault(row.config_digest, []).append(row)
    changed = []
    for study_id, by_digest in configs.items():
        found = places([_contender(digest, rows) for digest, rows in by_digest.items()])
        for digest, rows in by_digest.items():
            change = RankChange(study_id, digest, **vars(found[digest]))
            if change != RankChange.of(rows[0]):
                changed.append(change)
    return changed


def _contender(digest: str, rows: Sequence[SpeakingReporter]) -> Contender:
    first = rows[0]
    return Contender(
        name=digest,
        is_over_default=first.is_over_default,
        adopted={row.reporter: row.ci_low for row in rows if row.stand == "adopted"},
        kept=frozenset(row.reporter for row in rows if row.stand == "kept"),
        faster={row.reporter: row.ci_low for row in rows if row.stand == "faster"},
        slower=first.opposed,
    )


def engine_default(layout: Sequence[int]) -> str:
    """Return the config of a job on the engine without settings, as the ledger writes it."""
    return canonical(default_config(layout).to_json())


def _is_over_default(row: ComparedJob) -> bool:
    """Tell whether a speed-up is over the default; of other targets than the engine any baseline is it."""
    baseline = row.own_baseline
    return baseline is not None and (row.target != ENGINE_TARGET or baseline == engine_default(row.ranks_per_host))


def _stands(rows: Sequence[ComparedJob], max_speedup: float) -> list[Stand]:
    by_reporter: dict[str, list[ComparedJob]] = {}
    for row in rows:
        reporter = reporter_of(row.token_id, row.job_id, has_many_jobs=row.has_many_jobs)
        by_reporter.setdefault(reporter, []).append(row)
    found = (stand_of(reporter, own, max_speedup) for reporter, own in sorted(by_reporter.items()))
    return [stand for stand in found if stand is not None]


def _config_row(key: Key, config: str, rows: Sequence[ComparedJob], stands: Sequence[Stand]) -> ConfigSummary:
    """Return a config's row without its place among the others, which `ranks` finds."""
    first, votes = rows[0], votes_of(stands)
    interval = votes.estimate.interval if votes.estimate else None
    over_default = _is_over_default(first)
    return ConfigSummary(
        study_id=key[0],
        config_digest=key[1],
        config=config,
        trials=first.all_trials,
        jobs=0 if first.own_baseline is None else first.all_jobs,
        reporters=len(stands),
        trusted_jobs=sum(is_trusted_job(stand.reporter) for stand in stands),
        adopted=votes.adopted,
        opposed=votes.opposed,
        leaning=votes.leaning,
        beaten=0,
        is_supported=False,
        is_confirmed=False,
        is_promising=False,
        baseline=first.own_baseline if interval else None,
        is_over_default=over_default,
        speedup=interval.speedup if interval else None,
        ci_low=interval.low if interval else None,
        ci_high=interval.high if interval else None,
        minus_since_s=-votes.since_unix_s,
        newest_unix_s=max(row.newest_unix_s for row in rows),
    )


def _reporter_row(key: Key, stand: Stand) -> ReporterRow:
    interval = stand.estimate.interval
    return ReporterRow(
        study_id=key[0],
        config_digest=key[1],
        reporter=stand.reporter,
        token_id=stand.token_id,
        jobs=stand.jobs,
        tests=stand.tests,
        windows=stand.windows,
        stand=stand.name,
        speedup=interval.speedup,
        ci_low=interval.low,
        ci_high=interval.high,
        since_unix_s=stand.since_unix_s,
    )


def _precedence(rows: Sequence[ComparedJob]) -> tuple[bool, bool, int, int, str]:
    """Return the order of the jobs with one baseline among all that measured a config: the largest speak for it.

    Tokens are counted before jobs, for a token may have as many jobs as it likes.
    """
    baseline = rows[0].own_baseline
    over_default = _is_over_default(rows[0])
    reporters = {reporter_of(row.token_id, row.job_id, has_many_jobs=row.has_many_jobs) for row in rows}
    return baseline is not None, over_default, len(reporters), rows[0].all_jobs, baseline or ""
