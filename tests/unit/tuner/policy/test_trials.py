# SPDX-License-Identifier: Apache-2.0
"""Tests of the book of trials."""

from ringtune.tuner import Phase, Sample, VoidReason, Window, default_config
from ringtune.tuner.policy.trials import TrialBook
from ringtune.tuner.testing import measured_trial, poor_baseline

BASELINE, OTHER = default_config(), poor_baseline()


def test_the_baseline_is_trial_zero_and_a_config_keeps_its_number() -> None:
    """Measuring a config again does not make a new trial."""
    book = TrialBook(BASELINE)

    assert [0, 1, 1, 0] == [book.id_of(config) for config in (BASELINE, OTHER, OTHER, BASELINE)]


def test_samples_are_collected_per_config() -> None:
    """A trial has all samples of its config; trials without samples are left out."""
    book = TrialBook(BASELINE)
    window = Window(1, (10.0,), 100, 1)
    book.id_of(OTHER)
    for _ in range(2):
        book.add(Sample.from_window(window, trial_id=0, config=BASELINE, phase=Phase.BASELINE))

    assert [(0, 2)] == [(trial.trial_id, len(trial.samples)) for trial in book.trials()]
    assert [10.0, 10.0] == [times.median for times in book.times_of(default_config())]


def test_only_conclusive_trials_count_as_measured() -> None:
    """A config whose window was void is in the trials, not among the measured."""
    book = TrialBook(BASELINE)
    window = Window(1, (10.0,), 100, 1, VoidReason.PAUSE)

    book.add(Sample.from_window(window, trial_id=1, config=OTHER, phase=Phase.SEARCH))

    assert 1 == len(book.trials())
    assert () == book.measured()


def test_prior_trials_come_in_but_not_for_the_baseline() -> None:
    """An earlier run's trials are kept; the baseline is measured anew."""
    prior = (measured_trial(1, OTHER, [30.0]), measured_trial(2, BASELINE, [20.0]))

    book = TrialBook(BASELINE, prior)

    assert (OTHER,) == book.measured()
    assert () == book.times_of(default_config())
