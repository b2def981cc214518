# SPDX-License-Identifier: Apache-2.0
"""Tests of the configs tried before a model can choose."""

from ringtune.tuner import Config, default_config, search_space
from ringtune.tuner.designers.gp import GaussianProcessDesigner
from ringtune.tuner.designers.initial_design import MOST_FILLING, filling_config, next_initial_config
from ringtune.tuner.space.parameter_types import BooleanParameter, CategoryParameter, NumberParameter
from ringtune.tuner.space.search_space import SearchSpace
from ringtune.tuner.testing import measured_trial, poor_baseline

SPACE = search_space({}, default_config(), tuned=("fusion_bytes", "cycle_ms", "hierarchical_allreduce", "chunk_bytes"))
SWITCHED_ON = default_config().replace({"hierarchical_allreduce": True})


def opening(space: SearchSpace, baseline: Config, *, is_informed: bool = False) -> list[Config]:
    """Return all moves, each from the first config that was tried."""
    tried = [baseline]
    while (move := next_initial_config(space, baseline, tried, is_informed=is_informed)) is not None:
        assert move not in tried
        assert space.contains(move)
        tried.append(move)
    return tried[1:]


def differences(config: Config, other: Config) -> dict[str, object]:
    """Return the values of `config` that differ from those of `other`."""
    return {name: value for name, value in config.items() if other[name] != value}


def test_switches_come_first_then_larger_numbers() -> None:
    """One change at a time; a number whose default is near the end of its range is left to the model."""
    moves = [differences(move, default_config()) for move in opening(SPACE, default_config())]

    assert [["hierarchical_allreduce"], ["cycle_ms"], ["chunk_bytes"]] == [list(move) for move in moves]
    assert moves[0]["hierarchical_allreduce"] is True
    assert float(str(moves[1]["cycle_ms"])) > 5.0
    assert int(str(moves[2]["chunk_bytes"])) > 1 << 20


def test_with_a_prior_only_switches_are_tried() -> None:
    """Switches tell a true prior from a false one; a prior predicts numbers better than a guess."""
    assert [SWITCHED_ON] == opening(SPACE, default_config(), is_informed=True)


def test_from_another_baseline_the_built_in_defaults_come_first() -> None:
    """The sensible centre."""
    assert default_config() == opening(SPACE, poor_baseline())[0]


def test_every_choice_of_a_category_is_tried_once() -> None:
    """None is an increase of another."""
    kinds = (CategoryParameter("algorithm", ("auto", "ring", "tree"), "auto"), BooleanParameter("fast", default=True))
    space = SearchSpace((*kinds, NumberParameter("depth", 1, 8, 8, step=1)), {})

    assert ["ring", "tree"] == [move["algorithm"] for move in opening(space, space.default())]


def test_what_was_tried_already_is_no_move() -> None:
    """A number close to the increased one counts as tried, whoever tried it."""
    tried = [default_config(), SWITCHED_ON.replace({"cycle_ms": 15.0})]

    move = next_initial_config(SPACE, tried[1], tried, is_informed=False)

    assert move is not None
    assert ["chunk_bytes"] == list(differences(move, tried[1]))


def test_the_designer_moves_from_the_best_so_far() -> None:
    """A switch that pays stays on while numbers are tried; one that does not is off again."""
    for step_ms, expected in ((20.0, True), (60.0, False)):
        designer = GaussianProcessDesigner(SPACE, 0)
        trials = [measured_trial(0, default_config(), [40.0] * 3), measured_trial(1, SWITCHED_ON, [step_ms])]

        designer.update(trials[:1])
        first = designer.suggest().config
        designer.update(trials)
        second = designer.suggest().config

        assert SWITCHED_ON == first
        assert expected is second["hierarchical_allreduce"]
        assert 1.0 != second["cycle_ms"]


def filled(space: SearchSpace, seed: int) -> list[Config]:
    """Return the configs that fill a space, after its default."""
    tried = [space.default()]
    while (config := filling_config(space, tried, seed)) is not None:
        tried.append(config)
    return tried[1:]


def test_where_trials_are_cheap_every_knob_varies_from_the_start() -> None:
    """A config more than knobs, each knob over all of its range; another seed gives others."""
    space = SearchSpace([NumberParameter(name, 0.0, 1.0, 0.5) for name in "abcd"], {})

    configs = filled(space, 0)

    assert 5 == len(configs)
    assert all([0, 1, 2, 3, 4] == sorted(int(5 * float(config[name])) for config in configs) for name in "abcd")
    assert configs != filled(space, 1)


def test_a_large_space_is_filled_within_a_small_budget() -> None:
    """A small space is not filled twice."""
    assert MOST_FILLING == len(filled(SearchSpace([NumberParameter(f"k{i}", 0.0, 1.0, 0.5) for i in range(30)], {}), 0))
    assert len(filled(SearchSpace([BooleanParameter("fast", default=True)], {}), 0)) <= 1


def test_cheap_trials_without_a_prior_fill_the_space() -> None:
    """A job that pays for a bad trial changes a thing at a time; so does a search with a prior that holds."""
    trials = [measured_trial(0, SPACE.default(), [40.0] * 3)]
    cheap, live = (GaussianProcessDesigner(SPACE, 0, are_trials_cheap=is_cheap) for is_cheap in (True, False))

    for designer in (cheap, live):
        designer.update(trials)

    assert filling_config(SPACE, [SPACE.default()], 0) == cheap.suggest().config
    assert SWITCHED_ON == live.suggest().config
