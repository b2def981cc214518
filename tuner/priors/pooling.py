# SPDX-License-Identifier: Apache-2.0
"""Pooling: the unfinished runs of one question as the trials of one study.

Each run had another load beside it. Its step times are therefore taken in ratios to its own baseline, and a run whose
baseline has no valid window is left out. Ratios do not hold for another batch size: what a config costs stays the same
in milliseconds. Runs with a much longer or shorter baseline are kept apart. What remains is noise to the model.
"""

import json
from collections.abc import Iterable, Sequence
from statistics import median

from ringtune.tuner.logs.reader import MOST_SAMPLES, RunLog, sample_from_record
from ringtune.tuner.sample import Sample, Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace
from ringtune.tuner.statistics.levelling import levelled

MOST_RATIO = 1.5
"""Largest ratio of two baselines' step times at which the runs are compared; a larger one is another batch, or load.

Measured with batches of 8, 64 and 512 samples, 2 ranks and 16 layers of 256 x 256: steps of 18, 33 and 151 ms. No
fusion with cycles of 5 ms costs 22 to 26 ms more in each, which are 128 %, 78 % and 15 % of the step.
"""
MOST_RUNS = 16
"""Most unfinished runs in one study, the newest: the machine of long ago may have been another."""


def usable_trials(run: RunLog, space: SearchSpace) -> list[Trial]:
    """Return a run's usable samples as one trial per config, without configs that are no longer legal."""
    return _trials(_usable_samples(run, space))


def runs_by_question(numbered: Iterable[tuple[int, RunLog]]) -> list[list[tuple[int, RunLog]]]:
    """Return runs in groups of one key and one baseline, each with its number; the order stays within a group."""
    groups: dict[str, list[tuple[int, RunLog]]] = {}
    for number, run in numbered:
        if run.run is not None:
            question = json.dumps([run.run.key, run.run.baseline], sort_keys=True)
            groups.setdefault(question, []).append((number, run))
    return list(groups.values())


def runs_like(runs: Sequence[RunLog], space: SearchSpace, baseline_ms: float) -> list[RunLog]:
    """Return the runs whose baseline has about the same step time as that of a job, milliseconds."""
    own = ((run, _baseline_ms(run, _usable_samples(run, space))) for run in runs)
    return [run for run, ms in own if ms is not None and 1 / MOST_RATIO <= ms / baseline_ms <= MOST_RATIO]


def pooled_trials(runs: Sequence[RunLog], space: SearchSpace, baseline_ms: float | None = None) -> list[Trial]:
    """Return the samples of several runs as one trial per config, as if all had one baseline; that one comes first.

    Args:
        runs: Unfinished runs of one key and one baseline, the oldest first.
        space: The currently legal configs.
        baseline_ms: Step time of the one baseline, milliseconds; that of the newest run unless given.
    """
    pooled: list[Sample] = []
    for run in reversed(runs):
        samples = _usable_samples(run, space)
        own_ms = _baseline_ms(run, samples)
        if own_ms is None:
            continue
        baseline_ms = own_ms if baseline_ms is None else baseline_ms
        pooled[:0] = [sample.scaled(baseline_ms / own_ms) for sample in samples]
    baseline = Config(runs[-1].run.baseline) if runs and runs[-1].run is not None else None
    return _trials(sorted(pooled, key=lambda sample: sample.config != baseline))


def _usable_samples(run: RunLog, space: SearchSpace) -> list[Sample]:
    """Return a run's usable samples, relative to the baseline windows beside them."""
    samples = (sample_from_record(record) for record in run.samples)
    usable = [s for s in samples if s.valid and s.step_times.is_usable and space.contains(s.config)]
    return usable if run.run is None else levelled(usable, Config(run.run.baseline))


def _trials(samples: Iterable[Sample]) -> list[Trial]:
    by_config: dict[Config, list[Sample]] = {}
    for sample in samples:
        by_config.setdefault(sample.config, []).append(sample)
    return [Trial(number, config, tuple(own[-MOST_SAMPLES:])) for number, (config, own) in enumerate(by_config.items())]


def _baseline_ms(run: RunLog, samples: Iterable[Sample]) -> float | None:
    """Return the median of the baseline's typical steps, milliseconds; None without a window of it."""
    baseline = None if run.run is None else Config(run.run.baseline)
    times = [sample.typical_ms for sample in samples if sample.config == baseline]
    return median(times) if times else None
