# SPDX-License-Identifier: Apache-2.0
"""A model under FSDP2 as a `LiveModel`: its settings are `FsdpSettings`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import distributed as dist

from ringtune.identity.gradient_set import Signature
from ringtune.tuner import Config, SearchSpace
from ringtune.tuning.model.live_model import MemoryWatch, PendingSettings, RemovableHandle, Steps, Texts, Words
from ringtune.tuning.model.rounds import digest_of

from .memory import memory_watch
from .passes import Passes
from .settings import FsdpSettings, fsdp_space
from .units import default_group, mesh_of, missing_attributes, whole_mesh

TARGET_NAME = "torch-fsdp2"
TEXTS = Texts(
    settings="FSDP settings",
    tuner="the tuner of FSDP's settings",
    compared="the model's parameters, its modules under fully_shard, their settings or their order",
)
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class FsdpModel:
    """See `LiveModel`.

    Attributes:
        module: The model.
        passes: Its forward passes.
        memory_limit_bytes: See `LiveModel`.
    """

    module: torch.nn.Module
    passes: Passes
    memory_limit_bytes: int | None = None

    @property
    def texts(self) -> Texts:
        """Names in messages."""
        return TEXTS

    @property
    def target_name(self) -> str:
        """Name of the target, part of a study's key."""
        return TARGET_NAME

    @property
    def device(self) -> torch.device:
        """Device of the parameters, while they are gathered."""
        return self.passes.device

    @property
    def group(self) -> dist.ProcessGroup:
        """Process group of all ranks that train the model."""
        mesh = mesh_of(self.passes.units)
        whole = whole_mesh(mesh)
        if whole.size() == dist.get_world_size():
            return default_group()
        group: dist.ProcessGroup = mesh.get_group()  # a mesh with several dimensions was refused by then
        return group

    @property
    def backend(self) -> str:
        """Backend that carries parameters and gradients."""
        return dist.get_backend(mesh_of(self.passes.units).get_group(-1))

    def memory_watch(self, limit_bytes: int | None, ranks_on_host: int) -> MemoryWatch | None:
        """Return the watch over this rank's memory; see `LiveModel`."""
        return memory_watch(self.device, limit_bytes, ranks_on_host)

    def extra_bytes(self, words: Words) -> int:
        """Return the most memory that settings need beyond the user's own, by the sizes of the parameters.

        Kept parameters stay from the forward pass to the backward pass; those that are gathered ahead are there beside
        them. The largest modules count, whichever they are.
        """
        settings = FsdpSettings(*words)
        sizes = sorted((unit.full_bytes for unit in self.passes.units), reverse=True)
        freed = sorted((unit.full_bytes for unit in self.passes.reshardable), reverse=True)
        ahead = max(settings.forward_prefetch, settings.backward_prefetch)
        return sum(freed[: settings.kept_modules]) + sum(sizes[:ahead])

    def objection(self) -> str | None:
        """Return the reason why the settings cannot be changed, and the remedy; None where they can."""
        missing = missing_attributes(self.passes.units)
        if missing:
            return f"FSDP2 of PyTorch {torch.__version__} has no {', '.join(missing)}; that of PyTorch 2.13 has"
        if self.device.type not in DEVICES:
            return f"its parameters are on {self.device.type}; memory is watched on {' and '.join(DEVICES)} alone"
        if not self.gradient_counts():
            return "no parameter has requires_grad: there are no gradients, and no steps"
        return None

    def nothing_to_tune(self) -> str | None:
        """Return the reason why no setting can make a difference; None where one can."""
        if len([unit for unit in self.passes.units if unit.groups]) > 1 or self.passes.reshardable:
            return None
        return "nothing to tune, for fully_shard was called on the whole model alone; call it on its layers first"

    def in_force(self) -> Words:
        """Return the settings in force."""
        return self.passes.settings.words()

    def words_of(self, config: Config) -> Words:
        """Return the settings that a config stands for."""
        return FsdpSettings.from_config(config).words()

    def config_of(self, words: Words) -> Config:
        """Return the config that stands for settings."""
        return FsdpSettings(*words).to_config()

    def space(self, *, is_fixed: bool) -> SearchSpace:
        """Return the legal configs: the settings in force alone if `is_fixed`."""
        prefetchable = len([unit for unit in self.passes.units if unit.groups]) - 1
        return fsdp_space(
            self.passes.settings,
            reshardable=len(self.passes.reshardable),
            prefetchable=prefetchable,
            is_fixed=is_fixed,
        )

    def gradient_counts(self) -> Mapping[Signature, int]:
        """Return how many gradients of each (dtype, whole shape) are reduced in a step."""
        return Counter((str(p.dtype).removeprefix("torch."), tuple(p.shape)) for p in self._trained())

    def gradient_bytes(self) -> int:
        """Return the bytes of all whole gradients that are reduced in a step."""
        return sum(parameter.numel() * parameter.element_size() for parameter in self._trained())

    def digest(self, epoch: int, words: Words) -> int:
        """Return a hash of an epoch, settings, and everything that decides which collectives a rank runs."""
        counts = sorted([dtype, list(shape), count] for (dtype, shape), count in self.gradient_counts().items())
        units = [(unit.full_bytes, len(unit.groups)) for unit in self.passes.units]
        freed = len(self.passes.reshardable)
        return digest_of([epoch, *words, counts, units, freed, self.passes.order])

    def prepared(self, words: Words) -> PendingSettings:
        """Bring other settings in force; the next forward pass is the first under them."""
        return _Switch(self.passes, FsdpSettings(*words))

    def follow(self, steps: Steps) -> Sequence[RemovableHandle]:
        """Report steps from now on; return the handle that ends it."""
        self.passes.steps = steps
        return (_Following(self.passes),)

    def _trained(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]


class _Switch:
    """A change of the settings; see `PendingSettings`."""

    def __init__(self, passes: Passes, settings: FsdpSettings) -> None:
        if not passes.is_ready:
            raise RuntimeError("no forward pass has shown the order of the model's modules")
        self._passes = passes
        self._before = passes.settings
        passes.change(settings)

    def commit(self) -> None:
        """Keep the new settings."""

    def discard(self) -> None:
        """Return to the old settings."""
        self._passes.change(self._before)


class _Following:
    """Ends the report of steps; the settings in force stay, and so do the hooks that they need."""

    def __init__(self, passes: Passes) -> None:
        self._passes = passes

    def remove(self) -> None:
        """End it."""
        self._passes.steps = None
