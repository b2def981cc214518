# SPDX-License-Identifier: Apache-2.0
"""`DistributedOptimizer` in the DDP arm: the same optimizer, with its gradients reduced by DDP's own reducer.

A DDP model without computation holds the optimizer's parameters. Its forward pass arms DDP's hooks on them; the
script's own backward pass then fills DDP's buckets, which are reduced while it goes on. So gradients are averaged when
`backward()` returns, as under DDP.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd
from ringtune.torch import optimizer as ringtune_optimizer
from ringtune.torch.wrapped_optimizer import WrappedOptimizer, counted_by_schedulers, wrapped

from .ddp_models import ParameterHolder
from .messages import Arm
from .script_facts import Refusal, ScriptFacts

HOOKS: dict[Any, Any] = {
    hvd.Compression.fp16: default_hooks.fp16_compress_hook,
    hvd.Compression.bf16: default_hooks.bf16_compress_hook,
}
"""DDP's counterparts of the compressors."""


class DistributedOptimizers:
    """The optimizers that a script gives to `DistributedOptimizer`."""

    def __init__(self, arm: Arm, facts: ScriptFacts, refusal: Refusal) -> None:
        """Prepare.

        Args:
            arm: Engine that reduces gradients.
            facts: Collects the facts of the script.
            refusal: Ends a script that cannot be compared.
        """
        self._arm = arm
        self._facts = facts
        self._refusal = refusal
        self._construct = hvd.DistributedOptimizer

    def install(self) -> None:
        """Take the place of `ringtune.torch.DistributedOptimizer`."""
        untyped: Any = hvd
        untyped.DistributedOptimizer = self.distribute
        also: Any = ringtune_optimizer
        also.DistributedOptimizer = self.distribute

    def distribute(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        """See `ringtune.torch.DistributedOptimizer`."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._facts.optimizers += 1
        self._facts.note_parameters(parameters)
        if self._arm == "ringtune":
            return self._construct(optimizer, *args, **kwargs)
        names = ("named_parameters", "compression", "backward_passes_per_step", "op")  # after the first argument
        options = {**dict(zip(names, args, strict=False)), **kwargs}
        self._check(options)
        if not dist.is_initialized():
            is_on_gpu = parameters[0].device.type == "cuda"
            dist.init_process_group("nccl" if is_on_gpu and dist.is_nccl_available() else "gloo")
        self._facts.backend = str(dist.get_backend())
        model = DistributedDataParallel(ParameterHolder(list(dict.fromkeys(parameters))))
        compression = options.get("compression", hvd.Compression.none)
        if compression in HOOKS:
            dist._register_comm_hook(model.reducer, None, HOOKS[compression])  # type: ignore[attr-defined]  # noqa: SLF001
        distributed = wrapped(optimizer, DdpOptimizer)
        is_sum = options.get("op", hvd.Average) == hvd.Sum
        distributed.attach(model, options.get("backward_passes_per_step", 1), factor=hvd.size() if is_sum else 1)
        return distributed

    def _check(self, options: dict[str, Any]) -> None:
        """Refuse options that DDP does not have."""
        if options.get("op", hvd.Average) not in {hvd.Average, hvd.Sum}:
            self._refusal.refuse(
                "the script combines gradients by Adasum, which DDP does not have; use op=hvd.Average for the "
                "comparison"
            )
        process_set = options.get("process_set", hvd.global_process_set)
        if process_set is not hvd.global_process_set:
            self._refusal.refuse(
                "the script's DistributedOptimizer has a process set of its own; optimizers that span all ranks can be "
                "compared"
            )
        compression = options.get("compression", hvd.Compression.none)
        if compression is not hvd.Compression.none and compression not in HOOKS:
            self._refusal.refuse(
                f"the script compresses gradients by {compression.__name__}, for which DDP has no counterpart; use "
                "hvd.Compression.none, fp16 or bf16 for the comparison"
            )


class DdpOptimizer(WrappedOptimizer):
    """An optimizer whose gradients DDP averages in the backward pass."""

    _model: DistributedDataParallel
    _passes_per_step: int
    _passes: int
    _is_armed: bool
    _factor: int

    def attach(self, model: DistributedDataParallel, passes_per_step: int, *, factor: int) -> None:
        """Take over the model that holds the parameters; called once, before anything else."""
        self._model = model
        self._passes_per_step = passes_per_step
        self._factor = factor
        self._passes, self._is_armed = 0, False
        first: Any = next(p for p in model.parameters() if p.requires_grad)  # the last that a backward pass reaches
        first.register_post_accumulate_grad_hook(self._count_pass)
        self._prepare()

    def synchronize(self) -> None:
        """Return at once: the backward pass has waited for the gradients."""

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Return an empty context: `step` does not synchronize here."""
        yield

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Change how many backward passes are accumulated, between two steps."""
        self._passes_per_step, self._passes = passes, 0
        self._prepare()

    def before_unscaling(self) -> None:
        """Return at once: the gradients are averaged, so that all ranks find the same overflow in them."""

    @counted_by_schedulers
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step with the averaged gradients, and let DDP wait for the next ones."""
        inner: Any = super()
        if closure is None:
            self._scale()
            result = inner.step()
        else:
            result = inner.step(self._armed(closure))
        self._passes = 0
        self._prepare()
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT002  (torch's signature)
        """Reset the gradients and the backward passes that were accumulated."""
        inner: Any = super()
        inner.zero_grad(set_to_none=set_to_none)
        self._passes = 0
        self._prepare()

    def _armed(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def armed_closure() -> Any:
            self._passes = 0
            self._prepare()
            with torch.enable_grad():
                loss = closure()
            self._scale()
            return _average_loss(loss)

        return armed_closure

    def _scale(self) -> None:
        """Turn averages into the sums that `op=Sum` asks for."""
        if self._factor != 1:
            gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
            torch._foreach_mul_(gradients, float(self._factor))

    def _count_pass(self, parameter: torch.Tensor) -> None:
        """Take note of a backward pass that is nearly over."""
        del parameter
        self._passes += 1
        self._is_armed = False
        if self._passes == self._passes_per_step - 1:
            engine: Any = torch.autograd.Variable._execution_engine  # noqa: SLF001  (there is no public name)
            engine.queue_callback(self._arm)

    def _prepare(self) -> None:
        """Let DDP reduce in the next backward pass, if that is the step's last."""
        if self._passes == self._passes_per_step - 1 and not self._is_armed:
            self._arm()

    def _arm(self) -> None:
        with torch.enable_grad():
            self._model()
        self._is_armed = True


def _average_loss(loss: Any) -> Any:
    """Return the mean of the ranks' losses, so that all repeat the closure equally often; other values unchanged."""
    if not isinstance(loss, torch.Tensor):
        return loss
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean / dist.get_world_size()
