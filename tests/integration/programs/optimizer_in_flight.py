# SPDX-License-Identifier: Apache-2.0
"""Changes to gradients and to the optimizer between backward() and step(): allowed ones, and errors on all ranks.

Each case ends as training alone on the joined batch would, or with the same error on every rank. Argument: the case.
"""

import copy
import io
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

import ringtune.torch as hvd
from tests.integration.agreement import assert_equal_everywhere, fails_everywhere, on_rank
from tests.integration.joined_batch import STEPS, assert_same, batch, loss_of, make_model, own_part
from tests.integration.torch_cases import main

Change = Callable[[torch.nn.Module], object]


def halve(model: torch.nn.Module) -> None:
    """Write to the gradients."""
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.mul_(0.5)


def replace(model: torch.nn.Module) -> None:
    """Put other gradients in the place of those in flight."""
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad = parameter.grad.clone()


def replace_memory(model: torch.nn.Module) -> None:
    """Put other memory into the gradients in flight."""
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.data = torch.zeros_like(parameter)


CHANGES: Sequence[Change] = (
    halve,
    replace,
    replace_memory,
    lambda model: model.zero_grad(),
    lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1),
    lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9),
    lambda model: torch.nn.utils.clip_grad_value_(model.parameters(), 0.1),
)


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer that trains the model alone."""
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def distributed(model: torch.nn.Module, **options: Any) -> Any:
    """Return a distributed optimizer that trains the model."""
    return hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters(), **options)


def number_of(loss: Any) -> float:
    """Return a closure's result as a number."""
    return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)


def backward(model: torch.nn.Module, step: int = 0) -> None:
    """Compute this rank's gradients."""
    inputs, targets = batch(step)
    loss_of(model, own_part(inputs), own_part(targets)).backward()


def case_changed() -> None:
    """Gradients that one rank changes in flight are an error on every rank, before the step; then all goes on."""
    for options in ({}, {"compression": hvd.Compression.fp16}, {"groups": 2}):
        model = make_model()
        optimizer = distributed(model, **options)
        for change in CHANGES:
            before = [parameter.detach().clone() for parameter in model.parameters()]
            backward(model)
            if on_rank(hvd.size() - 1):
                change(model)
            fails_everywhere("synchronize(); ...; with optimizer.skip_synchronize()", optimizer.step)
            assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
            optimizer.zero_grad()
            backward(model)
            optimizer.step()
            optimizer.zero_grad()
            assert_same(model, model)


def case_changed_sparse() -> None:
    """Treat changed sparse gradients like dense ones."""
    table = torch.nn.Embedding(8, 3, sparse=True)
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.1))
    table(torch.tensor([1, 2])).sum().backward()
    if on_rank(0):
        assert table.weight.grad is not None
        table.weight.grad *= 2.0
    fails_everywhere("call synchronize() first", optimizer.step)


def case_accumulated() -> None:
    """Between the passes that are accumulated, gradients may be changed and thrown away; counting begins anew."""
    model, alone = make_model(), make_model()
    optimizer, reference = distributed(model, backward_passes_per_step=2), sgd(alone)
    resets: Sequence[Callable[[], object]] = (
        optimizer.zero_grad,
        model.zero_grad,
        lambda: (optimizer.load_state_dict(optimizer.state_dict()), optimizer.zero_grad()),
    )
    for reset in resets:
        backward(model)
        reset()
        reference.zero_grad()
        for part in range(2):
            backward(model, part)
            if part == 0:
                halve(model)
            loss_of(alone, *batch(part)).backward()
            if part == 0:
                halve(alone)
        optimizer.step()
        reference.step()
        optimizer.zero_grad()
        assert_same(model, alone)


def case_thrown_away() -> None:
    """Gradients in flight may be thrown away, on all ranks; where others step with them all ranks get an error."""
    model, alone = make_model(), make_model()
    optimizer, reference = distributed(model), sgd(alone)
    backward(model, 7)
    optimizer.zero_grad()
    backward(model, 8)
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    backward(model)
    loss_of(alone, *batch(0)).backward()
    optimizer.step()
    reference.step()
    assert_same(model, alone)
    optimizer.zero_grad()
    backward(model)
    if hvd.size() > 1:
        fails_everywhere("on all ranks alike", optimizer.zero_grad if on_rank(0) else optimizer.step)
    optimizer.zero_grad()
    backward(model)
    model.zero_grad()
    fails_everywhere("call zero_grad() of this optimizer instead", lambda: backward(model))


