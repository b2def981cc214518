# SPDX-License-Identifier: Apache-2.0
"""The options of DistributedOptimizer, each against training alone on the joined batch. Argument: the case."""

import copy
from functools import partial
from typing import Any

import torch

import ringtune.torch as hvd
from ringtune.session.session import SESSION
from tests.integration.joined_batch import (
    ROWS,
    STEPS,
    assert_same,
    batch,
    loss_of,
    make_model,
    own_part,
    sgd,
)
from tests.integration.plain_rank import expect_refusal
from tests.integration.torch_cases import main


def train(*, tolerance: float | None = None, **options: Any) -> dict[str, int]:
    """Train with options and alone; require agreement; return the engine's counts meanwhile."""
    ours, alone = make_model(), make_model()
    optimizer = hvd.DistributedOptimizer(sgd(ours.parameters()), ours.named_parameters(), **options)
    reference = sgd(alone.parameters())
    before = SESSION.require().engine.counters()
    for step in range(STEPS):
        inputs, targets = batch(step)
        for one in (optimizer, reference):
            one.zero_grad()
        loss_of(ours, own_part(inputs), own_part(targets)).backward()
        loss_of(alone, inputs, targets).backward()
        optimizer.step()
        reference.step()
    after = SESSION.require().engine.counters()
    if tolerance is None:
        assert_same(ours, alone)
    for mine, expected in zip(ours.parameters(), alone.parameters(), strict=True):
        assert torch.allclose(expected, mine, rtol=tolerance or 1e-4, atol=tolerance or 1e-6)
    return {name: count - before.get(name, 0) for name, count in after.items()}


def case_compression() -> None:
    """Gradients in 16 bits train almost alike, and half of the bytes travel."""
    plain = train()
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        narrow = train(compression=compression, tolerance=2e-2)
        saved = plain["bytes_reduced"] - narrow["bytes_reduced"]  # what ranks tell each other beside is not compressed
        assert saved == STEPS * sum(parameter.nbytes for parameter in make_model().parameters()) // 2, (plain, narrow)
    half = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([half], lr=1.0), compression=hvd.Compression.fp16)
    (half * (hvd.rank() + 1.0)).sum().backward()
    optimizer.step()
    assert half.dtype is torch.float64
    assert torch.equal(torch.full_like(half, 1.0 - (hvd.size() + 1) / 2), half.detach())


def case_predivide() -> None:
    """A predivide factor does not change the average."""
    train(gradient_predivide_factor=4.0)
    train(gradient_predivide_factor=0.5, compression=hvd.Compression.fp16, tolerance=2e-2)


def case_groups() -> None:
    """Groups by number or by lists train alike; a group waits for all of its members."""
    for options in ({"groups": 2}, {"num_groups": 3}, {"groups": 1}):
        train(**options)
    model: Any = make_model()
    lists = [list(model[0].parameters())]
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), groups=lists)
    for step in range(2):
        optimizer.zero_grad()
        inputs, targets = batch(step)
        loss_of(model, own_part(inputs), own_part(targets)).backward()
        optimizer.step()
    assert_same(model, model)


def case_sum() -> None:
    """Add gradients up with Sum."""
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), op=hvd.Sum)
    (parameter * (hvd.rank() + 1.0)).sum().backward()
    optimizer.step()
    assert torch.equal(torch.full((2,), -sum(range(1, hvd.size() + 1)) * 1.0), parameter.detach())


def words() -> torch.nn.Module:
    """Return an embedding with sparse gradients and a head, with equal weights on all ranks."""
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Embedding(20, 4, sparse=True), torch.nn.Flatten(), torch.nn.Linear(12, 1))


def case_sparse() -> None:
    """Sparse gradients stay sparse, whether they travel sparse, dense, or in a group, and a rank may have none."""
    for options in ({}, {"sparse_as_dense": True}, {"groups": 1}, {"compression": hvd.Compression.bf16}):
        ours: Any = words()
        alone = copy.deepcopy(ours)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(ours.parameters(), lr=0.1), named_parameters=ours.named_parameters(), **options
        )
        reference = torch.optim.SGD(alone.parameters(), lr=0.1)
        for step in range(STEPS):
            rows = torch.randint(0, 20, (ROWS * hvd.size(), 3), generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            reference.zero_grad()
            ours(own_part(rows)).mean().backward()
            alone(rows).mean().backward()
            optimizer.step()
            gradient = ours[0].weight.grad
            assert gradient is not None
            assert gradient.is_sparse
            reference.step()
        tolerance = 2e-2 if "compression" in options else 1e-5
        for mine, expected in zip(ours.parameters(), alone.parameters(), strict=True):
            assert torch.allclose(expected, mine, atol=tolerance), options
    ours = words()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(ours.parameters(), lr=0.1))
    for has_part in (True, hvd.rank() == 0):
        optimizer.zero_grad()
        if has_part:
            ours(torch.ones(1, 3, dtype=torch.int64)).sum().backward()
        optimizer.step()
    assert_same(ours, ours)


