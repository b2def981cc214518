# SPDX-License-Identifier: Apache-2.0
"""Parameters that are frozen, unfrozen, added, replaced or not used, and how DistributedOptimizer combines them.

Each case ends as training alone on the joined batch would, or with the same error on every rank. Argument: the case.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

import ringtune.torch as hvd
from tests.integration.agreement import assert_equal_everywhere, fails_everywhere, on_rank
from tests.integration.joined_batch import STEPS, assert_same, batch, loss_of, make_model, own_part
from tests.integration.torch_cases import main

Make = Callable[[Any], torch.optim.Optimizer]

OPTIMIZERS: Sequence[Make] = (
    lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
    lambda parameters: torch.optim.Adam(parameters, lr=0.01, foreach=True),
    lambda parameters: torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.5, fused=True),
)


class Pair:
    """A model that is trained with the other ranks, and its like that is trained alone on the joined batch."""

    def __init__(self, make: Make, **options: Any) -> None:
        """Make both, with equal weights."""
        self.models: list[Any] = [make_model(), make_model()]
        self.make = make
        self.options = options
        self.optimizers: list[Any] = []

    def wrap(self) -> None:
        """Make the optimizers, one of them distributed."""
        ours, alone = (self.make(model.parameters()) for model in self.models)
        named = self.models[0].named_parameters()
        self.optimizers = [hvd.DistributedOptimizer(ours, named_parameters=named, **self.options), alone]

    def step(self, number: int, *, passes: int = 1) -> None:
        """Train one step."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        for part in range(passes):
            inputs, targets = batch(10 * number + part)
            loss_of(self.models[0], own_part(inputs), own_part(targets)).backward()
            loss_of(self.models[1], inputs, targets).backward()
        for optimizer in self.optimizers:
            optimizer.step()

    def each(self, change: Callable[[Any, Any], object]) -> None:
        """Change both models and their optimizers alike."""
        for model, optimizer in zip(self.models, self.optimizers, strict=True):
            change(model, optimizer)

    def assert_same(self) -> None:
        """Require the weights that were trained alone, and the same bits on all ranks."""
        assert_same(*self.models)


def case_unfrozen() -> None:
    """Layers that were frozen while the optimizer was wrapped are combined as soon as they are trained."""
    for make in OPTIMIZERS:
        for options in ({}, {"groups": 2}, {"backward_passes_per_step": 2}):
            pair = Pair(make, **options)
            for model in pair.models:
                model[0].requires_grad_(False)
            pair.wrap()
            for step in range(STEPS):
                if step in {2, 4}:
                    for model in pair.models:
                        model[0].requires_grad_(step == 2)
                pair.step(step, passes=options.get("backward_passes_per_step", 1))
            pair.assert_same()


def case_added_by_hand() -> None:
    """Parameters that are put into a group, or into the place of others, are combined from then on."""
    for make in OPTIMIZERS:
        pair = Pair(make)
        pair.wrap()
        pair.step(0)

        def extend(model: Any, optimizer: Any) -> None:
            torch.manual_seed(5)
            model.append(torch.nn.Linear(2, 2))
            optimizer.param_groups[0]["params"].extend(model[-1].parameters())

        def replace(model: Any, optimizer: Any) -> None:
            torch.manual_seed(6)
            model[0] = torch.nn.Linear(5, 16)
            optimizer.param_groups[0]["params"][:2] = list(model[0].parameters())

        for number, change in enumerate((extend, replace), start=1):
            pair.each(change)
            for step in range(2):
                pair.step(10 * number + step)
        pair.each(lambda model, optimizer: optimizer.param_groups[0]["params"].remove(model[0].weight))
        pair.step(30)
        pair.assert_same()


def case_frozen_later() -> None:
    """A layer that is frozen later keeps its value, and so does one that no rank uses, as in one process."""
    for make in OPTIMIZERS:
        for options in ({}, {"groups": 1}):
            pair = Pair(make, **options)
            unused = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
            pair.wrap()
            for parameter, optimizer in zip(unused, pair.optimizers, strict=True):
                optimizer.add_param_group({"params": [parameter]})
            pair.step(0)
            pair.each(lambda model, _: model[0].requires_grad_(False))
            frozen = pair.models[0][0].weight.clone()
            for step in range(1, 3):
                pair.step(step)
            pair.assert_same()
            assert torch.equal(frozen, pair.models[0][0].weight)
            assert [1.0, 1.0] == unused[0].tolist()
            assert unused[0].grad is None