def case_synchronized() -> None:
    """synchronize() twice, or step() after it, is a warning and combines no gradient again; without it, an error."""
    model, alone = make_model(), make_model()
    optimizer, reference = distributed(model, op=hvd.Sum), sgd(alone)
    for step in range(2):
        optimizer.zero_grad()
        reference.zero_grad()
        backward(model, step)
        (loss_of(alone, *batch(step)) * hvd.size()).backward()
        reference.step()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optimizer.synchronize()
            assert not caught
            optimizer.synchronize()
            optimizer.step()
        twice, without_context = [str(each.message) for each in caught]
        assert "called twice" in twice
        assert "step() called without optimizer.skip_synchronize() context" in without_context
        assert_same(model, alone)
    optimizer.zero_grad()
    backward(model)
    with optimizer.skip_synchronize():
        fails_everywhere("call synchronize() first", optimizer.step)
    optimizer.set_backward_passes_per_step(2)
    optimizer.zero_grad()
    backward(model)
    with optimizer.skip_synchronize():  # nothing is in flight, but gradients are this rank's alone
        fails_everywhere("call synchronize() first", optimizer.step)


def case_scaler() -> None:
    """A GradScaler scales and skips alike on all ranks, as in one process, in every order of calls."""
    for fused in (False, True):
        for order in (step_alone, unscale_and_clip, synchronize_and_clip):
            models = [make_model(), make_model()]
            optimizers: list[Any] = [torch.optim.AdamW(m.parameters(), lr=0.01, fused=fused) for m in models]
            optimizers[0] = hvd.DistributedOptimizer(optimizers[0], named_parameters=models[0].named_parameters())
            scalers = [torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2) for _ in models]
            for step in range(STEPS):
                inputs, targets = batch(step)
                if step in {1, 4}:
                    inputs[-1, 0] = float("inf")  # of the last rank
                parts = ((own_part(inputs), own_part(targets)), (inputs, targets))
                for model, optimizer, scaler, part in zip(models, optimizers, scalers, parts, strict=True):
                    optimizer.zero_grad()
                    scaler.scale(loss_of(model, *part)).backward()
                    with warnings.catch_warnings():
                        warnings.simplefilter("error")
                        order(model, optimizer, scaler)
                    scaler.update()
                assert scalers[0].get_scale() == scalers[1].get_scale(), (fused, order, step)
            assert_same(*models)


def step_alone(model: torch.nn.Module, optimizer: Any, scaler: Any) -> None:
    """Step as the simplest loop does."""
    del model
    scaler.step(optimizer)


def unscale_and_clip(model: torch.nn.Module, optimizer: Any, scaler: Any) -> None:
    """Clip unscaled gradients, as torch's documentation has it."""
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    scaler.step(optimizer)


def synchronize_and_clip(model: torch.nn.Module, optimizer: Any, scaler: Any) -> None:
    """Clip as Horovod's documentation has it."""
    if not hasattr(optimizer, "synchronize"):
        unscale_and_clip(model, optimizer, scaler)
        return
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)


def case_scaler_adasum() -> None:
    """Skip the step of all ranks at an overflow on one of them with Adasum."""
    for fused in (False, True):
        for order in (step_alone, unscale_and_clip):
            model = make_model()
            optimizer = hvd.DistributedOptimizer(
                torch.optim.SGD(model.parameters(), lr=0.1, fused=fused), op=hvd.Adasum
            )
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
            for step in range(3):
                inputs, targets = batch(step)
                if step == 1:
                    inputs[-1, 0] = float("inf")
                optimizer.zero_grad()
                scaler.scale(loss_of(model, own_part(inputs), own_part(targets))).backward()
                before = [parameter.detach().clone() for parameter in model.parameters()]
                order(model, optimizer, scaler)
                scaler.update()
                moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
                assert [step != 1] * 4 == moved, (fused, step, moved)
            assert scaler.get_scale() == 4.0
            assert_same(model, model)