def case_sparse_bytes() -> None:
    """Count the gathered bytes of sparse gradients as gradient bytes of the step."""
    model = words()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    engine = SESSION.require().engine
    engine.begin_window(epoch=engine.config_epoch(), settle_steps=0, steps=2, limit_ms=0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.tensor([[1, 2, 3]])).sum().backward()
        optimizer.step()
    window = engine.next_window(timeout_s=60)
    assert window is not None
    assert window.void_reason is None
    assert 3 * (8 + 4 * 4) + 13 * 4 == window.bytes_per_step  # three rows with their indices, and the head


def case_adasum() -> None:
    """Ranks that do the same train as one would; ranks that differ end with the same bits; others adapt the steps."""
    ours, alone = make_model(), make_model()
    optimizer = hvd.DistributedOptimizer(sgd(ours.parameters()), ours.named_parameters(), op=hvd.Adasum)
    reference = sgd(alone.parameters())
    for step in range(STEPS):
        inputs, targets = batch(step)
        for model, one in ((ours, optimizer), (alone, reference)):
            one.zero_grad()
            loss_of(model, inputs, targets).backward()
            one.step()
    assert_same(ours, alone)
    for step in range(2):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        loss_of(ours, own_part(inputs), own_part(targets)).backward()
        optimizer.step()
    assert_same(ours, ours)
    expect_refusal("not possible", optimizer.skip_synchronize)
    orthogonal = torch.nn.Parameter(torch.zeros(hvd.size()))
    adding = hvd.DistributedOptimizer(torch.optim.SGD([orthogonal], lr=1.0), op=hvd.Adasum)
    orthogonal[hvd.rank()].backward()
    adding.step()
    assert torch.allclose(torch.full((hvd.size(),), -1.0), orthogonal.detach())


def case_process_set() -> None:
    """Gradients are averaged over the set alone; a rank outside steps on its own."""
    others = hvd.add_process_set(list(range(1, hvd.size()))) if hvd.size() > 1 else hvd.global_process_set
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), process_set=others)
    for _ in range(2):
        optimizer.zero_grad()
        (parameter * (hvd.rank() + 1.0)).sum().backward()
        optimizer.step()
    members = [rank + 1.0 for rank in others.ranks or []]
    mean = sum(members) / len(members) if others.included() else hvd.rank() + 1.0
    assert torch.allclose(torch.full((2,), -2 * mean), parameter.detach())
    if hvd.size() > 1:
        assert hvd.remove_process_set(others)


def case_passes() -> None:
    """The number of backward passes may change between steps."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    for passes in (1, 3):
        optimizer.set_backward_passes_per_step(passes)
        optimizer.zero_grad()
        for _ in range(passes):
            parameter.sum().backward()
        optimizer.step()
    assert torch.equal(torch.tensor([-4.0]), parameter.detach())
    expect_refusal("at least 1", lambda: optimizer.set_backward_passes_per_step(0))


def case_added() -> None:
    """A group of parameters that is added later is averaged as well."""
    first, second = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first], lr=1.0))
    optimizer.add_param_group({"params": [second]})
    ((first + second) * (hvd.rank() + 1.0)).sum().backward()
    optimizer.step()
    assert torch.allclose(torch.tensor([-(hvd.size() + 1) / 2]), second.detach())


def case_rejoined() -> None:
    """A step that was cut short by leaving the world does not disturb the next one, in the next world."""
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    inputs, targets = batch(0)
    loss_of(model, own_part(inputs), own_part(targets)).backward()
    hvd.barrier()  # by now every rank has submitted all gradients
    hvd.shutdown()
    hvd.init()
    optimizer.zero_grad()
    loss_of(model, own_part(inputs), own_part(targets)).backward()
    optimizer.step()
    assert_same(model, model)


def case_refusals() -> None:
    """Arguments that are not possible are errors at once."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    make: Any = hvd.DistributedOptimizer
    for words_of_error, options in (
        ("Max", {"op": hvd.Max}),
        ("gradient_predivide_factor", {"op": hvd.Sum, "gradient_predivide_factor": 2.0}),
        ("gradient_predivide_factor", {"gradient_predivide_factor": -1.0}),
        ("groups=", {"groups": -1}),
        ("at least 1", {"backward_passes_per_step": 0}),
    ):
        expect_refusal(words_of_error, partial(make, torch.optim.SGD([parameter], lr=1.0), **options))


if __name__ == "__main__":
    main(globals())
