# SPDX-License-Identifier: Apache-2.0
"""Suggestions that are measured at the same time: a designer takes those before as measured, with its own prediction.

A designer that is asked twice with the same trials answers the same. Between two questions the trials get a fantasy, a
sample of the suggestion with the expected step time. The next answer is then worth its launch beside the one before.
The fantasies are forgotten once the windows are measured. Source: Ginsbourger, Le Riche, Carraro (2010), "Kriging is
well-suited to parallelize optimization" (kriging believer).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from ringtune.tuner.sample import Phase, Trial
from ringtune.tuner.space.config import Config


def believed(trials: Sequence[Trial], config: Config, log_step_ms: float) -> tuple[Trial, ...]:
    """Return the trials with one more sample, of a step time that is only expected.

    Args:
        trials: All trials, the baseline with a valid sample first. The new sample has the scatter of the baseline's
            newest one.
        config: The config that the sample is of.
        log_step_ms: Expected ln(step time in ms).
    """
    like = next(sample for sample in reversed(trials[0].samples) if sample.valid)
    own = next((trial for trial in trials if trial.config == config), Trial(len(trials), config))
    expected = like.scaled(math.exp(log_step_ms) / like.typical_ms)
    sample = replace(expected, trial_id=own.trial_id, config=config, phase=Phase.SEARCH)
    changed = replace(own, samples=(*own.samples, sample))
    if own not in trials:
        return (*trials, changed)
    return tuple(changed if trial is own else trial for trial in trials)