def case_one_state() -> None:
    """Schedulers made before wrapping and after it set the rate in force, and loaded state is seen by all of them."""
    for is_broadcast in (True, False):
        models = [make_model(), make_model()]
        inner, reference = (torch.optim.Adam(model.parameters(), lr=0.1) for model in models)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            before = torch.optim.lr_scheduler.StepLR(inner, 1, 0.5)
            optimizer = hvd.DistributedOptimizer(inner, named_parameters=models[0].named_parameters())
            after = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
            expected = [
                torch.optim.lr_scheduler.StepLR(reference, 1, 0.5),
                torch.optim.lr_scheduler.ExponentialLR(reference, 0.9),
            ]
            if is_broadcast:
                hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            else:
                optimizer.load_state_dict(optimizer.state_dict())
            for step in range(3):
                optimizer.zero_grad()
                reference.zero_grad()
                backward(models[0], step)
                loss_of(models[1], *batch(step)).backward()
                optimizer.step()
                reference.step()
                for scheduler in (before, after, *expected):
                    scheduler.step()
        assert inner.param_groups is optimizer.param_groups
        assert inner.state is optimizer.state
        assert [reference.param_groups[0]["lr"]] * hvd.size() == hvd.allgather_object(inner.param_groups[0]["lr"])
        assert before.get_last_lr() == expected[0].get_last_lr()
        assert_same(*models)
    replaced: Any = sgd(models[0])
    replaced.step = partial(type(replaced).step, replaced)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hvd.DistributedOptimizer(replaced)
    assert "Replace it after wrapping" in str(caught[0].message)


def case_copied() -> None:
    """Copies and saves of the optimizer raise an error that names the object to save instead, and that works."""
    model = make_model()
    for options in ({}, {"op": hvd.Adasum}):
        optimizer = distributed(model, **options)
        backward(model)
        optimizer.step()
        optimizer.zero_grad()
        fails_everywhere("save optimizer.state_dict()", lambda o=optimizer: copy.deepcopy(o))  # type: ignore[misc]
        fails_everywhere("save optimizer.state_dict()", lambda o=optimizer: copy.copy(o))  # type: ignore[misc]
        fails_everywhere("save optimizer.state_dict()", lambda o=optimizer: torch.save(o, io.BytesIO()))  # type: ignore[misc]
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        resumed = distributed(model, **options)
        resumed.load_state_dict(torch.load(file))
        assert repr(optimizer.state_dict()) == repr(resumed.state_dict())


def case_losses() -> None:
    """Closures may return a tensor, a number, or a scalar of numpy's: ranks decide alike by their mean."""
    torch.set_default_dtype(torch.float64)
    forms: Sequence[tuple[type, Callable[[torch.Tensor], Any]]] = (
        (torch.Tensor, lambda loss: loss),
        (float, lambda loss: loss.item()),
        (np.float64, lambda loss: np.float64(loss.item())),
        (float, lambda loss: np.array(loss.item())),
        (type(None), lambda loss: None),
    )
    for kind, form in forms:
        ours, alone = make_model(), make_model()
        search = None if kind is type(None) else "strong_wolfe"
        make = torch.optim.LBFGS if search else torch.optim.SGD
        keywords: dict[str, Any] = {"line_search_fn": search} if search else {}
        optimizer: Any = hvd.DistributedOptimizer(make(ours.parameters(), lr=0.5, **keywords), ours.named_parameters())
        reference: Any = make(alone.parameters(), lr=0.5, **keywords)
        expected: Any
        for step in range(3):
            inputs, targets = batch(step)

            def compute(model: Any, owner: Any, rows: Any, wanted: Any, form: Any = form) -> Any:
                owner.zero_grad()
                loss = loss_of(model, rows, wanted)
                loss.backward()
                return form(loss)

            mine = (own_part(inputs), own_part(targets))
            result = optimizer.step(lambda o=ours, p=optimizer, m=mine: compute(o, p, *m))
            expected = reference.step(lambda o=alone, p=reference, x=inputs, y=targets: compute(o, p, x, y))
            assert isinstance(result, kind), result
            assert expected is None or abs(number_of(expected) - number_of(result)) < 1e-9
        assert_same(ours, alone)
    torch.set_default_dtype(torch.float32)


def case_clipped_in_closure() -> None:
    """A closure may clip after synchronize(); without it all ranks get an error."""
    model = make_model()
    optimizer = distributed(model)

    def closure(*, is_synchronized: bool) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, *(own_part(rows) for rows in batch(0)))
        loss.backward()
        if is_synchronized:
            optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        return loss

    optimizer.step(lambda: closure(is_synchronized=True))
    assert_equal_everywhere(next(model.parameters()))
    fails_everywhere("call synchronize() first", lambda: optimizer.step(lambda: closure(is_synchronized=False)))


if __name__ == "__main__":
    main(globals())
