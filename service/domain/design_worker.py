# SPDX-License-Identifier: Apache-2.0
"""The process in which a designer works: tasks come in as lines of JSON, suggestions go out the same way.

It ends with its standard input, so that it never outlives the service. It is polite: the service comes first.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ringtune.tuner import Config, Phase, Prior, Sample, SearchSpace, StepTimes, Trial, load_designer, make_designer
from ringtune.tuner.priors.cost_model import CostModelPrior, EngineCosts, JobShape

NICENESS = 10
ATTEMPTS_PER_CONFIG = 6
"""Suggestions for each config of a batch, at most: a designer may suggest one config several times."""


def suggest(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return new configs for a task.

    Args:
        task: `designer`, `seed`, `space`, `trials` (each a `config` with `samples` of [median, mad, mean step in ms,
            steps, score], the baseline first), `pending` (configs that are being measured), `count`, and
            `gradient_bytes` and `layout` where the cost model is to help.

    Returns:
        So many configs, distinct from each other and from the pending ones where the designer can; one that was
        measured already is among them where a second sample of it tells more than anything new.
    """
    space = SearchSpace.from_json(task["space"])
    designer = make_designer(task["designer"], space, task["seed"], _priors(task))
    trials = [_trial(number, data) for number, data in enumerate(task["trials"])]
    believed = list(trials)
    designer.update(trials)
    for config in map(Config, task["pending"]):
        believed.append(_believed(designer, config, trials, len(believed)))
    found: dict[Config, None] = {}
    for _ in range(ATTEMPTS_PER_CONFIG * task["count"]):
        designer.update(believed)
        config = space.validate(designer.suggest().config)
        found[config] = None
        if len(found) == task["count"]:
            break
        believed.append(_believed(designer, config, trials, len(believed)))
    return [config.to_json() for config in found]


def _priors(task: Mapping[str, Any]) -> Sequence[Prior]:
    if not task["gradient_bytes"] or sum(task["layout"]) == 1:
        return ()
    return (CostModelPrior(JobShape(tuple(task["gradient_bytes"]), tuple(task["layout"])), EngineCosts()),)


def _trial(number: int, data: Mapping[str, Any]) -> Trial:
    config = Config(data["config"])
    samples = tuple(
        Sample(number, config, Phase.SEARCH, 0, score, StepTimes(median, mad, mean), steps)
        for median, mad, mean, steps, score in data["samples"]
    )
    return Trial(number, config, samples)


def _believed(designer: Any, config: Config, trials: Sequence[Trial], number: int) -> Trial:
    """Return a trial with the result that is expected of a config that is not measured yet.

    So the next suggestion differs (Ginsbourger, Le Riche, Carraro 2010, "Kriging is well-suited to parallelize
    optimization": the Kriging believer). Without any sample there is no expectation.
    """
    measured = [sample for trial in trials for sample in trial.samples]
    if not measured:
        return Trial(number, config)
    median = float(np.exp(designer.predict([config]).mean_log_step_ms[0]))
    expected = replace(measured[-1], trial_id=number, config=config, step_times=StepTimes(median, 0.0, median))
    return Trial(number, config, (expected,))


def main() -> None:
    """Answer tasks until standard input ends."""
    os.nice(NICENESS)
    for line in sys.stdin:
        task = json.loads(line)
        try:
            load_designer(task["designer"])
            answer: dict[str, Any] = {"configs": suggest(task)}
        except Exception as error:  # noqa: BLE001  (whatever a designer raises, the next task may be another)
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer, allow_nan=False) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
