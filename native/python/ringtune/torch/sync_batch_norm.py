# SPDX-License-Identifier: Apache-2.0
"""Batch normalization whose statistics are those of all ranks' batches together."""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import Sum, world_of

from .allgather import allgather
from .allreduce import allreduce
from .untraced import untraced


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):  # noqa: SLF001  (the base of torch's three)
    """Stands for `torch.nn.BatchNorm1d`, `2d` and `3d`, with statistics over the ranks while training.

    Forward and backward give the result of a single process with the whole batch, up to rounding. Ranks may have
    batches of different sizes; layers must run in one order on all ranks. In evaluation no rank needs another, with
    running statistics or without. Arguments are those of torch's, and `process_set`, over which statistics are taken.
    """

    def __init__(  # noqa: PLR0917  (torch's signature)
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,  # noqa: FBT002  (torch's signature)
        track_running_stats: bool = True,  # noqa: FBT002  (torch's signature)
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self._part = None if process_set is global_process_set else process_set  # so that a saved model has no engine

    @untraced
    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002  (torch's name)
        """Normalize a batch of shape (rows, channels, ...).

        Raises:
            ConfigError: If it has less than two dimensions or another number of channels.
            EngineError: If the world is lost.
        """
        if input.dim() < 2 or input.shape[1] != self.num_features:
            raise ConfigError(
                f"SyncBatchNorm({self.num_features}) got a batch of shape {tuple(input.shape)}; it needs (rows, "
                f"{self.num_features}, ...)"
            )
        process_set = self._part or global_process_set
        if not self.training or world_of(process_set).size == 1:
            return super().forward(input)
        mean, variance, count = _joint_statistics(input, process_set)
        self._follow(mean, variance * (count / (count - 1.0).clamp(min=1.0)))
        # Last, as in torch's layers: a checkpoint's second forward pass may end once the node has saved its tensors.
        node: Any = _Normalize  # torch leaves `apply` without annotations
        output: torch.Tensor = node.apply(input, self.weight, self.bias, mean, variance, count, self.eps, process_set)
        return output

    @torch.no_grad()
    def _follow(self, mean: torch.Tensor, unbiased_variance: torch.Tensor) -> None:
        """Take a batch into the running statistics, if there are any."""
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        factor = 0.0 if self.momentum is None else self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
        self.running_var.lerp_(unbiased_variance.to(self.running_var.dtype), factor)

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002  (torch's name)
        """Accept any batch: `forward` has checked it."""


class _Normalize(torch.autograd.Function):
    """Normalizes with the mean and variance of all ranks' elements of each channel; both are float64."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        values, weight, bias, mean, variance, count, eps, process_set = arguments
        inverse_std = torch.rsqrt(variance + eps)
        shape = (1, -1, *[1] * (values.dim() - 2))
        precise = _precise(values)
        normalized = (precise - mean.to(precise.dtype).view(shape)) * inverse_std.to(precise.dtype).view(shape)
        result = normalized if weight is None else normalized * weight.view(shape)
        result = result if bias is None else result + bias.view(shape)
        output: torch.Tensor = result.to(values.dtype)
        ctx.save_for_backward(normalized, weight, inverse_std, count)
        ctx.process_set = process_set
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        normalized, weight, inverse_std, count = ctx.saved_tensors
        over = [dimension for dimension in range(gradient.dim()) if dimension != 1]
        shape = (1, -1, *[1] * (gradient.dim() - 2))
        precise = gradient.to(normalized.dtype)
        sums = torch.stack(
            [precise.sum(over, dtype=torch.float64), (precise * normalized).sum(over, dtype=torch.float64)]
        )
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        gradient_input = None
        if needs_input:
            joint = allreduce(sums, op=Sum, process_set=ctx.process_set) / count
            mean, mean_of_product = (part.to(precise.dtype).view(shape) for part in joint)
            scale = inverse_std.to(precise.dtype) if weight is None else inverse_std.to(precise.dtype) * weight
            gradient_input = ((precise - mean - normalized * mean_of_product) * scale.view(shape)).to(gradient.dtype)
        own = sums.to(gradient.dtype if weight is None else weight.dtype)
        return gradient_input, own[1] if needs_weight else None, own[0] if needs_bias else None, *[None] * 5


def _precise(values: torch.Tensor) -> torch.Tensor:
    """Return 16-bit floats as float32, others as they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _joint_statistics(values: torch.Tensor, process_set: ProcessSet) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return mean and biased variance of each channel over all ranks, and the number of elements, in float64.

    Ranks' means and variances are joined as by Chan, Golub, LeVeque (1983): sums of squares would cancel.
    """
    over = [dimension for dimension in range(values.dim()) if dimension != 1]
    channels, elements = values.shape[1], values.numel() // values.shape[1]
    own = torch.zeros(1, 2 * channels + 1, dtype=torch.float64, device=values.device)
    if elements:
        variance, mean = torch.var_mean(_precise(values.detach()), over, correction=0)
        own[0, :channels], own[0, channels:-1], own[0, -1] = mean, variance, elements
    gathered = allgather(own, process_set=process_set)
    means, variances, counts = gathered[:, :channels], gathered[:, channels:-1], gathered[:, -1:]
    count = counts.sum()
    if count == 0:
        raise ConfigError("SyncBatchNorm got no element on any rank; a batch must not be empty everywhere")
    mean = (means * counts).sum(0) / count
    variance = ((variances + (means - mean) ** 2) * counts).sum(0) / count
    return mean, variance, count
