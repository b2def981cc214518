# SPDX-License-Identifier: Apache-2.0
"""Protocols of a model that is tuned while it trains, of a change of its settings, and of the watch over its memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from torch import distributed as dist

from ringtune.identity.gradient_set import Signature
from ringtune.tuner import Config, SearchSpace

Words: TypeAlias = tuple[int, ...]
"""Settings of a model as numbers, none below 0, in the form that ranks exchange."""
NO_LIMIT = 2**62
"""Room of a model without a memory limit, bytes."""


@dataclass(frozen=True)
class Texts:
    """Names of a kind of model in messages.

    Attributes:
        settings: The settings that are tuned, such as "buckets".
        tuner: The tuner, such as "the tuner of DDP's buckets".
        compared: The things that must be equal on all ranks.
    """

    settings: str
    tuner: str
    compared: str


class PendingSettings(Protocol):
    """Other settings, made ready but not final: `commit` or `discard` follows."""

    def commit(self) -> None:
        """Keep the new settings."""

    def discard(self) -> None:
        """Return to the old settings."""


class Steps(Protocol):
    """Receiver of a model's steps on one rank."""

    @property
    def is_following(self) -> bool:
        """True until this rank has no more part in tuning."""

    def end_step(self) -> None:
        """Note the end of a step, between two forward passes.

        Raises:
            MismatchError: If the ranks are not where they should be.
        """

    def part(self, reason: str) -> None:
        """Leave tuning, on this rank alone, for a reason that is shown."""


class MemoryWatch(Protocol):
    """Watch over the memory of one rank. Used from the thread that trains."""

    @property
    def limit_bytes(self) -> int:
        """Limit of this rank's memory."""

    def room_bytes(self) -> int:
        """Return the limit less the peak since the last `reset`; below 0 where the peak was above the limit."""

    def reset(self) -> None:
        """Forget the peak so far."""


class RemovableHandle(Protocol):
    """Undoes a registration, such as `torch.utils.hooks.RemovableHandle`."""

    def remove(self) -> None:
        """End it."""


class LiveModel(Protocol):
    """A model whose settings can be switched between two steps. Used from the thread that trains."""

    @property
    def texts(self) -> Texts:
        """Names in messages."""

    @property
    def target_name(self) -> str:
        """Name of the target, part of a study's key."""

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""

    @property
    def group(self) -> dist.ProcessGroup:
        """Process group of all ranks that train the model."""

    @property
    def backend(self) -> str:
        """Backend that carries the model's data, such as `gloo` or `nccl`."""

    @property
    def memory_limit_bytes(self) -> int | None:
        """Limit of this rank's memory, as the user set it; None without one."""

    def memory_watch(self, limit_bytes: int | None, ranks_on_host: int) -> MemoryWatch | None:
        """Return a watch over this rank's memory; None for a model whose settings change its memory by little.

        Args:
            limit_bytes: Limit that the user set; None takes one that the device allows.
            ranks_on_host: Number of ranks on this host.
        """

    def extra_bytes(self, words: Words) -> int:
        """Return the most memory that settings need beyond that of the settings that training began with."""

    def objection(self) -> str | None:
        """Return the reason why the settings cannot be changed, and the remedy; None where they can."""

    def nothing_to_tune(self) -> str | None:
        """Return the reason why no setting can make a difference; None where one can."""

    def in_force(self) -> Words:
        """Return the settings in force."""

    def words_of(self, config: Config) -> Words:
        """Return the settings that a config stands for."""

    def config_of(self, words: Words) -> Config:
        """Return the config that stands for settings."""

    def space(self, *, is_fixed: bool) -> SearchSpace:
        """Return the legal configs: the settings in force alone if `is_fixed`."""

    def gradient_counts(self) -> Mapping[Signature, int]:
        """Return how many gradients of each (dtype, shape) are reduced in a step."""

    def gradient_bytes(self) -> int:
        """Return the bytes of all gradients that are reduced in a step."""

    def digest(self, epoch: int, words: Words) -> int:
        """Return a hash, below 2^62, of an epoch, settings, and all that must be equal on the ranks."""

    def prepared(self, words: Words) -> PendingSettings:
        """Make other settings ready, on this rank alone.

        Raises:
            Exception: If that is impossible; the settings are as they were.
        """

    def follow(self, steps: Steps) -> Sequence[RemovableHandle]:
        """Report steps from now on; return the handles that end it."""
