# SPDX-License-Identifier: Apache-2.0
"""The verdict per config over its reporters, and what depends on the other configs of the study.

- A reporter has one vote on a config, whatever the number of its jobs: job ids are free to invent.
- A config that a paired test adopted is better than any that nobody tested, whatever their windows say.
- Of two configs the one with more votes is the better one, whatever the size of a claim. A reporter that adopted only
  one of them votes for that; one that adopted both votes for the one of its own better bound.
- On a tie the config that was recommended earlier stays, and all that tie are priors: nobody outvoted anybody.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from ringtune.service.store.keys import Key
from ringtune.service.store.summary_rows import ComparedJob, ConfigSummary, RankChange, ReporterRow, SpeakingReporter
from ringtune.tuner import default_config

from .canonical import canonical
from .evidence import Stand, stand_of, votes_of
from .reporters import is_trusted_job, reporter_of
from .spaces import ENGINE_TARGET

SPEAKING = ("adopted", "faster")
"""Stands of reporters that speak for a config."""
MAX_CHOICES = 16
"""Configs of one reporter, the best first, that are compared by its own bounds."""


@dataclass(frozen=True)
class ConfigRows:
    """Summaries of a config: its own row, and one of each reporter."""

    config: ConfigSummary
    reporters: Sequence[ReporterRow]


def config_rows(
    compared: Sequence[ComparedJob], configs: Mapping[Key, str], max_speedup: float
) -> Iterator[ConfigRows]:
    """Yield what each config's jobs together say, as `summaries.compared` sorts them.

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
    """Return the configs whose `beaten` or `is_confirmed` changes.

    Args:
        speaking: All rows, from `summaries.speaking`, of studies whose stand is one of `SPEAKING`.
    """
    configs: dict[Key, SpeakingReporter] = {(row.study_id, row.config_digest): row for row in speaking}
    groups: dict[tuple[object, ...], list[SpeakingReporter]] = {}
    for row in speaking:
        if row.stand == "adopted" or not row.adopted:
            groups.setdefault((row.study_id, *_group(row)), []).append(row)
    beaten, tied = Counter[Key](), set[Key]()
    for rows in groups.values():
        _contest(rows, beaten, tied)
    beaten.update(_untested_ones(configs))
    changed = []
    for key, row in configs.items():
        is_confirmed = row.is_supported and key not in tied
        change = RankChange(row.study_id, row.config_digest, beaten[key], is_confirmed)
        if (change.beaten, change.is_confirmed) != (row.beaten, row.is_confirmed):
            changed.append(change)
    return changed


def engine_default(layout: Sequence[int]) -> str:
    """Return the config of a job on the engine that sets nothing, as the ledger writes it."""
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
        is_supported=votes.is_supported and over_default,
        is_confirmed=False,
        is_promising=votes.is_promising,
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
    """Return what orders the jobs with one baseline among all that measured a config: the largest speak for it.

    Tokens are counted before jobs, for a token may have as many jobs as it likes.
    """
    baseline = rows[0].own_baseline
    over_default = _is_over_default(rows[0])
    reporters = {reporter_of(row.token_id, row.job_id, has_many_jobs=row.has_many_jobs) for row in rows}
    return baseline is not None, over_default, len(reporters), rows[0].all_jobs, baseline or ""


def _group(row: SpeakingReporter) -> tuple[bool, bool, bool, bool]:
    """Return what is the same for configs that compete: those of another group come before or after them anyway."""
    return row.is_promising, row.is_over_default, row.is_supported, row.adopted > 0


def _contest(rows: Sequence[SpeakingReporter], beaten: Counter[Key], tied: set[Key]) -> None:
    """Compare each two configs by their votes.

    Args:
        rows: Rows of the reporters that speak for configs of one study, which compete.
        beaten: Gets how many others each config beats.
        tied: Gets the configs that tie with another.
    """
    votes: Counter[Key] = Counter((row.study_id, row.config_digest) for row in rows)
    counts = sorted(votes.values())
    alike = Counter(counts)
    ties: Counter[Key] = Counter({key: alike[own] - 1 for key, own in votes.items()})
    beaten.update({key: bisect_left(counts, own) for key, own in votes.items()})
    for (key, other), margin in _own_choices(rows).items():
        by_number = votes[key] - votes[other]
        beaten[key] += (by_number + margin > 0) - (by_number > 0)
        ties[key] += (by_number + margin == 0) - (by_number == 0)
    tied |= {key for key, count in ties.items() if count}


def _untested_ones(configs: Mapping[Key, SpeakingReporter]) -> Counter[Key]:
    """Return by adopted config how many others of its study it beats for nobody tested them: windows never outvote."""
    untested = Counter((row.study_id, row.is_over_default) for row in configs.values() if not row.adopted)
    adopted = ((key, row) for key, row in configs.items() if row.adopted)
    return Counter({key: untested[row.study_id, row.is_over_default] for key, row in adopted})


def _own_choices(rows: Sequence[SpeakingReporter]) -> Counter[tuple[Key, Key]]:
    """Return by two configs how many reporters of both hold the first for the better one, less those of the second."""
    by_reporter: dict[str, list[SpeakingReporter]] = {}
    for row in rows:
        by_reporter.setdefault(row.reporter, []).append(row)
    margins: Counter[tuple[Key, Key]] = Counter()
    for own in by_reporter.values():
        best = sorted(own, key=lambda row: (row.ci_low, row.config_digest), reverse=True)[:MAX_CHOICES]
        keys = [(row.study_id, row.config_digest) for row in best]
        for better, worse in combinations(keys, 2):
            margins[better, worse] += 1
            margins[worse, better] -= 1
    return margins
