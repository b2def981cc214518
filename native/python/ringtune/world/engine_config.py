# SPDX-License-Identifier: Apache-2.0
"""Translation of configs between the tuner and the engine, for every row of the engine's table of knobs."""

from collections.abc import Mapping

from ringtune import _engine
from ringtune.tuner.space.config import Config, Value


def engine_config(config: Mapping[str, Value]) -> _engine.EngineConfig:
    """Return the tuner's config as the engine's; a special value such as `auto` is 0 there.

    Raises:
        KeyError: If the config lacks a knob.
    """
    return _engine.EngineConfig(**{knob.name: _native_value(knob, config[knob.name]) for knob in _engine.KNOBS})


def tuner_config(config: _engine.EngineConfig) -> Config:
    """Return the engine's config as the tuner's: the inverse of `engine_config`."""
    return Config({knob.name: _tuner_value(knob, getattr(config, knob.name)) for knob in _engine.KNOBS})


def _native_value(knob: _engine.Knob, value: Value) -> Value:
    return 0 if value == knob.special else type(knob.default)(value)


def _tuner_value(knob: _engine.Knob, value: Value) -> Value:
    return value if knob.special is None or value != 0 else knob.special
