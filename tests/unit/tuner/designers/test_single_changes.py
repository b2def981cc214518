# SPDX-License-Identifier: Apache-2.0
"""Single changes of the best config: which knobs count as varied, and the switch that a model blames."""

import pytest

from ringtune.tuner import Config, SearchSpace, make_designer
from ringtune.tuner.designers.single_changes import single_changes
from ringtune.tuner.space.parameter_types import BooleanParameter, CategoryParameter, NumberParameter
from ringtune.tuner.testing import measured_trial

SPACE = SearchSpace(
    [
        BooleanParameter("cache", default=False),
        CategoryParameter("tile", ("1", "2", "4"), "1"),
        NumberParameter("bytes", 1, 11, 1, step=1),
    ],
    {},
)
BEST = Config({"cache": False, "tile": "2", "bytes": 11})


def test_every_far_value_of_a_knob_that_never_varied_near_the_best_config_is_a_change() -> None:
    """Configs that are far in three knobs are no evidence about one; those that are far in two are, for both."""
    distant = Config({"cache": True, "tile": "4", "bytes": 1})
    near = Config({"cache": False, "tile": "1", "bytes": 6})

    assert [BEST.replace({"cache": True})] == single_changes(SPACE, BEST, {BEST, near})
    assert {
        BEST.replace({"cache": True}),
        BEST.replace({"tile": "1"}),
        BEST.replace({"tile": "4"}),
        *(BEST.replace({"bytes": number}) for number in range(1, 9)),
    } == set(single_changes(SPACE, BEST, {BEST, distant, BEST.replace({"bytes": 10})}))


def test_fixed_knobs_do_not_change() -> None:
    """A knob that the user has set is none of the search's."""
    space = SearchSpace([*SPACE.free], {"tile": "2", "bytes": 11})

    assert [BEST.replace({"cache": True})] == single_changes(space, BEST, {BEST})


@pytest.mark.parametrize("seed", range(3))
def test_a_switch_that_helps_beside_good_values_alone_is_turned_on(seed: int) -> None:
    """Beside other values it costs a multiple, which a model of few samples takes for its effect everywhere."""
    numbers = tuple(str(2**place) for place in range(8))
    knobs = [CategoryParameter(f"knob_{number}", numbers, numbers[-1]) for number in range(5)]
    space = SearchSpace([BooleanParameter("switch", default=False), *knobs], {})

    def step_ms(config: Config) -> float:
        distance = sum(numbers.index(str(config[knob.name])) for knob in knobs)
        factor = (0.7 if distance < 6 else 4.0) if config["switch"] else 1.0
        return 10.0 * 1.1**distance * factor

    designer = make_designer("gp", space, seed, are_trials_cheap=True)
    trials = [measured_trial(0, space.default(), [step_ms(space.default())] * 3)]
    while len(trials) < 50:
        designer.update(trials)
        config = designer.suggest().config
        again = next((place for place, trial in enumerate(trials) if trial.config == config), None)
        if again is None:
            trials.append(measured_trial(len(trials), config, [step_ms(config)]))
        else:
            times = [step_ms(config)] * (len(trials[again].samples) + 1)
            trials[again] = measured_trial(again, config, times)

    assert min(trials, key=lambda trial: step_ms(trial.config)).config["switch"]
