# SPDX-License-Identifier: Apache-2.0
"""Configs that fail or do not fit into memory: told to the designer, and found again in earlier runs."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ringtune.tuner import Config, Phase, Sample, SearchSpace, StepTimes, Trial, VoidReason
from ringtune.tuner.designers import Designer, DesignerWrapper, Suggestion
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.priors.warm_start import has_key

LIMIT_TOLERANCE = 1.1
"""Largest ratio of two memory limits that count as one: a limit taken from free memory varies by a few percent."""
PARTS = 16
"""Number of steps from a config that does not fit to the baseline, which fits."""


class FailureAwareDesigner(DesignerWrapper):
    """Tells a designer of configs that failed outside of this run's trials, as failed trials."""

    def __init__(self, designer: Designer, failed: AbstractSet[Config] = frozenset()) -> None:
        """Wrap `designer`; `failed` are configs that failed in earlier runs."""
        super().__init__(designer)
        self._failed = sorted(failed, key=str)

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials, and those of the configs that are known to fail."""
        known = {trial.config for trial in trials}
        unknown = [config for config in self._failed if config not in known]
        failed = [_failed_trial(len(trials) + index, config) for index, config in enumerate(unknown)]
        self.designer.update([*trials, *failed])


class FittingDesigner(FailureAwareDesigner):
    """Moves a suggestion that does not fit into memory towards the baseline, until it fits."""

    def __init__(
        self, designer: Designer, failed: AbstractSet[Config], space: SearchSpace, baseline: Config,
        *, fits: Callable[[Config], bool],
    ) -> None:  # fmt: skip
        """Wrap `designer`.

        Args:
            designer: Suggests configs.
            failed: Configs that did not fit in earlier runs.
            space: The legal configs.
            baseline: A config that fits.
            fits: Returns whether a config may be tried.
        """
        super().__init__(designer, failed)
        self._space = space
        self._baseline = baseline
        self._fits = fits

    def suggest(self) -> Suggestion:
        """Return the config to try next; one that had to be moved has no expected score."""
        suggestion = self.designer.suggest()
        if self._fits(suggestion.config):
            return suggestion
        self._failed.append(suggestion.config)
        start, end = self._space.encode(suggestion.config), self._space.encode(self._baseline)
        moved = (self._space.decode(start + (end - start) * part / PARTS) for part in range(1, PARTS))
        return Suggestion(next(filter(self._fits, moved), self._baseline))


def configs_over_limit(
    runs: Sequence[RunLog], key: Mapping[str, Any], space: SearchSpace, limit_bytes: int
) -> frozenset[Config]:
    """Return the configs that needed more memory than a limit in runs of the same question.

    Args:
        runs: Earlier runs.
        key: The study's key.
        space: The legal configs.
        limit_bytes: The limit of the new run; a run with a much lower one is no evidence.
    """
    over = {config for log in runs if has_key(log, key) for config in _over_limit(log, limit_bytes)}
    return frozenset(filter(space.contains, over))


def _over_limit(log: RunLog, limit_bytes: int) -> Iterator[Config]:
    """Yield the configs that needed more than the limit of a run, if that limit was about as high or higher."""
    limit = None if log.run is None else log.run.memory_limit_bytes
    if LIMIT_TOLERANCE * (limit or 0) < limit_bytes:
        return
    for sample in log.samples:
        if sample.reason == VoidReason.MEMORY_LIMIT.value:
            yield Config(sample.config)


def _failed_trial(trial_id: int, config: Config) -> Trial:
    """Return a trial that never was, for designers alone."""
    times = StepTimes.of(())
    sample = Sample(trial_id, config, Phase.SEARCH, 0, math.nan, times, 0, VoidReason.LAUNCH_FAILED)
    return Trial(trial_id, config, (sample,))
