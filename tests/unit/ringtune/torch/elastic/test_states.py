# SPDX-License-Identifier: Apache-2.0
"""States of torch's objects: saved values come back, exactly and in place. In a world of one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import ringtune.torch as hvd
from ringtune.elastic import Resize
from ringtune.errors import ConfigError
from ringtune.torch.elastic.snapshots import snapshot

SCHEDULERS = {
    "step": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2),
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
    "one cycle": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20),
    "lambda": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
    "cyclic": lambda optimizer: torch.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, cycle_momentum=False),
    "warm restarts": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5),
    "sequential": lambda optimizer: torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [torch.optim.lr_scheduler.LinearLR(optimizer), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)],
        [3],
    ),
    "chained": lambda optimizer: torch.optim.lr_scheduler.ChainedScheduler(
        [torch.optim.lr_scheduler.StepLR(optimizer, 2), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]
    ),
}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Join a world of one."""
    monkeypatch.setenv("AUTOTUNE_CACHE", "0")
    hvd.init()
    yield
    hvd.shutdown()


def trained(state: Any, steps: int) -> list[float]:
    """Train some steps, and return the weights after each."""
    weights = []
    for _ in range(steps):
        state.optimizer.zero_grad()
        state.model(torch.ones(3, 4)).square().sum().backward()
        state.optimizer.step()
        if hasattr(state, "scheduler"):
            state.scheduler.step()
        weights.append(float(state.model.weight.detach().sum()))
    return weights


def adamw_state(**values: Any) -> Any:
    """Return the state of a small training."""
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    made = {name: make(optimizer) for name, make in values.items()}
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    return hvd.elastic.TorchState(model, optimizer, **made)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_training_repeats_itself_after_a_restore(name: str) -> None:
    """The weights after a restore are those of the first time, with every kind of scheduler."""
    state = adamw_state(scheduler=SCHEDULERS[name])
    trained(state, 3)
    state.commit()
    first = trained(state, 4)

    state.restore()

    assert first == trained(state, 4)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_can_travel(name: str) -> None:
    """A synchronization takes every kind of scheduler."""
    state = adamw_state(scheduler=SCHEDULERS[name])
    trained(state, 3)

    state.sync()

    trained(state, 1)


def test_a_restore_changes_objects_in_place_and_replaces_values() -> None:
    """The model's parameters stay the same tensors; gradients are gone."""
    model = torch.nn.BatchNorm1d(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, best=torch.ones(2), losses=[1.0])
    state.commit()
    weight = model.weight
    model(torch.randn(8, 3)).square().sum().backward()
    optimizer.step()
    state.best.add_(1)
    state.losses.append(2.0)

    state.restore()

    assert weight is state.model.weight
    assert weight.grad is None
    assert torch.equal(torch.ones(3), weight)
    assert torch.equal(torch.zeros(3), model.state_dict()["running_mean"])
    assert {} == optimizer.state_dict()["state"]
    assert torch.equal(torch.ones(2), state.best)
    assert [1.0] == state.losses


def test_several_models_and_optimizers_are_kept() -> None:
    """Every module and optimizer among the keyword arguments comes back."""
    first, second = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    state = hvd.elastic.TorchState(generator=first, discriminator=second, steps=3)
    before = [first.weight.item(), second.weight.item()]
    with torch.no_grad():
        first.weight.add_(1)
        second.weight.add_(1)

    state.restore()

    assert before == [first.weight.item(), second.weight.item()]


def test_a_replaced_model_is_kept_at_once() -> None:
    """A model that is set as an attribute is saved as it is then."""
    state = hvd.elastic.TorchState(model=torch.nn.Linear(1, 1))
    state.model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        state.model.weight.zero_()

    state.restore()

    assert bool(state.model.weight.count_nonzero() == 2)


def test_a_scaler_forgets_the_step_that_was_interrupted() -> None:
    """A scaler that had unscaled when a rank was lost may unscale again, with the scale of the commit."""
    model = torch.nn.Linear(1, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    state = hvd.elastic.TorchState(model, optimizer, scaler=scaler)
    scaler.scale(model(torch.ones(1, 1)).sum()).backward()
    scaler.unscale_(optimizer)

    state.restore()

    scaler.scale(model(torch.ones(1, 1)).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert 8.0 == scaler.get_scale()


def test_a_module_with_a_process_group_is_refused(tmp_path: Path) -> None:
    """DistributedDataParallel does not survive a lost rank, and is told so."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
        with pytest.raises(ConfigError, match="'model' of the state is a DistributedDataParallel"):
            hvd.elastic.TorchState(model=model)
    finally:
        torch.distributed.destroy_process_group()


def test_the_learning_rate_follows_the_size_if_asked_to() -> None:
    """Scaling reaches the groups of all optimizers, and the initial rates of schedulers."""
    state = adamw_state(scheduler=SCHEDULERS["lambda"])

    hvd.elastic.scale_learning_rate(Resize(state, 2, 4))
    (group,) = state.optimizer.param_groups
    assert 0.1 == group["lr"]
    trained(state, 1)

    assert pytest.approx(0.09) == group["lr"]


def test_a_policy_is_asked_when_the_state_comes_from_another_size() -> None:
    """The policy gets both sizes after a synchronization, once."""
    asked: list[tuple[int, int]] = []
    state = hvd.elastic.TorchState(step=0)
    state.register_resize_policy(lambda resize: asked.append((resize.old_size, resize.new_size)))
    vars(state)["_size"] = 3

    state.sync()
    state.sync()

    assert [(3, 1)] == asked


def test_a_snapshot_uses_its_memory_again() -> None:
    """A later copy goes into the tensors of an earlier one where they fit, and shares no memory with its source."""
    tree: dict[str, Any] = {"a": torch.ones(3), "b": [torch.zeros(2), 1], "c": (None, "x")}
    first = snapshot(tree)
    memory = first["a"].data_ptr()
    tree["a"].add_(1)

    second = snapshot(tree, first)

    assert memory == second["a"].data_ptr()
    assert torch.equal(torch.full((3,), 2.0), second["a"])
    assert second["b"][0].data_ptr() != tree["b"][0].data_ptr()
    assert (None, "x") == second["c"]