def case_used_by_some() -> None:
    """A parameter that other ranks use in each step has the mean over all ranks; groups wait for all members."""
    for options in ({}, {"groups": 1}, {"backward_passes_per_step": 2}):
        parameters = [torch.nn.Parameter(torch.zeros(3)) for _ in range(hvd.size() + 1)]
        make: Any = hvd.DistributedOptimizer
        optimizer = make(torch.optim.SGD(parameters, lr=1.0), **options)
        for step in range(4):
            optimizer.zero_grad()
            chosen = (hvd.rank() + step) % hvd.size()
            for _ in range(options.get("backward_passes_per_step", 1)):
                parameters[chosen].sum().backward()
            optimizer.step()
            assert parameters[-1].grad is None
        passes = options.get("backward_passes_per_step", 1)
        for parameter in parameters[:-1]:
            assert torch.allclose(torch.full((3,), -4.0 * passes / hvd.size()), parameter.detach()), options


def case_two_models() -> None:
    """Two optimizers over parameters of the same names, trained against each other, as in one process."""
    pairs = [(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)) for _ in range(2)]
    for ours, alone in zip(*pairs, strict=True):
        hvd.broadcast_parameters(ours.state_dict(), root_rank=0)
        alone.load_state_dict(ours.state_dict())
    makers: Sequence[Make] = (lambda own: torch.optim.Adam(own, lr=0.01), lambda own: torch.optim.SGD(own, lr=0.1))
    optimizers = [[make(model.parameters()) for make, model in zip(makers, pair, strict=True)] for pair in pairs]
    optimizers[0] = [
        hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        for optimizer, model in zip(optimizers[0], pairs[0], strict=True)
    ]
    for step in range(STEPS):
        noise = torch.randn(4 * hvd.size(), 4, generator=torch.Generator().manual_seed(step))
        parts = (noise[4 * hvd.rank() : 4 * hvd.rank() + 4], noise)
        for part, (first, second), (generator, discriminator) in zip(parts, pairs, optimizers, strict=True):
            discriminator.zero_grad()
            (second(part).square().mean() - second(first(part).detach()).mean()).backward()
            discriminator.step()
            generator.zero_grad()
            second(first(part)).mean().backward()  # computes gradients of the discriminator's, which are thrown away
            generator.step()
    for ours, alone in zip(*pairs, strict=True):
        assert_same(ours, alone)


def case_shared() -> None:
    """A layer that two optimizers train has in each step the gradients that it has in one process."""
    torch.manual_seed(4)
    shared, *heads = (torch.nn.Parameter(torch.randn(4)) for _ in range(3))
    alone = [torch.nn.Parameter(parameter.detach().clone()) for parameter in (shared, *heads)]
    ours = [hvd.DistributedOptimizer(torch.optim.SGD([shared, head], lr=0.1, momentum=0.5)) for head in heads]
    reference = [torch.optim.SGD([alone[0], head], lr=0.1, momentum=0.5) for head in alone[1:]]
    for _ in range(3):
        for task in range(2):
            ours[task].zero_grad()
            (shared * heads[task] * (hvd.rank() + 1.0)).sum().backward()
            ours[task].step()
            reference[task].zero_grad()
            (alone[0] * alone[1 + task] * ((hvd.size() + 1) / 2)).sum().backward()
            reference[task].step()
    for mine, expected in zip((shared, *heads), alone, strict=True):
        assert torch.allclose(expected, mine, rtol=1e-5)
        assert_equal_everywhere(mine)


def case_wrapped_anew() -> None:
    """An optimizer that replaces another one over the same parameters trains them, whether the old one lives or not."""
    parameter = torch.nn.Parameter(torch.zeros(2))
    kept: list[Any] = []
    for _ in range(3):
        optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), [("weight", parameter)])
        if on_rank(0):
            kept.append(optimizer)
        for _ in range(2):
            optimizer.zero_grad()
            (parameter * (hvd.rank() + 1.0)).sum().backward()
            optimizer.step()
    assert torch.allclose(torch.full((2,), -6 * (hvd.size() + 1) / 2), parameter.detach())


