# SPDX-License-Identifier: Apache-2.0
"""The engine's table of knobs, beside the tuner's parameters and the translation between both."""

import json

import pytest

from ringtune import _engine
from ringtune.errors import ConfigError
from ringtune.service.domain.submission import LegalConfigs
from ringtune.settings.settings import Settings
from ringtune.tuner import ENGINE_PARAMETERS, Config, SearchSpace, default_config
from ringtune.tuner.space.parameter_types import NumberParameter, SpaceError
from ringtune.tuner.space.parameters import engine_parameters, search_space
from ringtune.tuning.command.engines.registry import engine_names, find_engine
from ringtune.tuning.service_link.first_config import legal_config
from ringtune.world.engine_config import engine_config, tuner_config

KNOBS = {knob.name: knob for knob in _engine.KNOBS}


def test_every_knob_is_a_parameter_with_the_same_default() -> None:
    """A knob that only the engine or only the tuner knows, or that begins elsewhere there, is an error."""
    defaults = tuner_config(_engine.EngineConfig(**{knob.name: knob.default for knob in _engine.KNOBS}))

    assert default_config().to_json() == defaults.to_json()


def test_numbers_have_the_same_bounds_in_the_engine_and_the_tuner() -> None:
    """Engine and tuner have equal ranges: no trial is refused, and no legal value is out of reach."""
    numbers = [parameter for parameter in ENGINE_PARAMETERS if isinstance(parameter, NumberParameter)]

    assert {p.name: (p.low, p.high, p.special) for p in numbers} == {
        knob.name: (knob.low, knob.high, () if knob.special is None else (knob.special,))
        for knob in _engine.KNOBS
        if knob.low is not None
    }


@pytest.mark.parametrize("quantile", [0.0, 0.14, 0.3, 0.6, 0.99])
def test_a_config_survives_the_way_to_the_engine_and_back(quantile: float) -> None:
    """Special values, numbers, switches and names arrive unchanged."""
    parameters = engine_parameters(_engine.allreduce_algorithms())
    config = {parameter.name: parameter.at_quantile(quantile) for parameter in parameters}

    assert config == tuner_config(engine_config(config)).to_json()


@pytest.mark.parametrize("parameter", [p for p in ENGINE_PARAMETERS if isinstance(p, NumberParameter) and p.step])
def test_a_whole_number_beside_the_searchs_steps_is_legal(parameter: NumberParameter) -> None:
    """The step is the search's resolution: at every door any whole number of the range is legal, and no fraction.

    The doors: settings, the baseline's variable, the engine, an offer of the service, the service, a log or a cache.
    """
    variable, beside = f"RINGTUNE_{parameter.name.upper()}", int(parameter.low) + 1
    settings = Settings.from_environment({variable: str(beside)})
    config = tuner_config(engine_config({**default_config(), **settings.fixed}))

    assert beside == parameter.check(beside) == settings.fixed[parameter.name] == config[parameter.name]
    assert (
        beside
        == Settings.from_environment({"AUTOTUNE_BASELINE": f"{parameter.name}={beside}"}).baseline[parameter.name]
    )
    assert beside == legal_config(config, SearchSpace(ENGINE_PARAMETERS, {}))[parameter.name]
    assert f'"{parameter.name}":{beside}' in LegalConfigs.of_engine().written(config)[0]
    assert SearchSpace(ENGINE_PARAMETERS, {}).contains(Config(json.loads(json.dumps(config.to_json()))))
    with pytest.raises(ConfigError, match="fusion_bytes|chunk_bytes|RINGTUNE_"):
        Settings.from_environment({variable: str(beside + 0.5)})
    with pytest.raises(SpaceError):
        parameter.check(beside + 0.5)


@pytest.mark.parametrize("target", engine_names())
def test_a_whole_number_beside_the_steps_is_legal_for_other_engines(target: str) -> None:
    """`ringtune tune` accepts any whole number in their knobs' ranges, as it does for the engine."""
    numbers = [knob.parameter for knob in find_engine(target).knobs if isinstance(knob.parameter, NumberParameter)]

    for parameter in (number for number in numbers if number.step and number.high > number.low + 1):
        beside = int(parameter.low) + 1
        assert beside == find_engine(target).legal(Config({parameter.name: beside}))[parameter.name]


def test_the_engine_wants_every_knob_and_no_other() -> None:
    """A misspelt or missing knob is an error of the caller."""
    defaults = {knob.name: knob.default for knob in _engine.KNOBS}

    with pytest.raises(TypeError):
        _engine.EngineConfig(fusion_bytes=0)
    with pytest.raises(TypeError):
        _engine.EngineConfig(**defaults, fusion_byte=0)


@pytest.mark.parametrize("name", sorted(KNOBS))
def test_every_row_has_a_sentence_for_people(name: str) -> None:
    """Metrics show it as their help."""
    assert KNOBS[name].description.endswith(".")


def test_an_offer_that_rounds_is_exact_in_a_job_that_does_not_allow_it() -> None:
    """The service may recommend a config that a job with rounding has adopted."""
    offered = default_config().replace({"wire": "bf16", "cycle_ms": 5.0})
    spaces = [search_space({}, default_config(), tuned=("cycle_ms", *allowed)) for allowed in ((), ("wire",))]

    taken = [legal_config(offered, space) for space in spaces]

    assert [("exact", 5.0), ("bf16", 5.0)] == [(config["wire"], config["cycle_ms"]) for config in taken]
