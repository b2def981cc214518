# SPDX-License-Identifier: Apache-2.0
"""A DDP model as a `LiveModel`: its settings are the sizes of its buckets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ringtune.identity.gradient_set import Signature
from ringtune.tuner import Config, SearchSpace
from ringtune.tuning.model.live_model import MemoryWatch, PendingSettings, RemovableHandle, Steps, Texts, Words
from ringtune.tuning.model.rounds import digest_of

from .buckets import BucketSizes, bucket_space
from .reduced_parameters import ReducedParameters
from .reducers import Rebuild, bucket_sizes, find_objection
from .steps import follow_steps

TARGET_NAME = "torch-ddp"
TEXTS = Texts(
    settings="buckets",
    tuner="the tuner of DDP's buckets",
    compared="the model's parameters, bucket sizes or DDP options",
)


@dataclass(frozen=True)
class DdpModel:
    """See `LiveModel`.

    Attributes:
        module: The model.
        accept_hook: See `find_objection`.
    """

    module: DistributedDataParallel
    accept_hook: bool = False

    @cached_property
    def reduced(self) -> ReducedParameters:
        """Parameters that the model reduces; raises `RuntimeError` if that cannot be found out."""
        return ReducedParameters.of(self.module)

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
        """Device of the parameters."""
        device: torch.device = self.module.device
        return device

    @property
    def group(self) -> dist.ProcessGroup:
        """Process group of all ranks that train the model."""
        return self.module.process_group

    @property
    def backend(self) -> str:
        """Backend that carries the gradients."""
        return dist.get_backend(self.group)

    @property
    def memory_limit_bytes(self) -> int | None:
        """None: buckets change the memory by little."""
        return None

    def memory_watch(self, limit_bytes: int | None, ranks_on_host: int) -> MemoryWatch | None:
        """Return None: buckets change the memory by little."""
        del limit_bytes, ranks_on_host
        return None

    def extra_bytes(self, words: Words) -> int:
        """Return 0: all gradients are in buckets, whatever their size."""
        del words
        return 0

    def objection(self) -> str | None:
        """Return the reason why the buckets cannot be changed, and the remedy; None where they can."""
        objection = find_objection(self.module, accept_hook=self.accept_hook)
        if objection is not None:
            return objection
        try:
            self.reduced  # noqa: B018  (found once, and kept)
        except RuntimeError as error:
            return f"{error}; call autotune() right after DistributedDataParallel()"
        return None

    def nothing_to_tune(self) -> str | None:
        """Return the reason why no bucket size can make a difference; None where one can."""
        if len(self.reduced.parameters) == 1:
            return "nothing to tune, for the model has one parameter and thus one bucket"
        return None

    def in_force(self) -> Words:
        """Return the sizes in force."""
        return bucket_sizes(self.module).words()

    def words_of(self, config: Config) -> Words:
        """Return the sizes that a config stands for."""
        return BucketSizes.from_config(config).words()

    def config_of(self, words: Words) -> Config:
        """Return the config that stands for sizes."""
        return BucketSizes(*words).to_config()

    def space(self, *, is_fixed: bool) -> SearchSpace:
        """Return the legal configs: the sizes in force alone if `is_fixed`."""
        return bucket_space(bucket_sizes(self.module), self.gradient_bytes(), is_fixed=is_fixed)

    def gradient_counts(self) -> Mapping[Signature, int]:
        """Return how many gradients of each (dtype, shape) are reduced in a step."""
        return self.reduced.counts()

    def gradient_bytes(self) -> int:
        """Return the bytes of all gradients that are reduced in a step."""
        return self.reduced.total_bytes()

    def digest(self, epoch: int, words: Words) -> int:
        """Return a hash of an epoch, sizes, and everything in the model that decides its buckets."""
        model = self.module
        shapes = [(str(p.dtype), list(p.shape), list(p.stride())) for p in self.reduced.parameters]
        flags = [model.find_unused_parameters, model.static_graph, model.gradient_as_bucket_view]
        flags += getattr(model, "bucket_bytes_cap_list", ())
        return digest_of([epoch, *words, shapes, flags])

    def prepared(self, words: Words) -> PendingSettings:
        """Build a reducer with other buckets beside the one in force.

        Raises:
            RuntimeError: If there is too little memory.
        """
        return Rebuild(self.module, self.reduced, BucketSizes(*words))

    def follow(self, steps: Steps) -> Sequence[RemovableHandle]:
        """Report steps from now on; return the handles that end it."""
        return follow_steps(self.module, self.reduced, steps)