def case_changed_form() -> None:
    """Parameters that change their dtype or their shape go on being combined, those in registered memory too."""
    for size in (10, 300):  # 360 kB: large enough for a home
        for change in ("dtype", "shape"):
            model = torch.nn.Linear(size, size)
            optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0))
            torch.nn.init.zeros_(model.weight)
            inputs = torch.full((1, size), hvd.rank() + 1.0)
            for step in range(6):
                optimizer.zero_grad()
                if step == 3 and change == "dtype":
                    model, inputs = model.double(), inputs.double()
                if step == 3 and change == "shape":
                    model.weight.data, inputs = model.weight.data[:, :-2].contiguous(), inputs[:, :-2]
                model(inputs).sum().backward()
                optimizer.step()
            assert torch.allclose(torch.full_like(model.weight, -6 * (hvd.size() + 1) / 2), model.weight)


def case_checkpointed() -> None:
    """A layer used twice under checkpointing trains; the reentrant kind is an error with its remedy, on all ranks."""
    layer = torch.nn.Linear(4, 4)
    hvd.broadcast_parameters(layer.state_dict(), root_rank=0)
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1))
    for is_reentrant, times in ((False, 2), (True, 1), (True, 2)):

        def run(reentrant: bool = is_reentrant, uses: int = times) -> None:
            hidden = torch.full((2, 4), hvd.rank() + 1.0, requires_grad=True)
            for _ in range(uses):
                hidden = checkpoint(layer, hidden, use_reentrant=reentrant)
            optimizer.zero_grad()
            hidden.sum().backward()
            optimizer.step()

        if is_reentrant and times > 1:
            fails_everywhere("use_reentrant=False", run)
        else:
            run()
    optimizer.zero_grad()
    layer(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    assert_equal_everywhere(layer.weight)


def case_adasum() -> None:
    """Combine parameters that are trained later with Adasum, keep unused ones, and report ranks that differ."""
    parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(3)]
    parameters[0].requires_grad_(False)
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.5), op=hvd.Adasum)
    late = torch.nn.Parameter(torch.ones(3))
    for step in range(4):
        if step == 1:
            parameters[0].requires_grad_(True)
        if step == 2:
            optimizer.param_groups[0]["params"].append(late)
        optimizer.zero_grad()
        ((parameters[0] + parameters[1] + late) * torch.tensor([1.0, hvd.rank() + 1.0, -1.0])).sum().backward()
        optimizer.step()
    for parameter in (*parameters, late):
        assert_equal_everywhere(parameter)
    assert torch.equal(torch.ones(3), parameters[2].detach())
    assert not torch.equal(torch.ones(3), late.detach())
    if on_rank(0):
        optimizer.param_groups[0]["params"].append(torch.nn.Parameter(torch.ones(1)))
    fails_everywhere("noname.0.4", optimizer.step)


def case_rank_alone() -> None:
    """A parameter that one rank's optimizer has and another's lacks is an error before the step, by name."""
    for is_replaced, named in ((False, "trains noname.0.4"), (True, "trains 2.bias")):
        model = make_model()
        optimizer: Any = hvd.DistributedOptimizer(OPTIMIZERS[0](model.parameters()), model.named_parameters())
        parameters = optimizer.param_groups[0]["params"]
        if on_rank(0):
            parameters[4 - is_replaced :] = [torch.nn.Parameter(torch.ones(2))]
        before = [parameter.detach().clone() for parameter in model.parameters()]
        loss_of(model, *batch(0)).backward()
        parameters[-1].grad = torch.ones(2)
        fails_everywhere(named, optimizer.step)
        for parameter, start in zip(model.parameters(), before, strict=True):
            assert torch.equal(start, parameter)
    late = torch.nn.Parameter(torch.ones(2))
    first = torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first], lr=1.0))
    first.sum().backward()
    optimizer.synchronize()
    optimizer.param_groups[0]["params"].append(late)
    late.grad = torch.full((2,), hvd.rank() + 1.0)
    with optimizer.skip_synchronize():
        fails_everywhere("noname.0.1 came into param_groups after synchronize()", optimizer.step)


if __name__ == "__main__":
    main(globals())
