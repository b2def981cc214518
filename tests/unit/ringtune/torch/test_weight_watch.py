# SPDX-License-Identifier: Apache-2.0
"""Changes of weights are noticed, however they are written."""

from collections.abc import Callable

import pytest
import torch

from ringtune.torch.weight_watch import MOST_SAMPLES, WeightWatch


def watched(*shapes: tuple[int, ...]) -> tuple[WeightWatch, list[torch.nn.Parameter]]:
    """Return a watch over parameters of some shapes, all of which have got a gradient."""
    parameters = [torch.nn.Parameter(torch.ones(shape)) for shape in shapes]
    watch = WeightWatch()
    watch.begin(parameters)
    for parameter in parameters:
        if not watch.is_full:
            watch.sample(parameter)
    return watch, parameters


def in_place(parameter: torch.nn.Parameter) -> None:
    """Write as optimizers do."""
    with torch.no_grad():
        parameter.add_(0.5)


def replaced(parameter: torch.nn.Parameter) -> None:
    """Give the parameter other memory."""
    parameter.data = parameter.data + 0.5


def through_data(parameter: torch.nn.Parameter) -> None:
    """Write so that torch does not count it."""
    parameter.data.add_(0.5)


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4, 4), (7,), ()])
@pytest.mark.parametrize("write", [in_place, replaced, through_data])
def test_a_change_is_noticed(write: Callable[[torch.nn.Parameter], None], shape: tuple[int, ...]) -> None:
    """The values matter where torch has not counted the write, so that the step need not wait for a GPU."""
    watch, parameters = watched(shape)
    before = watch.was_written(), watch.has_moved()

    write(parameters[0])

    assert (False, False) == before
    assert (write is not through_data, True) == (watch.was_written(), watch.has_moved())


def test_writes_are_counted_of_all_parameters() -> None:
    """Elements are kept of some parameters alone, versions of all."""
    watch, parameters = watched(*[(2, 2)] * (MOST_SAMPLES + 2))

    in_place(parameters[-1])

    assert watch.has_moved()


def test_nothing_has_moved_after_the_end() -> None:
    """Writes that follow a step are not told."""
    watch, parameters = watched((2, 2), (2,))

    watch.end()
    through_data(parameters[0])

    assert (False, False, False) == (watch.is_on, watch.was_written(), watch.has_moved())
