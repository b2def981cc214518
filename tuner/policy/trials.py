# SPDX-License-Identifier: Apache-2.0
"""Registry of a run's trials: one per config; the baseline is trial 0."""

from collections.abc import Sequence
from dataclasses import replace

from ringtune.tuner.sample import Sample, StepTimes, Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.statistics.levelling import levelled

BASELINE_ID = 0


class TrialBook:
    """Trial registry: assigns trial numbers to configs and collects their samples."""

    def __init__(self, baseline: Config, prior: Sequence[Trial] = (), earlier: Sequence[Sample] = ()) -> None:
        """Begin with earlier measurements.

        Args:
            baseline: The baseline, trial 0.
            prior: Trials of an unfinished run, numbered from 1; those of the baseline are left out.
            earlier: Samples of earlier runs in the order of measurement, levelled with this run's.
        """
        self._baseline = baseline
        self._ids: dict[Config, int] = {baseline: BASELINE_ID}
        self._samples: dict[Config, list[Sample]] = {baseline: []}
        self._measured: list[Sample] = []  # in the order of measurement, without those of prior trials
        self._levelled: tuple[Trial, ...] | None = None
        for trial in prior:
            if trial.config != baseline:
                self.id_of(trial.config)
                self._samples[trial.config] += trial.samples
        for sample in earlier:
            self.add(replace(sample, trial_id=self.id_of(sample.config)))

    def id_of(self, config: Config) -> int:
        """Return the config's trial number; assign one to a new config."""
        if config not in self._ids:
            self._ids[config] = len(self._ids)
            self._samples[config] = []
        return self._ids[config]

    def add(self, sample: Sample) -> None:
        """Add a sample to its config's trial."""
        self.id_of(sample.config)
        self._samples[sample.config].append(sample)
        self._measured.append(sample)
        self._levelled = None

    def levelled(self) -> tuple[Trial, ...]:
        """Return all trials in step times of the machine as it is now; as measured if it has not drifted.

        Samples of prior trials stay as they are.
        """
        if self._levelled is not None:
            return self._levelled
        now = {id(old): new for old, new in zip(self._measured, levelled(self._measured, self._baseline), strict=True)}
        self._levelled = tuple(
            replace(trial, samples=tuple(now.get(id(sample), sample) for sample in trial.samples))
            for trial in self.trials()
        )
        return self._levelled

    def trials(self) -> tuple[Trial, ...]:
        """Return all trials with samples, in the order of their numbers."""
        pairs = ((self._ids[config], config, tuple(samples)) for config, samples in self._samples.items())
        return tuple(Trial(*pair) for pair in pairs if pair[2])

    def measured(self) -> tuple[Config, ...]:
        """Return the configs with at least one valid sample."""
        return tuple(trial.config for trial in self.trials() if trial.is_conclusive)

    def times_of(self, config: Config) -> tuple[StepTimes, ...]:
        """Return the step times of a config's valid samples."""
        return tuple(sample.step_times for sample in self.valid_samples(config))

    def valid_samples(self, config: Config) -> tuple[Sample, ...]:
        """Return a config's valid samples in the order of measurement."""
        return tuple(sample for sample in self._samples.get(config, ()) if sample.valid)
