# SPDX-License-Identifier: Apache-2.0
"""Optuna's samplers as designers: the study that a designer replays, and the packages that it needs."""

import importlib.util

import pytest

from ringtune.errors import ConfigError
from ringtune.tuner import Config, Designer, Phase, Sample, SearchSpace, StepTimes, Trial, VoidReason, make_designer
from ringtune.tuner.designers.optuna import MODULES, OptunaDesigner
from ringtune.tuner.space.parameter_types import BooleanParameter, CategoryParameter, NumberParameter
from ringtune.tuner.testing import measured_trial

NAMES = [f"optuna:{sampler}" for sampler in MODULES]
SPACE = SearchSpace(
    [
        CategoryParameter("tile", ("8", "1", "2", "4"), "1"),
        CategoryParameter("threads", ("default", "16", "2"), "default"),
        CategoryParameter("order", ("row", "column"), "row"),
        NumberParameter("bytes", 1024, 65536, 0, scale="log2", step=1024, special=(0,)),
        NumberParameter("share", 0.1, 0.9, 0.5),
        BooleanParameter("cache", default=True),
    ],
    {},
)
DEFAULT = SPACE.default()


def failed(trial_id: int, config: Config) -> Trial:
    """Return a trial whose launch failed."""
    reason = VoidReason.LAUNCH_FAILED
    sample = Sample(trial_id, config, Phase.SEARCH, 1, float("nan"), StepTimes.of(()), 0, reason)
    return Trial(trial_id, config, (sample,))


def tiles(designer: Designer, rounds: int) -> list[Config]:
    """Return a designer's suggestions for a command whose time grows with `tile`, and that fails with `column`."""
    trials = [measured_trial(0, DEFAULT, [20.0])]
    for number in range(1, rounds + 1):
        designer.update(trials)
        config = designer.suggest().config
        time_ms = 20.0 + 10.0 * float(config["tile"])
        trials.append(
            failed(number, config) if config["order"] == "column" else measured_trial(number, config, [time_ms])
        )
    return [trial.config for trial in trials[1:]]


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_value_goes_through_a_study(name: str) -> None:
    """Suggestions are legal beside failed trials; words and numbers of one knob are both suggested."""
    configs = tiles(make_designer(name, SPACE, 3), 25)

    assert [config for config in configs if not SPACE.contains(config)] == []
    assert {"default"} < {config["threads"] for config in configs}
    assert {0} < {config["bytes"] for config in configs}


@pytest.mark.parametrize("name", NAMES)
def test_a_study_knows_each_trial_as_it_was(name: str) -> None:
    """Times are ln(ms), failures are failures, and choices that are numbers are ranks."""
    from optuna.distributions import CategoricalDistribution, IntDistribution
    from optuna.trial import TrialState

    designer = make_designer(name, SPACE, 0)
    assert isinstance(designer, OptunaDesigner)
    other = DEFAULT.replace({"tile": "4", "threads": "16", "bytes": 2048})

    designer.update([measured_trial(0, DEFAULT, [20.0]), failed(1, other)])

    assert designer._study is not None
    trials = [trial for trial in designer._study.trials if trial.params["share"] == 0.5]  # CMA-ES was asked for others
    first, second = trials
    assert [TrialState.COMPLETE, TrialState.FAIL] == [first.state, second.state]
    assert pytest.approx(2.9957, abs=1e-4) == first.value
    assert (0, 2) == (first.params["tile"], second.params["tile"])
    assert IntDistribution(0, 3) == second.distributions["tile"]
    assert (0, 1) == (first.params["threads is"], second.params["threads is"])
    assert CategoricalDistribution((0, 1)) == second.distributions["order is"]
    assert 2048 == second.params["bytes"]


@pytest.mark.parametrize("name", ["optuna:tpe", "optuna:cmaes"])
def test_a_sampler_learns_from_replayed_trials(name: str) -> None:
    """The time grows with all numbers: after some trials, smaller ones are suggested than a draw would."""
    numbers = SearchSpace([NumberParameter(f"n{index}", 0.0, 1.0, 0.9) for index in range(3)], {})
    designer, trials = make_designer(name, numbers, 1), [measured_trial(0, numbers.default(), [37.0])]
    for number in range(1, 41):
        designer.update(trials)
        config = designer.suggest().config
        trials.append(measured_trial(number, config, [10.0 * (1.0 + sum(map(float, config.values())))]))

    late = [sum(map(float, trial.config.values())) for trial in trials[-10:]]

    assert sum(late) / len(late) < 1.2  # of random configs it is 1.5


@pytest.mark.parametrize(("name", "wanted"), [("optuna:tpe", "[optuna]"), ("optuna:gp", "[optuna,torch]")])
def test_a_missing_package_is_named_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, name: str, wanted: str
) -> None:
    """A user that asks for a designer without its package learns at once how to get it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(ConfigError, match=f"{name} needs optuna.*pip install") as raised:
        make_designer(name, SPACE, 0)

    assert f"'ringtune{wanted}'" in str(raised.value)
