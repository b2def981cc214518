# SPDX-License-Identifier: Apache-2.0
"""Settings of FSDP2 that can be switched between two steps, as the tuner's config, and the search space."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass

from ringtune.tuner import Config, NumberParameter, SearchSpace, Value

KEPT = "kept_modules"
FORWARD = "forward_prefetch"
BACKWARD = "backward_prefetch"
AS_SET = "as_set"
"""Value of a prefetch depth that leaves the model's own prefetching alone."""
MOST_PREFETCH = 4
"""Largest prefetch depth, in modules: each holds one module's parameters more, and hides the wait for one more."""


@dataclass(frozen=True)
class FsdpSettings:
    """Settings of a model; the defaults are those that the user made.

    Attributes:
        kept_modules: Number of modules, the last ones of the forward pass, whose `reshard_after_forward` is off beside
            those for which the user has turned it off.
        forward_prefetch: Number of modules that are gathered ahead in the forward pass; 0 is the model's own way.
        backward_prefetch: The same in the backward pass.
    """

    kept_modules: int = 0
    forward_prefetch: int = 0
    backward_prefetch: int = 0

    @classmethod
    def from_config(cls, config: Mapping[str, Value]) -> "FsdpSettings":
        """Return the settings that a config stands for."""
        depths = [0 if config[name] == AS_SET else int(config[name]) for name in (FORWARD, BACKWARD)]
        return cls(int(config[KEPT]), *depths)

    def to_config(self) -> Config:
        """Return the config that stands for these settings."""
        return Config({
            KEPT: self.kept_modules,
            FORWARD: self.forward_prefetch or AS_SET,
            BACKWARD: self.backward_prefetch or AS_SET,
        })  # fmt: skip

    def words(self) -> tuple[int, ...]:
        """Return the settings as numbers."""
        return astuple(self)


def fsdp_space(baseline: FsdpSettings, *, reshardable: int, prefetchable: int, is_fixed: bool) -> SearchSpace:
    """Return the space to search.

    Args:
        baseline: Always legal.
        reshardable: Number of modules that reshard after the forward pass, as the user set them.
        prefetchable: Number of modules that can be gathered ahead of others.
        is_fixed: Whether the baseline is the only legal config.
    """
    deepest = max(min(MOST_PREFETCH, prefetchable), baseline.forward_prefetch, baseline.backward_prefetch, 2)
    config = baseline.to_config()
    parameters = (
        NumberParameter(KEPT, 0, max(reshardable, 1), config[KEPT], step=1),
        NumberParameter(FORWARD, 1, deepest, config[FORWARD], step=1, special=(AS_SET,)),
        NumberParameter(BACKWARD, 1, deepest, config[BACKWARD], step=1, special=(AS_SET,)),
    )
    without_effect = {} if reshardable else {KEPT: config[KEPT]}
    return SearchSpace(parameters, config if is_fixed else without_effect)
