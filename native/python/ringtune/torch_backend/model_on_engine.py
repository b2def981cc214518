# SPDX-License-Identifier: Apache-2.0
"""A model and the engine under it as one `LiveModel`: its own settings and the engine's knobs are one search space."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import distributed as dist

from ringtune import _engine
from ringtune.identity.gradient_set import Signature
from ringtune.tuner import Config, SearchSpace
from ringtune.tuner.space.parameter_types import CategoryParameter
from ringtune.tuner.space.parameters import engine_parameters
from ringtune.tuning.engine.ddp_buckets import DdpBuckets
from ringtune.tuning.engine.job import engine_space
from ringtune.tuning.model.live_model import (
    LiveModel,
    MemoryWatch,
    PendingSettings,
    RemovableHandle,
    Steps,
    Texts,
    Words,
)
from ringtune.tuning.model.rounds import digest_of
from ringtune.world.engine_config import engine_config, tuner_config
from ringtune.world.world import World

TARGET_NAME = "torch"
_KNOBS = len(_engine.KNOBS)
_CHOICES = {
    p.name: p.choices for p in engine_parameters(_engine.allreduce_algorithms()) if isinstance(p, CategoryParameter)
}


@dataclass(frozen=True)
class ModelOnEngine:
    """See `LiveModel`. The engine's knobs come first among the words; rank 0 switches them, for all ranks at once.

    Attributes:
        model: The model's own settings.
        world: World of the model's process group.
    """

    model: LiveModel
    world: World

    @property
    def texts(self) -> Texts:
        """Names in messages."""
        own = self.model.texts
        return Texts(f"{own.settings} and knobs of the engine", f"{own.tuner} and of the engine", own.compared)

    @property
    def target_name(self) -> str:
        """Name of the target, part of a study's key."""
        return TARGET_NAME

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return self.model.device

    @property
    def group(self) -> dist.ProcessGroup:
        """Process group of all ranks that train the model."""
        return self.model.group

    @property
    def backend(self) -> str:
        """Transport that carries the data."""
        return self.world.carrier

    @property
    def memory_limit_bytes(self) -> int | None:
        """Limit of this rank's memory, as the user set it; None without one."""
        return self.model.memory_limit_bytes

    def memory_watch(self, limit_bytes: int | None, ranks_on_host: int) -> MemoryWatch | None:
        """Return the model's watch over this rank's memory."""
        return self.model.memory_watch(limit_bytes, ranks_on_host)

    def extra_bytes(self, words: Words) -> int:
        """Return the most memory that settings need beyond that of the first ones: the engine's need none."""
        return self.model.extra_bytes(words[_KNOBS:])

    def objection(self) -> str | None:
        """Return the reason why the model's settings cannot be changed; None where they can."""
        return self.model.objection()

    def nothing_to_tune(self) -> str | None:
        """Return the reason why no setting of the model can make a difference; None where one can."""
        return self.model.nothing_to_tune()

    def in_force(self) -> Words:
        """Return the settings that training begins with."""
        return *_words_of(self.world.settings.baseline), *self.model.in_force()

    def words_of(self, config: Config) -> Words:
        """Return the settings that a config stands for."""
        return *_words_of(config), *self.model.words_of(config)

    def config_of(self, words: Words) -> Config:
        """Return the config that stands for settings."""
        return Config({**_config_of(words[:_KNOBS]), **self.model.config_of(words[_KNOBS:])})

    def space(self, *, is_fixed: bool) -> SearchSpace:
        """Return the legal configs."""
        own, engine = self.model.space(is_fixed=is_fixed), engine_space(self.world, DdpBuckets(()))
        return SearchSpace((*engine.parameters, *own.parameters), {**engine.fixed, **own.fixed})

    def gradient_counts(self) -> Mapping[Signature, int]:
        """Return how many gradients of each (dtype, shape) are reduced in a step."""
        return self.model.gradient_counts()

    def gradient_bytes(self) -> int:
        """Return the bytes of all gradients that are reduced in a step."""
        return self.model.gradient_bytes()

    def digest(self, epoch: int, words: Words) -> int:
        """Return a hash of an epoch, settings, and all that must be equal on the ranks."""
        return digest_of([*words[:_KNOBS], self.model.digest(epoch, words[_KNOBS:])])

    def prepared(self, words: Words) -> PendingSettings:
        """Make other settings ready, on this rank alone; those of the model that stay are left alone."""
        own = words[_KNOBS:]
        return _Change(self.world, words[:_KNOBS], None if own == self.model.in_force() else self.model.prepared(own))

    def follow(self, steps: Steps) -> Sequence[RemovableHandle]:
        """Report steps from now on; return the handles that end it."""
        return self.model.follow(steps)


@dataclass(frozen=True)
class _Change:
    """See `PendingSettings`."""

    world: World
    knobs: Words
    change: PendingSettings | None

    def commit(self) -> None:
        """Keep the new settings; the engine's reach all ranks with their next messages."""
        if self.change is not None:
            self.change.commit()
        if self.world.rank == 0:
            config = engine_config(_config_of(self.knobs))
            if config != self.world.engine.config():
                self.world.engine.apply_config(config)

    def discard(self) -> None:
        """Return to the old settings."""
        if self.change is not None:
            self.change.discard()


def _words_of(config: Mapping[str, bool | float | str]) -> Words:
    native = engine_config(config)
    return tuple(_word(knob, getattr(native, knob.name)) for knob in _engine.KNOBS)


def _config_of(words: Words) -> Config:
    values = {knob.name: _value(knob, word) for knob, word in zip(_engine.KNOBS, words, strict=True)}
    return tuner_config(_engine.EngineConfig(**values))


def _word(knob: _engine.Knob, value: bool | float | str) -> int:
    """Return a knob's value as a number: a name by its place, a fraction by the bits of its double."""
    if isinstance(value, str):
        return _CHOICES[knob.name].index(value)
    if isinstance(value, float):
        return int(struct.unpack("<q", struct.pack("<d", value))[0])
    return int(value)


def _value(knob: _engine.Knob, word: int) -> bool | float | str:
    if isinstance(knob.default, str):
        return _CHOICES[knob.name][word]
    if isinstance(knob.default, float):
        return float(struct.unpack("<d", struct.pack("<q", word))[0])
    return type(knob.default)(word)
