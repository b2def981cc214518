# SPDX-License-Identifier: Apache-2.0
"""Handlers of torch's objects in a state: modules, optimizers, samplers, schedulers, scalers."""

# ruff: noqa: SLF001  (a scaler has no public way to forget a step that was interrupted)

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ringtune.arrays import Max, allgather_object, allreduce
from ringtune.elastic.handlers import StateHandler, ValueHandler
from ringtune.errors import ConfigError
from ringtune.torch.codec import encode

from .sampler import ElasticSampler
from .snapshots import snapshot


def handler_of(name: str, value: Any) -> StateHandler:
    """Return the handler for a value of a state.

    Args:
        name: Name of the value.
        value: A module, an optimizer, an `ElasticSampler`, anything else with `state_dict` and `load_state_dict`, or
            plain data.

    Raises:
        ConfigError: If the value cannot be sent to other ranks.
    """
    if isinstance(value, torch.nn.parallel.DistributedDataParallel):
        raise ConfigError(
            f"the value {name!r} of the state is a DistributedDataParallel, whose process group does not survive a "
            "lost rank; give the plain module, and combine gradients by ringtune's DistributedOptimizer"
        )
    if isinstance(value, ElasticSampler):
        return SamplerHandler()
    if isinstance(value, torch.optim.Optimizer):
        return OptimizerHandler()
    if isinstance(value, torch.amp.GradScaler):
        return ScalerHandler()
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return StateDictHandler()
    return TorchValueHandler(name, value)


class TorchValueHandler(ValueHandler):
    """Handler of plain data with tensors."""

    def check(self, value: Any) -> None:
        """Raise `ConfigError` if the value is no plain data."""
        encode(value)

    def save(self, value: Any) -> None:
        """See `StateHandler`."""
        self._saved = snapshot(value)

    def restore(self, value: Any) -> Any:
        """See `StateHandler`."""
        del value
        return snapshot(self._saved)


class StateDictHandler(StateHandler):
    """Handler of an object with `state_dict` and `load_state_dict`, such as a module or a scheduler."""

    def __init__(self) -> None:
        self._saved: Any = None

    def save(self, value: Any) -> None:
        """See `StateHandler`."""
        self._saved = snapshot(value.state_dict(), self._saved)

    def restore(self, value: Any) -> Any:
        """See `StateHandler`."""
        return self.load(value, snapshot(self._saved))

    def live(self, value: Any) -> Any:
        """See `StateHandler`."""
        return value.state_dict()

    def load(self, value: Any, state: Any) -> Any:
        """See `StateHandler`."""
        value.load_state_dict(state)
        return value


class OptimizerHandler(StateDictHandler):
    """Handler of an optimizer. Gradients belong to a world: they end with it."""

    def restore(self, value: Any) -> Any:
        """See `StateHandler`."""
        super().restore(value)
        drop_gradients(value)
        return value

    def synced(self, value: Any, name: str, *, is_current: bool) -> None:
        """Drop the gradients of the world before."""
        del name, is_current
        drop_gradients(value)


class ScalerHandler(StateDictHandler):
    """Handler of a `GradScaler`."""

    def load(self, value: Any, state: Any) -> Any:
        """See `StateHandler`."""
        if not value.is_enabled():
            return value
        value.load_state_dict(state)
        if value._scale is not None:
            value.update(value.get_scale())  # forgets what was unscaled or stepped before the loss
        return value


class SamplerHandler(StateHandler):
    """Handler of an `ElasticSampler`."""

    def __init__(self) -> None:
        self._saved: tuple[int, Any] = (0, None)

    def save(self, value: ElasticSampler) -> None:
        """See `StateHandler`."""
        self._saved = (value.epoch, value.mask().copy())

    def restore(self, value: ElasticSampler) -> Any:
        """See `StateHandler`."""
        epoch, processed = self._saved
        value.take(epoch, processed.copy())
        return value

    def live(self, value: ElasticSampler) -> Any:
        """See `StateHandler`."""
        return {"epoch": value.epoch, "length": len(value.mask())}

    def load(self, value: ElasticSampler, state: Any) -> Any:
        """Take the epoch; `synced` joins the processed indices."""
        value.epoch = state["epoch"]
        value.check_length(state["length"])
        return value

    def synced(self, value: ElasticSampler, name: str, *, is_current: bool) -> None:
        """Join the indices that ranks with the newest state have processed, and share out the rest."""
        own = value.mask() if is_current else np.zeros(len(value.mask()), np.bool_)
        value.take(value.epoch, allreduce(own, op=Max, name=f"{name}.processed"))

    def counters(self, name: str, value: ElasticSampler) -> Mapping[str, int]:
        """See `StateHandler`."""
        return {f"{name}.epoch": value.epoch, f"{name}.processed": int(value.mask().sum())}

    def words(self, value: ElasticSampler) -> Sequence[int]:
        """See `StateHandler`."""
        return value.progress()

    def heed(self, value: ElasticSampler, words: Sequence[Sequence[int]], name: str) -> None:
        """See `StateHandler`."""
        others: list[int] = []
        if any(count for _, _, count in words):
            gathered = allgather_object(np.array(value.take_others(), np.int64), f"{name}.others")
            others = np.concatenate(gathered).tolist()
        value.heed(words, others)


def drop_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Let every parameter of an optimizer be without a gradient."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None
