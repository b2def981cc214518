# SPDX-License-Identifier: Apache-2.0
"""Optuna behind the designer's interface: the same conformance suite as for the others, sampler by sampler."""

from collections.abc import Sequence

import pytest

pytest.importorskip("optuna")
pytest.importorskip("cmaes")

from benchmarks.tuner.regret.rivals.optuna_samplers import OptunaDesigner, cma_es_sampler, gp_sampler, tpe_sampler
from ringtune.tuner import Designer, Phase, Sample, SearchSpace, Trial, default_config, search_space
from ringtune.tuner.sample import StepTimes

SPACE = search_space({}, default_config())


def measured(number: int, config: object, step_ms: float) -> Trial:
    """Return a trial with one sample."""
    sample = Sample(number, config, Phase.SEARCH, 1, 1e6, StepTimes(step_ms, 0.1, step_ms), 10)  # type: ignore[arg-type]
    return Trial(number, config, (sample,))  # type: ignore[arg-type]


@pytest.mark.parametrize("sampler", [gp_sampler, tpe_sampler, cma_es_sampler])
def test_every_suggestion_is_legal_and_told(sampler: object) -> None:
    """A suggestion is legal also after unmeasured trials; the study knows the baseline and all measured ones."""
    designer = OptunaDesigner(SPACE, 0, sampler)  # type: ignore[arg-type]
    trials = [measured(0, default_config(), 20.0)]
    for number in range(1, 15):
        designer.update(trials)
        config = designer.suggest().config
        SPACE.validate(config)
        if number % 3:
            trials.append(measured(number, config, 20.0 + number))

    designer.update(trials)

    finished = [trial for trial in designer._study.trials if trial.value is not None]
    assert len(trials) == len(finished)


def test_the_best_single_sample_counts() -> None:
    """The best single sample counts, as in Optuna's own study."""
    designer: Designer = OptunaDesigner(SPACE, 0, tpe_sampler)
    other = default_config().replace({"cycle_ms": 5.0})
    trials: Sequence[Trial] = [measured(0, default_config(), 20.0), measured(1, other, 15.0)]

    designer.update(trials)
    means = designer.predict([default_config(), other]).mean_log_step_ms

    assert means[1] < means[0]


def test_a_seed_decides_everything() -> None:
    """Two studies of one seed ask the same."""
    asked = []
    for _ in range(2):
        designer = OptunaDesigner(SearchSpace(SPACE.parameters, SPACE.fixed), 7, tpe_sampler)
        designer.update([measured(0, default_config(), 20.0)])
        asked.append(designer.suggest().config)

    assert asked[0] == asked[1]
