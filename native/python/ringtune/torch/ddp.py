# SPDX-License-Identifier: Apache-2.0
"""A communication hook for `torch.nn.parallel.DistributedDataParallel`: its buckets go through this engine.

```python
torch.distributed.init_process_group("gloo")
hvd.init()
model = DistributedDataParallel(model)
model.register_comm_hook(hvd.DdpState(), hvd.ddp_hook)
```

Each bucket is one operation. Buckets are submitted while backward runs; with the last one, which ends the step, the
hook waits for all of them, as DDP itself would right after it. The first step has other buckets than the later ones:
to the tuner that is another tensor set.
"""

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]  # DDP asks for it in the annotation

from ringtune.errors import ConfigError, RingtuneError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import PLAIN_AVERAGE, start_allreduce, world_of
from ringtune.world.handles import Handle
from ringtune.world.world import World

from .buffers import buffer_of, check_tensor
from .step_ends import mark_step_end, note_gradient


class DdpState:
    """State of one model's hook between the buckets of a step. Make one per model, in one order on all ranks."""

    def __init__(self, process_set: ProcessSet = global_process_set) -> None:
        """Begin.

        Args:
            process_set: Ranks that take part gradients are averaged; those of the model's process group.
        """
        self._process_set = process_set
        self._world: World | None = None
        self._name = ""
        self._parameters = 0  # of the model, as far as the world was told
        self._is_told = False
        self._bucket_bytes: list[int] = []
        self._pending: list[tuple[Handle, torch.futures.Future[torch.Tensor], torch.Tensor]] = []

    def submit(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start to average a bucket; see `ddp_hook`."""
        world = self._joined_world()
        memory = check_tensor("the DDP hook", bucket.buffer())
        index = int(bucket.index())
        if index == 0:  # what is left from before is of a backward pass that failed
            self._pending, self._bucket_bytes = [], []
        self._bucket_bytes.append(memory.nbytes)
        if not self._is_told:  # later steps have the same gradients in other buckets
            for parameter in bucket.parameters():
                note_gradient(world, f"{self._name}.{self._parameters}", parameter)
                self._parameters += 1
        operand = buffer_of(memory).operand()
        # The future knows its device and so makes the stream that takes the bucket wait for the one that finished it.
        devices: list[int | str | torch.device] | None = [memory.device] if memory.is_cuda else None
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=devices)
        handle = start_allreduce(
            world, f"{self._name}.bucket.{index}", (operand, operand), PLAIN_AVERAGE, lambda _: None, is_gradient=True
        )
        self._pending.append((handle, future, memory))
        if bucket.is_last():
            self._finish(world)
        return future

    def _finish(self, world: World) -> None:
        """Wait for the step's buckets, hand them over, and mark the end of the step."""
        pending, self._pending = self._pending, []
        errors = []
        for handle, future, memory in pending:
            try:
                handle.wait()
            except RingtuneError as error:
                errors.append(error)
            future.set_result(memory)
        if errors:
            raise errors[0]
        self._is_told = True
        world.gradient_set.note_buckets(self._name, tuple(self._bucket_bytes))
        mark_step_end(world)

    def _joined_world(self) -> World:
        world = world_of(self._process_set)
        if world is not self._world:
            self._world = world
            self._name = world.handles.name_for("ddp", None)
            self._pending, self._bucket_bytes = [], []
            self._parameters, self._is_told = 0, False
        return world


def ddp_hook(state: DdpState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket of gradients over the ranks; for `model.register_comm_hook(hvd.DdpState(), hvd.ddp_hook)`.

    Args:
        state: State of this model.
        bucket: DDP's `GradBucket`.

    Returns:
        A future of the averaged bucket; done once the step's last bucket is.

    Raises:
        ConfigError: Without `init()`, with another state, or for gradients that are neither in CPU memory nor on a
            CUDA device.
        EngineError: If a bucket differs between ranks or the world is lost.
    """
    if not isinstance(state, DdpState):
        raise ConfigError(
            f"ddp_hook got {type(state).__name__} for its state; call model.register_comm_hook(hvd.DdpState(), "
            "hvd.ddp_hook)"
        )
    return state.submit(bucket)
